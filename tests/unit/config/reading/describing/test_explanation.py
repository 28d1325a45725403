"""A key explained: meaning, value, default, tasks and an example; a table: its keys."""

import pytest
from tests.shared.refusals import refuses

from heedful.config.reading.describing.explanation import explain, list_tables


def test_a_key_that_is_a_name_or_a_table_is_explained_as_both() -> None:
    said = explain("model.pool")
    assert '  value     "first", "mean", "max", "last", "attention", "multi_dimensional" or a table\n' in said
    assert '    alignment         "additive"  Function from the query and a token to a score.\n' in said


def test_a_key_is_explained_with_value_default_tasks_and_an_example() -> None:
    assert explain("train.validation.patience") == (
        "train.validation.patience\n\n"
        "Early stopping: the number of validations in a row without a better model after which training\nstops.\n\n"
        "  value     a whole number of at least 1\n"
        "  default   unset\n"
        "  tasks     all\n"
        "  example   [train.validation]\n"
        "            patience = 5\n"
    )


@pytest.mark.parametrize(
    ("key", "corpus"),
    [
        ("borders", 'train = { text = "train.txt", documents = "file" }'),
        ("cut", 'train = { tsv = "reviews.tsv", label = 1, text = 2 }'),
        ("max_ratio", 'train = { source = "train.en", target = "train.de" }'),
        ("max_length", 'train = { source = "train.en", target = "train.de" }'),
    ],
)
def test_the_example_of_a_key_has_corpora_of_its_task(key: str, corpus: str) -> None:
    assert f"  example   [data]\n            {corpus}\n            {key} = " in explain(f"data.{key}")


def test_a_key_that_differs_by_kind_is_explained_for_each() -> None:
    text = explain("train.schedule.warmup")
    assert '  of        train.schedule.kind = "noam"\n            train.schedule.kind = "inverse_sqrt"\n' in text
    assert text.count("  default   ") == 2


def test_a_table_lists_its_keys_with_their_defaults() -> None:
    text = explain("train.validation")
    assert "    every          1000    Number of updates between validations.\n" in text
    assert '  kind = "cosine": Rises linearly' in explain("train.schedule")


def test_all_tables_are_listed() -> None:
    lines = list_tables().splitlines()
    names = [line.split()[0] for line in lines[: lines.index("")]]
    assert {"extends", "task", "data", "data.train", "model.encoder.words", "train.validation", "decode"} <= set(names)
    assert lines[-1] == "`heedful config explain TABLE` lists the keys of a table."


def test_the_recipe_that_another_extends_is_explained_too() -> None:
    assert explain("extends").endswith('example   extends = "transformer-base-wmt14"\n')


@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        ("train.patience", "did you mean `train.validation.patience`?"),
        ("patience", "did you mean `train.validation.patience`?"),
        ("train.stepz", "did you mean `train.steps`?"),
        ("train.fp16", "did you mean `train.precision`?"),
        ("qqqqq", "`heedful config explain` lists the tables."),
        ("", "`heedful config explain` lists the tables."),
    ],
)
def test_an_unknown_key_gets_a_way_out(path: str, way_out: str) -> None:
    with refuses(f"`{path}` is not a key of a recipe: {way_out}"):
        explain(path)
