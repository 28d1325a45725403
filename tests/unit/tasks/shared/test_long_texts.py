"""Texts that are longer than a model is to read: refused in one line, whatever the task."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.models.text import classifier_recipe, fresh_classifier, fresh_masked_model, masked_recipe
from tests.shared.refusals import like, refuses

from heedful.base.errors import UserError, on_command_line
from heedful.tasks.classify.model import TextClassifier
from heedful.tasks.fill.model import MaskFiller
from heedful.tasks.translate.model import Translator

LONG = "x" * 1_000_001
HOME = Path("nowhere")


@pytest.fixture(scope="module")
def classifier() -> TextClassifier:
    return TextClassifier(fresh_classifier(classifier_recipe(HOME)))


@pytest.fixture(scope="module")
def filler() -> MaskFiller:
    return MaskFiller(fresh_masked_model(masked_recipe(HOME)))


def refusal(ask: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        ask()
    return str(caught.value)


def test_a_text_longer_than_a_line_may_be_is_refused(
    reversing: Translator, classifier: TextClassifier, filler: MaskFiller
) -> None:
    asked: list[Callable[[], object]] = [
        lambda: reversing.translate(["ant", LONG]),
        lambda: list(reversing.stream(["ant", LONG])),
        lambda: reversing.score(["ant", LONG], ["ant", "bee"]),
        lambda: reversing.score(["ant", "bee"], ["ant", LONG]),
        lambda: classifier.classify(["a film", LONG]),
        lambda: list(classifier.stream(["a film", LONG])),
        lambda: classifier.embed(["a film", LONG]),
        lambda: filler.fill(["a [MASK]", LONG]),
        lambda: list(filler.stream(["a [MASK]", LONG])),
        lambda: filler.embed(["a film", LONG]),
    ]
    for ask in asked:
        assert refusal(ask) == like(
            "texts, line 2 has 1,000,001 characters, but this model ... 1,000,000 (`data.max_line`): split the line."
        )
    assert refusal(lambda: classifier.weights(LONG)).startswith("`text` has 1,000,001 characters, but this model reads")


def test_a_source_of_too_many_tokens_is_refused(reversing: Translator) -> None:
    long = "ant " * 4001
    assert refusal(lambda: reversing.translate(["ant", long])) == (
        "texts, line 2 has 4,001 tokens, but at most 4,000 are translated: split the line, or raise `max_source`."
    )
    with on_command_line():
        assert refusal(lambda: list(reversing.stream_detailed(["ant ant"], max_source=1, name="a.txt"))) == (
            "a.txt, line 1 has 2 tokens, but at most 1 are translated: split the line, or raise --max-source."
        )
    assert reversing.translate(["ant bee"], max_source=2) == ["bee ant"]


def test_a_side_of_too_many_tokens_is_not_scored(reversing: Translator) -> None:
    long = "ant " * 10_001
    rest = "has 10,001 tokens, but at most 10,000 are scored: split it, or leave the pair out."
    assert refusal(lambda: reversing.score(["ant", long], ["ant", "ant"])) == f"texts, line 2 {rest}"
    assert refusal(lambda: reversing.score(["ant"], [long])) == f"texts, line 1: the reference {rest}"
    assert refusal(lambda: reversing.evaluate([("ant", long)])) == f"data, line 1: the reference {rest}"


def test_what_is_before_a_long_text_of_a_stream_is_answered(reversing: Translator) -> None:
    answers = reversing.stream(["ant bee", LONG])
    assert next(answers) == "bee ant"
    with refuses("...line 2 has..."):
        next(answers)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "`max_source` is 0, but must be at least 1."),
        (10**9, "`max_source` is 1,000,000,000, but must be at most 100,000."),
    ],
)
def test_the_limit_of_sources_has_limits(reversing: Translator, number: int, message: str) -> None:
    assert refusal(lambda: reversing.translate("ant", max_source=number)) == message
