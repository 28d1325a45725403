"""Classifiers of images go to `transformers` and come back as they were."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.unit.interop.written.tiny_models import (
    LABELS,
    VIT,
    assert_equal,
    make_model,
    there_and_back,
    tiny_recipe,
    weights_of,
)
from transformers import pipeline

from heedful.interop.exports.exporting import export_model
from heedful.interop.exports.formats import FORMATS
from heedful.tasks.classify.image_models import ImageClassifier

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {"encoder": VIT},
    "a position of the class token": {"encoder": VIT | {"class_position": True}},
    "no biases of projections": {"encoder": VIT | {"projection_bias": False, "activation": "gelu_tanh"}},
    "several labels": {"encoder": VIT, "labels": "several"},
}


@pytest.mark.parametrize("model", VARIANTS.values(), ids=list(VARIANTS))
def test_a_model_answers_alike_and_comes_back_with_equal_weights(model: dict[str, Any], tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", {"family": "image_classifier", **model})
    exported, back = there_and_back(folder, tmp_path)
    assert exported.comparison is not None
    assert exported.comparison.count == 32
    assert_equal(back, weights_of(folder))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_pipeline_names_what_is_in_an_image(channels: int, tmp_path: Path) -> None:
    model = {"family": "image_classifier", "encoder": VIT | {"channels": channels}}
    folder = make_model(tmp_path / "ours", model)
    export_model(folder, "transformers", tmp_path / "theirs")
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 1), dtype=np.uint8).repeat(3, axis=2)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    answer = pipeline("image-classification", model=str(tmp_path / "theirs"), device="cpu", top_k=3)(
        str(tmp_path / "photo.png")
    )
    wanted = ImageClassifier.load(folder, device="cpu").classify(tmp_path / "photo.png").probabilities
    assert {each["label"]: pytest.approx(each["score"], abs=1e-5) for each in answer} == wanted
    assert sorted(wanted) == sorted(LABELS)
    assert json.loads((tmp_path / "theirs/config.json").read_text())["num_channels"] == 3


def test_images_that_keep_their_size_are_read_in_that_of_the_grid(tmp_path: Path) -> None:
    model = {"family": "image_classifier", "encoder": VIT}
    folder = make_model(tmp_path / "ours", model, data={"images": {}})
    export_model(folder, "transformers", tmp_path / "theirs")
    size = json.loads((tmp_path / "theirs/preprocessor_config.json").read_text())["size"]
    assert size == {"height": 8, "width": 8}


@pytest.mark.parametrize(
    ("encoder", "data", "key", "why"),
    [
        (VIT | {"norm": "post"}, {}, "model.encoder.norm", 'in ViT it is "pre", but here it is "post"'),
        (
            VIT | {"class_token": False},
            {},
            "model.encoder.class_token",
            "in ViT it is true, but here it is false",
        ),
        (
            VIT | {"stem": "convolutions"},
            {},
            "model.encoder.stem",
            'in ViT it is "patches", but here it is "convolutions"',
        ),
        (
            VIT | {"positions": "sinusoidal"},
            {},
            "model.encoder.positions",
            'in ViT it is "learned", but here it is "sinusoidal"',
        ),
        (
            VIT,
            {"images": {"height": 12}},
            "data.images",
            "in ViT images have `grid` times `patch` pixels on each side, which is 8",
        ),
        (
            VIT,
            {"images": {"height": 8, "fit": "crop"}},
            "data.images.fit",
            'in ViT it is "stretch", but here it is "crop"',
        ),
        (
            {"family": "convolutional"},
            {},
            "model.encoder.family",
            'transformers has encoders like "vit" only, not like "convolutional"',
        ),
    ],
)
def test_what_vit_does_not_have_is_refused(encoder: dict[str, Any], data: dict[str, Any], key: str, why: str) -> None:
    recipe = tiny_recipe({"family": "image_classifier", "encoder": encoder}, data=data)
    assert FORMATS["transformers"].refusals(recipe) == [(key, why)]


def test_another_pool_is_refused() -> None:
    recipe = tiny_recipe({"family": "image_classifier", "encoder": VIT, "pool": "mean"})
    assert FORMATS["transformers"].refusals(recipe) == [("model.pool", 'in ViT it is "first", but here it is another')]
