"""What every loaded model has: a class to load it by, a line that describes it, a device and a precision."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.text import classifier_recipe, fresh_classifier, fresh_masked_model, masked_recipe, written
from tests.shared.refusals import refuses

import heedful
from heedful.tasks.translate.model import Translator

HOME = Path("/nowhere")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, reversing_folder: Path) -> dict[str, Path]:
    """A model of every task."""
    home = tmp_path_factory.mktemp("models")
    return {
        "translate": reversing_folder,
        "classify": written(fresh_classifier(classifier_recipe(HOME)), home / "films"),
        "fill": written(fresh_masked_model(masked_recipe(HOME)), home / "masked"),
    }


CLASSES: dict[str, Any] = {
    "translate": heedful.Translator,
    "classify": heedful.TextClassifier,
    "fill": heedful.MaskFiller,
}


@pytest.mark.parametrize("task", CLASSES)
def test_each_class_loads_its_own_models_and_no_others(task: str, folders: dict[str, Path]) -> None:
    for other, folder in folders.items():
        if other == task:
            assert type(CLASSES[task].load(folder, device="cpu")) is CLASSES[task]
            assert type(heedful.load(folder, device="cpu")) is CLASSES[task]
            continue
        with refuses(f"{folder} is a model that ...: load it with ..."):
            CLASSES[task].load(folder, device="cpu")


def test_the_repr_says_what_a_model_is_in_one_line(folders: dict[str, Path]) -> None:
    found = [
        re.sub(r"[\d,]+ parameters", "N parameters", repr(heedful.load(f, device="cpu"))) for f in folders.values()
    ]
    assert found == [
        "<Translator: task translate, family transformer, N parameters, vocabulary 12, cpu in float32>",
        "<TextClassifier: task classify, family classifier, N parameters, vocabulary 20, 2 classes: neg, pos, cpu "
        "in float32>",
        "<MaskFiller: task fill, family bert, N parameters, vocabulary 21, cpu in float32>",
    ]


def test_the_repr_of_an_ensemble_says_so(reversing_folder: Path) -> None:
    assert "ensemble of 2" in repr(Translator.load(reversing_folder, "cpu", ensemble=[reversing_folder]))


def test_a_model_moves_and_still_answers(reversing_folder: Path) -> None:
    model = Translator.load(reversing_folder, device="cpu")
    assert (model.device, model.precision) == (torch.device("cpu"), torch.float32)
    assert model.to("cpu", "bfloat16") is model
    assert model.precision == torch.bfloat16
    assert model.translate("ant bee") == "bee ant"
    assert model.to(torch.device("cpu")).precision == torch.float32
    with refuses("`tpu` is not a device: use `auto`, `cpu`, `cuda` or `cuda:1`."):
        model.to("tpu")


@pytest.mark.parametrize("load", [heedful.load, *(kind.load for kind in CLASSES.values())])
def test_a_path_is_a_path(load: Callable[..., object]) -> None:
    with refuses("`path` is None, but must be a path."):
        load(None)
    with refuses("nowhere is not a folder: a model is a folder that..."):
        load("nowhere")
