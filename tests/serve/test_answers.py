"""Every task over HTTP answers as the model does in Python, alone."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_core import to_json
from tests.golden.answers import differences
from tests.serve.questions import KINDS, NAMES, answered_alone, bodies, png
from tests.serve.running import Running
from tests.shared.covering import one_in

from heedful.explain.pages.page import explorer_item

Model = Callable[[str], Any]


@pytest.mark.parametrize("name", KINDS)
def test_a_model_answers_over_http_as_in_python(server: Running, alone: Model, name: str) -> None:
    model = alone(name)
    for body in bodies(model):
        answer = server.post(f"/v1/{model.recipe.rules.verb}", {"model": name, **body})
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == name
        assert differences(answered_alone(model, body), answer.json()["results"]) == []


# --- explanations -----------------------------------------------------------------------------------------------------


def question_of(model: Any) -> dict[str, Any]:
    """One input, for `explain`."""
    body = next(body for body in bodies(model) if not any(isinstance(value, list) for value in body.values()))
    return {key: body[key] for key in ("text", "second", "question", "image", "to") if key in body}


def explained_alone(model: Any, body: dict[str, Any], **options: Any) -> Any:
    given = dict(body)
    if "image" in given:
        given["image"] = png()
    return model.explain(**given, **options)


@pytest.mark.parametrize("name", one_in(6, NAMES))
def test_an_explanation_is_that_of_python(server: Running, alone: Model, name: str) -> None:
    model = alone(name)
    body = question_of(model)
    found = server.post("/v1/explain", {"model": name, **body, "form": "json"}).json()
    expected = explained_alone(model, body)
    assert differences(as_json(expected.to_json()), found["explanation"]) == []
    found = server.post("/v1/explain", {"model": name, **body}).json()
    assert differences(as_json(explorer_item(expected)), found["item"], "item") == []


def test_an_explanation_can_be_saved_as_a_page(server: Running) -> None:
    body = {"model": "transformer", "text": "the dog sees the tree today.", "form": "page", "beam": 2, "search": True}
    answer = server.post("/v1/explain", body)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="explanation.html"'
    assert answer.text.startswith("<!DOCTYPE html>")
    assert "the dog sees the tree today." in answer.text


def test_an_output_is_explained_that_is_not_the_models_own(server: Running, alone: Model) -> None:
    body = {"text": "the dog sees the tree today.", "target": "der Hund"}
    found = server.post("/v1/explain", {"model": "transformer", **body, "form": "json", "gradients": True}).json()
    expected = explained_alone(alone("transformer"), body, gradients=True)
    assert differences(as_json(expected.to_json()), found["explanation"]) == []


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: lists for tuples, null for what is no number."""
    return json.loads(to_json(value, inf_nan_mode="null"))
