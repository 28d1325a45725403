"""Rules for recipes of models that answer questions about images: what is refused, and in which words."""

from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import Builtin, Csv
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe

SCENES = {"builtin": "scenes", "questions": 4}
RECURRENT = {"family": "recurrent"}


def _recipe(model: dict[str, Any] | None = None, **tables: dict[str, Any]) -> Recipe:
    table = {"family": "image_answerer", **(model or {})}
    return recipe_from_json({**tables, "data": {"train": [SCENES], **tables.get("data", {})}, "model": table}, "it")


def test_the_task_follows_from_the_family_and_words_of_a_transformer_attend_to_patches() -> None:
    recipe = _recipe()
    table: Any = recipe.model
    assert recipe.rules.name == "answer_images"
    assert table.crosses
    assert not _recipe({"cross": False}).model.crosses  # type: ignore[union-attr]
    assert not _recipe({"question": RECURRENT}).model.crosses  # type: ignore[union-attr]
    assert isinstance(recipe.data.train[0], Builtin)


def test_a_table_with_images_and_questions_is_a_corpus_of_both() -> None:
    table = {"csv": "q.csv", "image": "path", "question": "question", "answer": "answer"}
    (corpus,) = _recipe(data={"train": [table]}).data.train
    assert isinstance(corpus, Csv)
    assert corpus.has_header
    assert not corpus.model_copy(update={"image": 1, "question": 2, "answer": 3}).has_header


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (
            {"data": {"train": [{"builtin": "scenes"}]}},
            "`data.train` does not fit `model.family`: it learns from questions about images: give a table (`csv`, "
            '`tsv` or `jsonl`) with `image`, `question` and `answer`, or `builtin = "scenes"` with `questions`.',
        ),
        (
            {"model": {"question": RECURRENT, "cross": True}},
            "`cross` needs a Transformer as the encoder of questions: leave it out.",
        ),
        (
            {"model": {"question": {"family": "transformer", "segments": 2}}},
            "`question.segments` tells the texts of a pair apart, but a question is one text: leave it out.",
        ),
        (
            {"model": {"question": {"family": "transformer", "alignment": "area"}}},
            '`question.alignment = "area"` scores places in a sentence, not patches: choose another, or set '
            "`cross = false`.",
        ),
        (
            {"train": {"augmentation": {"mixup": 0.2}}},
            "`train.augmentation.mixup` mixes two images, whose questions have different answers: leave it out.",
        ),
        (
            {"data": {"images": {"height": 64}, "batch_tokens": 100, "max_length": 90}},
            "`data.batch_tokens` is 100, but an image of 64 x 64 pixels has 16 patches and a question up to 90 tokens "
            "(`data.max_length`): raise it.",
        ),
        (
            {"data": {"train": [{"csv": "q.csv", "image": 1, "question": 2, "answer": 2}]}},
            "`question` and `answer` are both 2, but must be different.",
        ),
        (
            {"train": {"class_weights": "balanced"}},
            "`train.class_weights` does not apply to an answerer of questions about images: leave it out.",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(made: dict[str, Any], why: str) -> None:
    with refuses(f"...{why}..."):
        _recipe(**made)
