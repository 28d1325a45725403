"""Overrides from the command line: what they reach, and what they are blamed for."""

import pytest
from tests.shared.refusals import like
from tests.unit.config.reading.written_recipes import DATA, complaints, load, recipe_file

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles, Tsv
from heedful.config.model.transformer import TransformerModel
from heedful.config.train.schedules import Linear

# --- overrides --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("data.folder=corpus", "corpus"),
        ('data.folder="corpus"', "corpus"),
        ("data.folder=~/my corpus.d", "~/my corpus.d"),
        ("data.folder=a=b", "a=b"),
        ("data.folder=", ""),
        (" data . folder = corpus ", "corpus"),
        ("data.folder=x\ny=3", "x\ny=3"),
        ("data.folder='x'\ny=3", "'x'\ny=3"),
    ],
)
def test_an_override_is_toml_or_else_a_bare_text(override: str, value: str) -> None:
    assert load(DATA, override).data.folder == value


def test_overrides_reach_numbers_truth_tables_and_tables_that_are_not_there() -> None:
    recipe = load(
        DATA, "model.dropout=0.25", "data.nfc=true", "train.schedule={kind='linear', lr=1}", "train.validation.every=5"
    )
    assert isinstance(recipe.model, TransformerModel)
    assert (recipe.model.dropout, recipe.data.nfc, recipe.train.validation.every) == (0.25, True, 5)
    assert recipe.train.schedule == Linear(kind="linear", lr=1)


def test_the_last_of_two_overrides_counts() -> None:
    assert load(DATA, "model.layers=2", "model.layers=3").model.model_dump()["layers"] == 3


def test_overrides_win_over_the_recipe_and_its_base() -> None:
    recipe_file(DATA + "[model]\nlayers = 1", "base.toml")
    assert load('extends = "base.toml"\n[model]\nlayers = 2', "model.layers=3").model.model_dump()["layers"] == 3


def test_items_of_a_list_are_overridden_by_their_number() -> None:
    text = '[data]\ntrain = [{ source = "a", target = "b" }, { source = "c", target = "d" }]'
    corpora = load(text, "data.train.1.source=x", "data.train.0.lines=1-5").data.train
    assert corpora == (AlignedFiles(source="a", target="b", lines="1-5"), AlignedFiles(source="x", target="d"))


@pytest.mark.parametrize("path", ["data.train.source", "data.train.0.source"])
def test_a_corpus_written_as_one_table_is_reached_with_and_without_its_number(path: str) -> None:
    assert load(DATA, f"{path}=x").data.train == (AlignedFiles(source="x", target="a.de"),)


def test_overrides_alone_can_name_the_data() -> None:
    assert load("", "data.train.0.source=a", "data.train.0.target=b").data.train == (
        AlignedFiles(source="a", target="b"),
    )


@pytest.mark.parametrize("order", [1, -1])
def test_an_override_of_the_kind_starts_the_table_anew_whatever_the_order(order: int) -> None:
    overrides = ["train.schedule.kind=linear", "train.schedule.lr=0.5"][::order]
    assert load(DATA + "[train]\nschedule = { factor = 2.0 }", *overrides).train.schedule == Linear(
        kind="linear", lr=0.5
    )


def test_an_override_of_a_corpus_form_starts_the_corpus_anew() -> None:
    assert load(DATA, "data.train.target=3", "data.train.tsv=x.tsv").data.train == (Tsv(tsv="x.tsv", target=3),)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("model.layers", "must be a dotted key and a"),
        ("=3", "must be a dotted key and a"),
        ("model..layers=3", "must be a dotted key and a"),
        ("extends=base", "`extends` must be in the recipe's file."),
        ("data.folder.x=1", "`data.folder` is a plain value and has no key `x`."),
        ("data.valid.source=x", "`data.valid` is a list: name one of its items, as in data.valid.0.source."),
        ("data.valid.2.source=x", "`data.valid` has no item 2: it has 1, counted from 0."),
        ("model.layer=3", "`model.layer` is not a key of the family transformer. Did you mean `layers`?"),
        ("model.0.layers=3", "`model.0` is not a key of the family transformer."),
        ("modle.layers=3", "`modle` is not a key. Did you mean `model`?"),
        ("model.layers=many", '`model.layers` is "many", but must be a whole number of at least 1.'),
        ("model.heads=3", "in `model`, `width` must be a multiple of `heads` (3), but is 512."),
        ("train.schedule.kind=linear", "`train.schedule.lr` is missing: it must be a number above 0."),
        ("train.schedule={kind='linear'}", "`train.schedule.lr` is missing: it must be a number above 0."),
        ("data.valid.0={source='a'}", "`data.valid.0.target` is missing: it must be a text in quotes."),
    ],
)
def test_a_bad_override_is_named(override: str, line: str) -> None:
    text = DATA + 'folder = "here"\nvalid = [{ source = "c", target = "d" }]'
    lines = complaints(text, "train.steps=9", override)
    assert len(lines) == 1
    assert lines[0].startswith(f"--set {override}: {line}")


