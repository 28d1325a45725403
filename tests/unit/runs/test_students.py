"""A student has the tokenizer table and the vocabularies of its teacher, and may begin with its weights."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared.refusals import refuses
from torch import nn

from heedful.config.model.encoder_only import BertModel
from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Characters
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import write_description
from heedful.models.from_recipe.encoder_only import build_masked_model
from heedful.runs.fine_tuning import start_as_student
from heedful.training.remedies import Teacher, as_student


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


# --- weights of the teacher -------------------------------------------------------------------------------------------

SMALL = {"width": 8, "heads": 2, "inner": 12, "max_positions": 9}


def masked(layers: int, **keys: Any) -> tuple[Recipe, nn.Module]:
    """A masked language model, and its recipe."""
    model = {"family": "bert", "layers": layers, **SMALL, **keys}
    recipe = recipe_from_json({"data": {"train": {"text": "a"}, "max_length": 8}, "model": model}, "recipe")
    assert isinstance(recipe.model, BertModel)
    return recipe, build_masked_model(recipe.model, 11)


@pytest.mark.parametrize(
    ("layers", "given", "taken"),
    [(6, 12, (0, 2, 4, 7, 9, 11)), (3, 6, (0, 2, 5)), (1, 4, (0,)), (2, 2, (0, 1)), (3, 2, (0, 0, 1))],
)
def test_a_student_begins_with_layers_of_its_teacher_at_equal_distances(
    layers: int, given: int, taken: tuple[int, ...]
) -> None:
    recipe, student = masked(layers)
    teacher = Teacher(Path("big"), *masked(given), "", True)
    start_as_student(student, recipe, teacher)
    theirs = dict(teacher.network.named_parameters())
    for name, weight in student.named_parameters():
        found = re.match(r"(encoder\.blocks\.)(\d+)(\..*)", name)
        same = name if found is None else f"{found[1]}{taken[int(found[2])]}{found[3]}"
        torch.testing.assert_close(weight, theirs[same], rtol=0, atol=0)


def test_a_teacher_of_another_shape_gives_no_weights() -> None:
    recipe, student = masked(1)
    with refuses(
        "`train.distill.start` needs a teacher that has the student's shapes and only more layers, but "
        "`encoder.blocks.0.network.into.weight` is (12, 8) and (16, 8) in big: leave it out, or keys of [model] as "
        "they were there."
    ):
        start_as_student(student, recipe, Teacher(Path("big"), *masked(2, inner=16), "", True))
    with refuses('`model.norm` is "post", but big was trained with "pre"...its weights would be meaningless...'):
        start_as_student(student, recipe, Teacher(Path("big"), *masked(2, norm="pre"), "", True))
    with refuses("...but `pooler.linear.weight` is (8, 8) and missing in big..."):
        start_as_student(student, recipe, Teacher(Path("big"), *masked(2, next_sentence=False), "", True))
