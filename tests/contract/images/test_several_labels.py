"""Classifiers of images with several labels: what they read, their loss, and a run from images to scores."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from tests.contract.images.test_classifiers import recipe_of
from tests.shared.refusals import refuses

from heedful.base.packed import IGNORED
from heedful.cli.main import run
from heedful.config.corpora.containers import Builtin, Csv, Jsonl, Npz
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.data.batches.images import ImageCollator
from heedful.data.collate import StaticShape
from heedful.data.corpora.images import read_images
from heedful.data.prepare.images import image_streams
from heedful.data.token_store import TokenStore
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.runs.train import train
from heedful.tasks.classify.image_models import ImageClassifier
from heedful.tasks.classify.objective import SeveralLabels, augment_images
from heedful.tasks.classify.task import ClassifyImagesTask


def several(steps: int) -> Recipe:
    """Which colours are in a scene."""
    values: Any = recipe_to_json(recipe_of("convolutional", steps))
    values["model"]["labels"] = "several"
    for split in ("train", "test"):
        values["data"][split][0]["label"] = "colour"
    values["data"]["valid"] = [{"builtin": "scenes", "label": "colour", "part": "valid", "count": 8}]
    return recipe_from_json(values, "recipe")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _quietly(several(5), tmp_path_factory.mktemp("several") / "run")


def _quietly(recipe: Recipe, out: Path, resume: bool = False) -> Path:
    train(recipe, out, resume=resume, console=Console(file=StringIO()))
    return out


# --- labels -----------------------------------------------------------------------------------------------------------


def test_tables_json_lines_arrays_and_scenes_give_any_number_of_labels(tmp_path: Path) -> None:
    for name in "ab":
        Image.new("L", (4, 4)).save(tmp_path / f"{name}.png")
    (tmp_path / "rows.csv").write_text('path,tags\na.png,"red, round,red"\nb.png,\n')
    (tmp_path / "rows.jsonl").write_text(
        '{"path": "a.png", "tags": ["red", 7]}\n{"path": "b.png", "tags": []}\n{"path": "b.png", "tags": "red"}\n'
    )
    np.savez(tmp_path / "rows.npz", x=np.zeros((2, 4, 4), np.uint8), y=np.array(["red,blue", ""]))
    corpora = (
        (Csv(csv="rows.csv", image="path", label="tags"), [("red", "round"), ()]),
        (Jsonl(jsonl="rows.jsonl", image="path", label="tags"), [("red", "7"), (), ("red",)]),
        (Npz(npz="rows.npz"), [("red", "blue"), ()]),
    )
    for corpus, expected in corpora:
        assert [image.labels for image in read_images(corpus, str(tmp_path), several=True)] == expected
    for image in read_images(Builtin(builtin="scenes", label="shape", count=5), several=True):
        assert sorted(image.labels) == sorted({thing.shape for thing in image.source.things})  # type: ignore[union-attr]


def test_a_list_of_labels_where_an_image_has_one_is_refused_with_the_key_that_allows_it(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"path": "a.png", "tags": ["red"]}\n')
    corpus = Jsonl(jsonl="rows.jsonl", image="path", label="tags")
    with refuses('...rows.jsonl, line 1: field `tags` is a list, ... lists set `model.labels = "several"`.'):
        list(read_images(corpus, str(tmp_path)))


# --- the loss ---------------------------------------------------------------------------------------------------------


def test_the_loss_is_that_of_every_class_by_itself_and_images_that_fill_up_do_not_count() -> None:
    images = [np.full((4, 4, 1), 9, np.uint8)] * 3
    store, rows = TokenStore(image_streams(images, [[0, 2], [], [1]])), np.arange(3)
    batch = ImageCollator(4, False, classes=3).batch([store], rows, StaticShape.rows(5, 1))
    assert batch.labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [IGNORED] * 3, [IGNORED] * 3]
    assert batch.labels_of_rows() == [[0, 2], [], [1]]
    scores, smoothing, weight = torch.randn(5, 3), 0.2, torch.tensor([1.0, 2.0, 3.0])
    objective = SeveralLabels(smoothing, weight, augment_images(Augmentation(), 3))
    predicted = objective.predict(lambda images: scores, batch)
    expected, likelihood = 0.0, 0.0
    for row, truth in zip(scores[:3].double().sigmoid().tolist(), batch.labels.tolist(), strict=False):
        for p, aim, factor in zip(row, truth, weight.tolist(), strict=True):
            soft = aim * (1 - smoothing) + smoothing / 2
            expected -= factor * soft * np.log(p) + (1 - soft) * np.log(1 - p)
            likelihood -= np.log(p if aim else 1 - p)
    sums = objective.score(predicted, batch)
    assert float(sums.loss) == pytest.approx(expected, rel=1e-5)
    assert float(sums.likelihood) == pytest.approx(likelihood, rel=1e-5)


def test_mixed_images_have_mixed_labels_and_those_that_fill_up_are_not_mixed_in() -> None:
    images = [np.full((4, 4, 1), 9, np.uint8)] * 2
    batch = ImageCollator(4, False, classes=2).batch(
        [TokenStore(image_streams(images, [[0, 1], [1]]))], np.arange(2), StaticShape.rows(3, 1)
    )
    torch.manual_seed(0)
    labels = SeveralLabels(0.0, change=augment_images(Augmentation(mixup=1.0), 2)).draw(batch).labels
    assert labels[0].tolist() == [1, 1]  # the one before it, the last, fills up
    assert labels[1, 1] == 1
    assert 0 < labels[1, 0] <= 0.5
    assert (labels[2] < 0).all()


# --- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_with_several_labels_resumes_bit_identically(trained: Path, tmp_path: Path) -> None:
    _quietly(several(2), tmp_path / "run")
    _quietly(several(5), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_answers_and_scores_are_those_of_a_classifier_of_texts(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ImageClassifier.load(trained, device="cpu")
    assert model.several
    assert any(fact.startswith("several labels of ") for fact in model._own_facts())
    scenes = Builtin(builtin="scenes", label="colour", part="test", count=4)
    images = list(read_images(scenes, several=True))
    found = list(model.stream_images(images))
    for one in found:
        assert set(one.labels) == {label for label, share in one.probabilities.items() if share > 0.5}
    result = model.evaluate([(image.pixels(3), list(image.labels)) for image in images])
    exact = [set(one.labels) == set(image.labels) for one, image in zip(found, images, strict=True)]
    assert [score.value for score in result.scores() if score.name == "accuracy"] == [sum(exact) / 4]
    assert "micro_f1" in {score.name for score in result.scores()}
    corpus = ClassifyImagesTask().evaluate(model, scenes)
    assert corpus.to_json()["micro_f1"] == result.to_json()["micro_f1"]
    explained = model.explain(images[0].pixels(3))
    assert explained.output == ", ".join(found[0].labels)
    assert explained.classes == pytest.approx(found[0].probabilities, abs=1e-5)
    Image.fromarray(images[0].pixels(3)).save(tmp_path / "one.png")
    assert run(["classify", str(trained), str(tmp_path / "one.png"), "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == list(found[0].labels)
