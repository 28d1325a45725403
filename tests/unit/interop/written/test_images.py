"""Classifiers of images go to `transformers` and come back as they were."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.unit.interop.written.tiny_models import LABELS, VIT, assert_equal, make_model, there_and_back, weights_of
from transformers import pipeline

from heedful.interop.exporting import export_model
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
