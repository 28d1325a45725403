"""Laws of models that answer questions about images: neighbours, sizes, saving, and resuming with augmentation."""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from tests.shared.refusals import refuses

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.data.batches.images import ImageCollator, ImageQuestionBatch, ImageQuestionCollator
from heedful.data.builtin.scenes import NUMBERS, scenes
from heedful.data.builtin.scenes_drawing import draw_scene
from heedful.data.corpora.images import ImageQuestion
from heedful.data.prepare.images import asked_streams
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.from_recipe.network import build_network
from heedful.models.images import ImageAnswerer as Network
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.runs.training_run import train
from heedful.tasks.answer.model import Reader
from heedful.tasks.classify.image_models import ImageAnswerer
from heedful.tasks.classify.objective import OneLabel, move_asked_images

MODELS: dict[str, dict[str, Any]] = {
    "looking": {
        "encoder": {"family": "vit", "width": 16, "heads": 2, "layers": 1, "inner": 16, "patch": 16, "grid": 4},
        "question": {"family": "transformer", "width": 12, "heads": 2, "layers": 2, "inner": 16, "norm": "pre"},
    },
    "blind": {
        "encoder": {"family": "convolutional", "width": 8, "stages": 4, "depth": 1},
        "question": {"family": "recurrent", "width": 6},
        "join": "alternating",
    },
}


def recipe_of(model: str, steps: int) -> Recipe:
    asked = {"builtin": "scenes", "questions": 3}
    return recipe_from_json(
        {
            "data": {
                "train": [{**asked, "count": 30}],
                "test": [{**asked, "part": "test", "count": 10}],
                "batch_tokens": 800,
                "max_length": 20,
            },
            "tokenizer": {"kind": "word"},
            "model": {"family": "image_answerer", **MODELS[model]},
            "train": {
                "steps": steps,
                "schedule": {"kind": "constant", "lr": 0.001},
                "augmentation": {"shift": 3, "rotation": 5.0, "crop": 0.8, "flip": True},
                "checkpoint_every": 2,
                "validation": {"every": 100},
                "device": "cpu",
                "precision": "float32",
                "threads": 1,
            },
        },
        "recipe",
    )


def _quietly(recipe: Recipe, out: Path, resume: bool = False) -> Path:
    train(recipe, out, resume=resume, console=Console(file=StringIO()))
    return out