def test_a_key_of_a_thousand_parts_is_one_line() -> None:
    assert complaints(DATA, f"{'a.' * 1000}a=1") == [
        f"--set {'a.' * 27}…: a key has at most 8 parts, but this one has 1,001."
    ]


def test_the_name_of_a_kind_stands_for_a_table_of_that_kind() -> None:
    adamw = load(f"{DATA}[train]\noptimizer = {{ kind = 'adamw' }}")
    assert load(f"{DATA}[train]\noptimizer = 'adamw'") == adamw
    assert load(DATA, "train.optimizer=adamw") == adamw
    recipe = load(DATA, "train.optimizer=adamw", "train.optimizer.weight_decay=0.5", "tokenizer=word")
    assert (recipe.train.optimizer.model_dump()["weight_decay"], recipe.tokenizer.kind) == (0.5, "word")
    recipe_file(f"{DATA}[train]\noptimizer = {{ kind = 'adamw', weight_decay = 0.5 }}", "base.toml")
    extended = load('extends = "base.toml"\n[train]\noptimizer = "adamw"')
    assert extended.train.optimizer.model_dump()["weight_decay"] == 0.5


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("model.heads=3", "in `model`, `width` must be a multiple of `heads` (3), but is 512."),
        ("train.schedule.kind=linear", "`train.schedule.lr` is missing: it must be a number above 0."),
        (
            "tokenizer.joint=false",
            '`model.tie` must be ... `tokenizer.joint` is false, but is "all".',
        ),
    ],
)
def test_an_override_is_blamed_for_what_no_longer_fits_in_a_table_of_the_file(override: str, line: str) -> None:
    text = DATA + "[model]\nwidth = 512\ntie = 'all'\n[train.schedule]\nkind = 'constant'\nlr = 1.0"
    assert complaints(text, override) == [like(f"--set {override}: {line}")]


def test_an_override_is_not_blamed_for_keys_of_the_file_that_do_not_fit_together() -> None:
    text = DATA + '[tokenizer]\njoint = false\n[model]\nwidth = 512\ntie = "all"'
    assert complaints(text, "model.layers=3", "train.steps=5") == [
        like('my.toml: `model.tie` must be ... `tokenizer.joint` is false, but is "all".')
    ]
    assert complaints(text + "\nheads = 3", "model.layers=3") == [
        "my.toml: in `model`, `width` must be a multiple of `heads` (3), but is 512."
    ]


def test_an_override_is_not_blamed_for_what_the_file_lacks() -> None:
    assert complaints("[data]\nnfc = true", "data.batch_tokens=10") == [
        "my.toml: `data.train` is missing: it must be a table with `source` and `target`, `tsv`, `csv`, `jsonl`, "
        "`tmx`, `xliff`, `builtin`, `conll`, `text`, `trees`, `squad`, `images`, `idx` and `labels` or `npz`, or "
        "a list of them."
    ]


def test_bad_overrides_and_a_bad_file_are_reported_together() -> None:
    assert complaints(DATA + "nfcc = true", "model.layers", "model.layer=3", "data.folder.x=1") == [
        "--set model.layers: must be a dotted key and a value, as in --set model.layers=3.",
        "--set data.folder.x=1: `data.folder` is a table, but must be a text in quotes.",
        "my.toml: `data.nfcc` is not a key. Did you mean `nfc`?",
        "--set model.layer=3: `model.layer` is not a key of the family transformer. Did you mean `layers`?",
    ]


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_override_is_blamed_for_what_needs_validation() -> None:
    assert complaints(f"{DATA}valid = []\n", "train.average.best=2") == [
        "--set train.average.best=2: `train.average.best` needs `data.valid`: the best checkpoints "
        "are those with the best validation scores."
    ]
    assert complaints(f"{DATA}valid = []\n", "train.validation.metric=chrf") == [
        '--set train.validation.metric=chrf: `train.validation.metric` is "chrf", which needs `data.valid`.'
    ]


def test_a_caller_in_python_hears_nothing_of_flags() -> None:
    with pytest.raises(UserError) as caught:
        load(DATA, "model.layers", "model.layer=3")
    assert str(caught.value).splitlines() == [
        like('override "model.layers": must be a dotted key and ... "model.layers=3".'),
        'override "model.layer=3": `model.layer` is not a key of the family transformer. Did you mean `layers`?',
    ]
