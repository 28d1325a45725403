"""Laws of classifiers of images, for every encoder: neighbours, saving, and resuming with augmentation."""

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
from heedful.data.batches.images import ImageCollator
from heedful.data.builtin.scenes import scenes
from heedful.data.builtin.scenes_drawing import draw_scene
from heedful.data.prepare.images import image_streams
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import Classifier
from heedful.nn.layers.images.augmentation import Augmentation
from heedful.runs.training_run import train
from heedful.tasks.classify.image_models import ImageClassifier
from heedful.tasks.classify.model import TextClassifier
from heedful.tasks.classify.objective import OneLabel, augment_images

ENCODERS: dict[str, dict[str, Any]] = {
    "vit": {"family": "vit", "width": 16, "heads": 2, "layers": 2, "inner": 24, "patch": 16, "grid": 4},
    "convolutional": {"family": "convolutional", "width": 8, "stages": 3, "depth": 1},
}
AUGMENTATION = {"shift": 3, "rotation": 10.0, "crop": 0.8, "flip": True, "mixup": 0.2}


def recipe_of(encoder: str, steps: int, **data: Any) -> Recipe:
    scenes = {"builtin": "scenes", "label": "number"}
    return recipe_from_json(
        {
            "data": {
                "train": [{**scenes, "count": 30}],
                "test": [{**scenes, "part": "test", "count": 10}],
                "batch_tokens": 640,
                **data,
            },
            "model": {"family": "image_classifier", "encoder": ENCODERS[encoder]},
            "train": {
                "steps": steps,
                "schedule": {"kind": "constant", "lr": 0.001},
                "augmentation": AUGMENTATION,
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


@pytest.fixture(scope="module", params=ENCODERS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, _quietly(recipe_of(request.param, 5), tmp_path_factory.mktemp("images") / "run")


def test_a_run_that_was_stopped_resumes_bit_identically_with_augmentation(
    trained: tuple[str, Path], tmp_path: Path
) -> None:
    encoder, whole = trained  # without validation data, the model is the last one
    _quietly(recipe_of(encoder, 2), tmp_path / "run")
    _quietly(recipe_of(encoder, 5), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_augmentation_changes_what_is_learned(trained: tuple[str, Path], tmp_path: Path) -> None:
    encoder, whole = trained
    recipe = recipe_of(encoder, 5)
    plain = recipe.model_copy(
        update={"train": recipe.train.model_copy(update={"augmentation": type(recipe.train.augmentation)()})}
    )
    _quietly(plain, tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != (whole / "model.safetensors").read_bytes()


def test_a_loaded_model_classifies_files_arrays_and_images_alike(trained: tuple[str, Path], tmp_path: Path) -> None:
    model = ImageClassifier.load(trained[1], device="cpu")
    assert model.labels == ("five", "four", "three")
    images = [draw_scene(scene) for scene in scenes("test", 3)]
    for number, pixels in enumerate(images):
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    from_arrays = model.classify(np.stack(images))
    from_files = model.classify([tmp_path / f"{number}.png" for number in range(3)])
    from_images = model.classify(Image.fromarray(pixels) for pixels in images)
    assert from_arrays == from_files == from_images
    assert isinstance(from_files, list)
    assert sum(from_files[0].probabilities.values()) == pytest.approx(1)
    one = model.classify(str(tmp_path / "0.png"))
    assert not isinstance(one, list)
    assert one.label == from_files[0].label


def test_neighbours_of_other_sizes_do_not_change_a_classification(trained: tuple[str, Path]) -> None:
    model = ImageClassifier.load(trained[1], device="cpu")
    small, large = (draw_scene(scene, size) for scene, size in zip(scenes("test", 2), (40, 90), strict=True))
    together, alone = model.classify([small, large, small]), [model.classify(small), model.classify(large)]
    assert isinstance(together, list)
    for found, wanted in zip(together, [alone[0], alone[1], alone[0]], strict=True):
        assert not isinstance(wanted, list)
        assert found.probabilities == pytest.approx(wanted.probabilities, abs=1e-5)


def test_evaluation_is_that_of_its_classifications(trained: tuple[str, Path]) -> None:
    model = ImageClassifier.load(trained[1], device="cpu")
    rows = [(draw_scene(scene), ("three", "four", "five")[len(scene.things) - 3]) for scene in scenes("test", 10)]
    scored = model.evaluate(rows)
    found = model.classify([pixels for pixels, _ in rows])
    assert isinstance(found, list)
    right = [said.label == label for said, (_, label) in zip(found, rows, strict=True)]
    assert scored.result.accuracy == pytest.approx(sum(right) / 10)
    assert scored.to_json()["images"] == 10
    assert next(scored.outputs()).split("\t")[0] == rows[0][1]
    assert scored.remarks()[0].startswith("10 images in ")


def test_what_is_not_an_image_is_refused(trained: tuple[str, Path]) -> None:
    model = ImageClassifier.load(trained[1], device="cpu")
    with refuses("image 2 is float, but must be a path..."):
        model.classify([np.zeros((8, 8), np.uint8), 3.5])  # type: ignore[list-item]
    with refuses("data, row 1 must be an image and its label."):
        model.evaluate([np.zeros((8, 8), np.uint8)])  # type: ignore[list-item]


def test_a_classifier_of_texts_does_not_load_one_of_images(trained: tuple[str, Path]) -> None:
    with refuses("...is a model that classifies images: load it with `heedful.ImageClassifier.load(..."):
        TextClassifier.load(trained[1], device="cpu")


def test_a_model_overfits_a_few_images() -> None:
    for encoder in ENCODERS:
        torch.manual_seed(1)
        recipe = recipe_of(encoder, 1)
        network = build_network(recipe.model, Vocabularies({}, ("a", "b")))
        store = TokenStore(image_streams([draw_scene(scene) for scene in scenes("train", 6)], [0, 1, 0, 1, 1, 0]))
        table: Any = recipe.model
        batch = ImageCollator(table.encoder.patch, table.encoder.class_token).batch([store], np.arange(6))
        assert isinstance(network, Classifier)
        objective, optimizer = (
            OneLabel(0.0, change=augment_images(Augmentation(), 2)),
            torch.optim.Adam(network.parameters(), 0.01),
        )
        for _ in range(40):
            optimizer.zero_grad()
            loss = objective(network, batch).loss
            loss.backward()
            optimizer.step()
        assert float(loss.detach()) < 1.5, encoder  # six times 0.69 at first
