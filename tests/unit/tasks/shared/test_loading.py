"""`heedful.load`: any model by its folder, or a model of the class that is named."""

import inspect
from pathlib import Path
from typing import Any, assert_type

import pytest
from tests.shared.refusals import refuses

import heedful
from heedful.tasks.shared.loaded_model import LoadedModel
from heedful.tasks.table import RULES

BUNDLES = Path(__file__).parents[3] / "golden" / "bundles"


def test_a_class_that_is_named_is_what_is_returned() -> None:
    model = heedful.load(BUNDLES / "transformer", heedful.Translator)
    assert_type(model, heedful.Translator)
    assert isinstance(model, heedful.Translator)
    assert str(heedful.load(BUNDLES / "transformer", heedful.Translator, "cpu").device) == "cpu"
    assert str(heedful.load(BUNDLES / "transformer", heedful.Translator, device="cpu").device) == "cpu"


def test_without_a_class_a_model_of_any_task_is_returned_and_the_device_may_come_second() -> None:
    model = heedful.load(BUNDLES / "transformer", "cpu", "float32")
    assert_type(model, LoadedModel[Any])
    assert isinstance(model, heedful.Translator)
    assert [*inspect.signature(heedful.load).parameters][:4] == ["path", "kind", "device", "precision"]


@pytest.mark.parametrize("load", [heedful.load, lambda path, kind: kind.load(path)])
def test_a_model_of_another_class_is_refused_with_the_class_that_it_has(load: Any) -> None:
    folder = BUNDLES / "classifier-bag"
    with refuses(f'{folder} is a model that classifies: load it with `heedful.TextClassifier.load("{folder}")`.'):
        load(folder, heedful.Translator)


@pytest.mark.parametrize("kind", [int, 3, heedful.Callback])
def test_what_is_not_a_class_of_models_is_refused(kind: Any) -> None:
    with refuses(f"`kind` is {kind!r}, but must be a class of models, such as heedful.Translator."):
        heedful.load(BUNDLES / "transformer", kind)


@pytest.mark.parametrize("name", RULES)
def test_every_task_names_the_class_of_its_models(name: str) -> None:
    kind = getattr(heedful, RULES[name].model)
    assert kind._rules.name == name
