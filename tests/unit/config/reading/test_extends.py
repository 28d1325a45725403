"""A recipe that extends another: what it takes over, and what is refused."""

from pathlib import Path

import pytest
from tests.shared.refusals import like
from tests.unit.config.reading.written_recipes import DATA, SHIPPED, complaints, load, recipe_file

from heedful.config.corpora.containers import AlignedFiles, Jsonl, Tsv
from heedful.config.reading.load import load_recipe
from heedful.config.tokenizer import Words
from heedful.config.train.schedules import Linear, Noam


def test_tables_merge_key_by_key_over_the_base() -> None:
    recipe_file(DATA + "batch_tokens = 10\n[train]\nsteps = 5\nvalidation = { every = 3, patience = 2 }", "base.toml")
    recipe = load('extends = "base.toml"\n[data]\nnfc = true\n[train.validation]\nevery = 9')
    assert recipe.data.train == (AlignedFiles(source="a.en", target="a.de"),)
    assert (recipe.data.batch_tokens, recipe.data.nfc, recipe.train.steps) == (10, True, 5)
    assert (recipe.train.validation.every, recipe.train.validation.patience) == (9, 2)


def test_the_base_is_sought_beside_the_recipe_that_extends_it(tmp_path: Path) -> None:
    Path("sub").mkdir()
    recipe_file(DATA + "batch_tokens = 10", "sub/base.toml")
    recipe_file('extends = "base.toml"', "sub/my.toml")
    assert load_recipe(tmp_path / "sub" / "my.toml").data.batch_tokens == 10


def test_the_base_may_be_a_shipped_recipe() -> None:
    assert load(f'extends = "{SHIPPED}"\n[train]\nsteps = 7') == load_recipe(SHIPPED, ["train.steps=7"])


@pytest.mark.parametrize(
    "base", ["schedule = { warmup = 7, factor = 2.0 }", 'schedule = { kind = "noam", warmup = 7, factor = 2.0 }']
)
def test_a_table_of_another_kind_replaces_the_whole_one(base: str) -> None:
    recipe_file(DATA + f"[train]\n{base}", "base.toml")
    assert load('extends="base.toml"\n[train]\nschedule={kind="linear", lr=0.1}').train.schedule == Linear(
        kind="linear", lr=0.1
    )
    assert load('extends="base.toml"\n[train]\nschedule={kind="noam", warmup=8}').train.schedule == Noam(
        warmup=8, factor=2.0
    )
    assert load('extends="base.toml"\n[train]\nschedule={warmup=9}').train.schedule == Noam(warmup=9, factor=2.0)


def test_a_kind_of_the_base_is_inherited_by_a_table_that_says_none() -> None:
    recipe_file(DATA + '[tokenizer]\nkind = "word"\nmin_count = 3', "base.toml")
    assert load('extends = "base.toml"\n[tokenizer]\nsize = 99').tokenizer == Words(kind="word", size=99, min_count=3)


@pytest.mark.parametrize("base", ['builtin = "english-spanish", count = 5', 'tsv = "a.tsv", source = 3'])
def test_ones_own_files_replace_a_corpus_of_another_form(base: str) -> None:
    recipe_file(f"[data]\ntrain = {{ {base} }}", "base.toml")
    corpus = (AlignedFiles(source="my.en", target="my.de"),)
    assert load('extends = "base.toml"\n[data]\ntrain = { source = "my.en", target = "my.de" }').data.train == corpus
    overrides = ["data.train.target=my.de", "data.train.source=my.en"]
    assert load('extends = "base.toml"', *overrides).data.train == corpus
    assert complaints('extends = "base.toml"\n[data]\ntrain = { source = "my.en", targt = "my.de" }') == [
        "my.toml: `data.train.targt` is not a key. Did you mean `target`?"
    ]


def test_fields_of_a_jsonl_corpus_are_no_files() -> None:
    recipe_file('[data]\ntrain = { jsonl = "a.jsonl" }', "base.toml")
    assert load('extends = "base.toml"\n[data]\ntrain = { source = "en", target = "de" }').data.train == (
        Jsonl(jsonl="a.jsonl", source="en", target="de"),
    )


def test_a_list_of_corpora_replaces_whatever_the_base_has() -> None:
    recipe_file('[data]\ntrain = { jsonl = "a.jsonl" }', "base.toml")
    assert load('extends = "base.toml"\n[data]\ntrain = [{ source = "en", target = "de" }]').data.train == (
        AlignedFiles(source="en", target="de"),
    )


def test_a_corpus_of_the_same_form_merges() -> None:
    recipe_file('[data]\ntrain = { tsv = "a.tsv", target = 3 }', "base.toml")
    assert load('extends = "base.toml"\n[data.train]\nsource = 2').data.train == (Tsv(tsv="a.tsv", source=2, target=3),)


def test_a_base_that_extends_is_an_error() -> None:
    recipe_file('extends = "base2.toml"\n' + DATA, "base.toml")
    assert complaints('extends = "base.toml"') == [
        "my.toml: `extends` names base.toml, which extends another recipe: only one level is possible."
    ]


def test_a_recipe_that_extends_itself_is_an_error() -> None:
    assert complaints('extends = "my.toml"') == [like("my.toml: `extends` names my.toml, which extends another ...")]


def test_a_missing_base_is_an_error_with_the_nearest_shipped_recipe() -> None:
    assert complaints('extends = "transformer-base"') == [
        "my.toml: `extends` names `transformer-base`, which is neither a file in . nor a shipped recipe. "
        f"Did you mean `{SHIPPED}`?"
    ]


def test_a_base_with_an_impossible_name_is_one_line() -> None:
    assert complaints(f'extends = "{"x" * 300}"') == [f"{'x' * 300}: the name is too long."]


def test_extends_must_be_a_text() -> None:
    assert complaints("extends = 3") == [
        "my.toml: `extends` must be a text in quotes: a file next to this one, or a shipped recipe."
    ]


def test_an_error_in_the_base_names_the_base() -> None:
    recipe_file(DATA + "[model]\nlayer = 3\nheads = 0", "base.toml")
    assert complaints('extends = "base.toml"\n[model]\nheads = -1') == [
        "my.toml: `model.heads` is -1, but must be a whole number of at least 1.",
        "base.toml: `model.layer` is not a key of the family transformer. Did you mean `layers`?",
    ]