@pytest.fixture(scope="module", params=MODELS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, _quietly(recipe_of(request.param, 5), tmp_path_factory.mktemp("answers") / "run")


@pytest.fixture
def model(trained: tuple[str, Path]) -> ImageAnswerer:
    return ImageAnswerer.load(trained[1], device="cpu")


def test_a_run_that_was_stopped_resumes_bit_identically_with_augmentation(
    trained: tuple[str, Path], tmp_path: Path
) -> None:
    name, whole = trained  # without validation data, the model is the last one
    _quietly(recipe_of(name, 2), tmp_path / "run")
    _quietly(recipe_of(name, 5), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_one_question_or_several_about_one_image_or_each_about_its_own(model: ImageAnswerer, tmp_path: Path) -> None:
    (scene,) = scenes("test", 1)
    pixels, asked = draw_scene(scene), [question.question for question in scene.questions]
    Image.fromarray(pixels).save(tmp_path / "it.png")
    alone = [model.answer(question, pixels) for question in asked]
    assert _close(model.answer(asked, Image.fromarray(pixels)), alone)
    assert _close(model.answer(asked, [tmp_path / "it.png"] * len(asked)), alone)
    assert model.answer([], pixels) == []
    for found in alone:
        assert found.text in model.answers
        assert found.probability == max(found.probabilities.values())
        assert sum(found.probabilities.values()) == pytest.approx(1)
        assert next(iter(found.probabilities)) == found.text


def test_neighbours_of_other_sizes_and_other_questions_do_not_change_an_answer(model: ImageAnswerer) -> None:
    small, large = (draw_scene(scene, size) for scene, size in zip(scenes("test", 2), (40, 90), strict=True))
    short, long = "how many things are there ?", "is the red star left of the blue circle ?"
    alone = [model.answer(short, small), model.answer(long, large), model.answer(long, small)]
    assert _close(model.answer([short, long, long], [small, large, small]), alone)
    assert _close(model.answer([short, long], small), [alone[0], alone[2]])


def test_evaluation_is_that_of_its_answers_and_by_kind(model: ImageAnswerer) -> None:
    rows: list[Any] = [
        (draw_scene(scene), "how many things are there ?", NUMBERS[len(scene.things)], "number")
        for scene in scenes("test", 6)
    ]
    rows += [(draw_scene(scene), "what is it ?", "a scene", "odd") for scene in scenes("test", 2)]
    scored = model.evaluate(rows)
    found = model.answer([row[1] for row in rows], [row[0] for row in rows])
    right = sum(said.text == row[2] for said, row in zip(found, rows, strict=True))
    assert scored.result.accuracy == pytest.approx(right / 8)
    assert scored.by_kind() == {"number": (right, 6), "odd": (0, 2)}
    assert scored.unknown == 2
    shown = scored.to_json()
    assert (shown["questions"], shown["unknown_answers"]) == (8, 2)
    assert scored.remarks()[1] == "2 answers that training never has, which count as wrong"
    assert scored.remarks()[3].split() == ["kind", "accuracy", "questions"]
    assert next(scored.outputs()).split("\t")[0] == rows[0][2]


def test_what_cannot_be_answered_is_refused(model: ImageAnswerer) -> None:
    black = np.zeros((16, 16, 3), np.uint8)
    with refuses("`questions` is one question, so `images` must be one image."):
        model.answer("why ?", [black, black])
    with refuses("`answer`: the question is empty:..."):
        model.answer(" ", black)
    with refuses("2 questions, but 1 image: each question needs one."):
        model.answer(["why ?", "who ?"], [black])
    with refuses("data, row 1 must be an image, a question and its answer."):
        model.evaluate([(black, "why ?")])  # type: ignore[list-item]
    with refuses("data has no question to answer."):
        model.evaluate([])


def test_a_reader_of_texts_does_not_load_one_of_images(trained: tuple[str, Path]) -> None:
    with refuses("...is a model that answers questions about images: load it with `heedful.ImageAnswerer.load(..."):
        Reader.load(trained[1], device="cpu")


def _close(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return len(found) == len(wanted) and all(
        one.text == other.text and one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
        for one, other in zip(found, wanted, strict=True)
    )


def _batch(model: ImageAnswerer, count: int, longest: int = 20) -> ImageQuestionBatch:
    """A batch of scenes with their questions, the last question's answer unknown."""
    drawn = [*scenes("train", count)]
    asked = [[ImageQuestion(q.question, q.answer) for q in scene.questions[: 1 + n]] for n, scene in enumerate(drawn)]
    streams = asked_streams([draw_scene(scene) for scene in drawn], asked, model.vocabularies["text"], TextForm())
    known = {answer: number for number, answer in enumerate(model.answers)}
    labels = [[known.get(q.answer, len(known)) for q in several] for several in asked]
    labels[-1][-1] = len(known)
    store = TokenStore({**streams, "label": Ragged.of(labels)})
    encoder: Any = model.recipe.model
    images = ImageCollator(encoder.encoder.patch, encoder.encoder.class_token)
    collator = ImageQuestionCollator(images, longest, len(known))
    batch = collator.batch([store], np.arange(count))
    (costs,) = collator.costs([store], np.arange(count))
    assert costs.sum() == batch.tokens
    return batch


def test_a_batch_has_the_questions_of_an_image_together_cut_to_the_longest_length(model: ImageAnswerer) -> None:
    batch = _batch(model, 3, longest=6)
    asked = batch.inputs
    assert batch.sentences == 6
    assert asked.owners.tolist() == [0, 1, 1, 2, 2, 2]
    assert asked.questions.layout.lengths.tolist() == [6] * 6  # every question has more than four words
    assert asked.together.lengths.tolist() == [6, 12, 18]
    assert batch.labels[-1] == -100
    assert (batch.labels[:-1] >= 0).all()


def test_weights_of_words_and_patches_sum_to_one(model: ImageAnswerer) -> None:
    batch = _batch(model, 3)
    words, patches = model.network.eval().weights(batch.inputs)
    assert torch.allclose(words.sum(1), torch.ones(6))
    assert torch.allclose(patches.sum(1), torch.ones(6))


def test_a_model_overfits_a_few_questions(model: ImageAnswerer) -> None:
    torch.manual_seed(1)
    network = build_network(model.recipe.model, Vocabularies(model.vocabularies.tokenizers, model.answers))
    assert isinstance(network, Network)
    batch = _batch(model, 3)
    objective: Any = OneLabel(0.0, change=move_asked_images(Augmentation()))
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = objective(network, batch).loss
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert objective.units(batch) == 6
    assert losses[-1] < losses[0] / 2
