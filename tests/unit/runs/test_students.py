"""A student has the tokenizer table and the vocabularies of its teacher."""

from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Characters
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import write_description
from heedful.training.remedies import as_student


def recipe_of(model: dict[str, Any], **tables: Any) -> Recipe:
    corpus = {"source": "a", "target": "b"}
    return recipe_from_json(
        {"data": {"train": [corpus]}, "model": {"family": "transformer", **model}, **tables}, "recipe"
    )


@pytest.fixture
def teacher(tmp_path: Path) -> str:
    """A folder of a model with two vocabularies; a student is prepared from its description alone."""
    recipe = recipe_of({}, tokenizer={"kind": "char", "joint": False})
    sides = {side: train_tokenizer(Characters(kind="char"), [side]) for side in ("source", "target")}
    write_description(tmp_path, recipe, Vocabularies(sides))
    return str(tmp_path)


def test_a_student_that_leaves_them_out_takes_over_tokenizer_and_what_follows_from_it(teacher: str) -> None:
    recipe = recipe_of({}, train={"distill": {"teacher": teacher}})
    student, vocabularies = as_student(recipe)
    assert (student.tokenizer.kind, student.tokenizer.joint) == ("char", False)
    assert student.pair_model.tie == "decoder"
    assert vocabularies is not None
    assert vocabularies.sizes == {"source": 10, "target": 9}
    assert as_student(recipe_of({})) == (recipe_of({}), None)


def test_a_model_that_the_teachers_vocabulary_does_not_fit_is_refused(teacher: str) -> None:
    with refuses(
        f"With the vocabulary of the teacher {teacher}, `model.tie` must be ... `tokenizer.joint` is "
        'false, but is "all".'
    ):
        as_student(recipe_of({"tie": "all"}, train={"distill": {"teacher": teacher}}))


def test_a_teacher_of_another_task_is_refused_before_anything_is_prepared(teacher: str) -> None:
    texts = {"data": {"train": {"tsv": "a.tsv", "label": 1, "text": 2}}, "model": {"family": "classifier"}}
    recipe = recipe_from_json({**texts, "train": {"distill": {"teacher": teacher}}}, "recipe")
    with refuses(f"The teacher {teacher} translates, but the student is a classifier."):
        as_student(recipe)


def test_a_text_form_that_is_not_the_teachers_is_refused_with_both_values(teacher: str) -> None:
    corpus = {"source": "a", "target": "b"}
    data = {"train": [corpus], "tokenized": {"source": "en", "target": "de"}}
    recipe = recipe_from_json({"data": data, "train": {"distill": {"teacher": teacher}}}, "recipe")
    with refuses(
        f'`data.tokenized` is {{ source = "en", target = "de" }}, but must be that of the teacher {teacher}, as both '
        "read the same texts: unset."
    ):
        as_student(recipe)
