"""Recipes of readers: what does not fit together is refused in one line."""

from pathlib import Path
from typing import Any

import pytest
from tests.models.reading import BERT, TRANSFORMER, reader_recipe
from tests.shared.refusals import refuses

from heedful.config.reading.load import recipe_from_json

REPORTS = {"builtin": "reports"}


@pytest.mark.parametrize(
    ("model", "data", "told"),
    [
        ({"encoder": {**TRANSFORMER, "segments": 1}}, {}, "`model.encoder.segments` must be 2 to tell the question "
         "from the text, or 0 to tell them apart by their markers alone, but is 1"),
        ({"mark_matches": True}, {}, "`model.mark_matches` needs `model.encoder.segments = 3`: one for the question, "
         "one for the text, one for tokens of the text that the question has too"),
        ({}, {"train": {**REPORTS, "unanswerable": 0.2}}, "`data.train.unanswerable` makes questions without an "
         "answer, which need `model.no_answer = true`"),
        ({}, {"train": {"builtin": "english-spanish"}}, "`data.train` does not fit `model.family`: a reader learns "
         "from questions about texts: give `question`, `text` and `answer`, or `squad`"),
        ({}, {"max_length": 4}, "`data.max_length` (4), markers included, must be at least 5: a text is read as "
         "`<s> A </s> B </s>`"),
        ({"encoder": BERT}, {"max_length": 90}, "`data.max_length` (90), markers included, must fit into "
         "`model.encoder.max_positions`, but that is 40"),
        ({}, {"cut": "start"}, "`data.cut` does not apply to a reader: leave it out"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_told(
    model: dict[str, Any], data: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with refuses(f"...{told}..."):
        reader_recipe(tmp_path, model, data=data)


def test_questions_are_for_readers_and_a_stride_too() -> None:
    with refuses("...`data.train` does not fit `model.family`: a translator learns from pairs..."):
        recipe_from_json({"data": {"train": [REPORTS]}}, "test recipe")
    with refuses("...`data.stride` does not apply to a translator: leave it out..."):
        recipe_from_json({"data": {"train": [{"builtin": "english-spanish"}], "stride": 3}}, "test recipe")


def test_a_hierarchical_encoder_cannot_read_for_answers(tmp_path: Path) -> None:
    with refuses('...`model.encoder.family` is "hierarchical", but must be...'):
        reader_recipe(tmp_path, {"encoder": {"family": "hierarchical"}})
