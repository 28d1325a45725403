"""Recipes load, merge and complain as a person would want."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.config.corpora import BuiltinCorpus, JsonlCorpus, TextCorpus, TsvCorpus
from heedful.config.data import Data, Tokenized
from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.complaints import FOREIGN_WORDS
from heedful.config.reading.load import load_recipe, recipe_from_json, recipe_to_json, recipe_to_toml
from heedful.config.reading.outline import paths_of_key
from heedful.config.reading.toml import toml_document
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import ByteBpe, Words
from heedful.config.train import Adam, Average, Linear, Noam
from heedful.errors import UserError

DATA = '[data]\ntrain = { source = "a.en", target = "a.de" }\n'
SHIPPED = "transformer-base-wmt14"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def recipe_file(text: str, name: str = "my.toml") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def load(text: str, *overrides: str) -> Recipe:
    return load_recipe(recipe_file(text), overrides)


def complaints(text: str, *overrides: str) -> list[str]:
    with pytest.raises(UserError) as caught:
        load(text, *overrides)
    return str(caught.value).splitlines()


# --- finding and reading ------------------------------------------------------------------------------------------


def test_a_recipe_with_only_its_data_has_every_default() -> None:
    recipe = load(DATA)
    assert recipe == Recipe(data=Data(train=(TextCorpus(source="a.en", target="a.de"),)))
    assert recipe.model == TransformerModel()
    assert recipe.tokenizer == ByteBpe()


def test_a_name_without_a_file_is_a_shipped_recipe() -> None:
    assert load_recipe(SHIPPED).tokenizer.size == 37000


def test_a_file_goes_before_a_shipped_recipe_of_the_same_name() -> None:
    recipe_file(DATA, SHIPPED)
    assert load_recipe(SHIPPED).tokenizer.size == 8000


def test_an_unknown_name_gets_the_nearest_shipped_recipe() -> None:
    with pytest.raises(UserError) as caught:
        load_recipe("transformer-base-wmt15")
    assert str(caught.value) == (
        f"`transformer-base-wmt15` is neither a file nor a shipped recipe. Did you mean `{SHIPPED}`?"
    )


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UserError, match=r"^recipes/mine\.toml: no such file\.$"):
        load_recipe("recipes/mine.toml")


def test_a_missing_file_with_a_shipped_recipes_name_says_how_to_get_that() -> None:
    with pytest.raises(UserError) as caught:
        load_recipe(f"recipes/{SHIPPED}.toml")
    assert str(caught.value) == (
        f"recipes/{SHIPPED}.toml: no such file. A recipe of that name ships with Heedful: write `{SHIPPED}`."
    )


def test_a_folder_is_no_recipe() -> None:
    Path("folder.toml").mkdir()
    with pytest.raises(UserError, match=r"^folder\.toml: this is a folder, but must be a file\.$"):
        load_recipe("folder.toml")


def test_a_name_too_long_for_a_file_is_one_line() -> None:
    with pytest.raises(UserError, match="the name is too long"):
        load_recipe("x" * 300)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[data]\ntrain { }", "my.toml, line 2, column 7: this is not TOML: expected '=' after a key"),
        ("[data", "my.toml, end of document: this is not TOML: expected ']'"),
        ("x = y\n", "my.toml, line 1, column 5: this is not TOML: here must be a value; a text needs quotes,"),
        ("x = " + "[" * 9999, "my.toml: this is not TOML: maximum recursion depth exceeded"),
        ("steps = 1\nsteps = 2\n", "my.toml, line 2, column 10: this is not TOML: a key is set twice."),
    ],
)
def test_a_syntax_error_has_its_line_and_column(text: str, line: str) -> None:
    lines = complaints(text)
    assert len(lines) == 1
    assert lines[0].startswith(line)


def test_a_file_that_is_not_utf8_has_its_line_and_byte() -> None:
    Path("my.toml").write_bytes(b"[data]\nfolder = 'caf\xe9'\n")
    with pytest.raises(UserError, match=r"^my\.toml, line 2: byte 0xe9 is not UTF-8: save it as UTF-8\.$"):
        load_recipe("my.toml")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    Path("my.toml").write_bytes(b"\xef\xbb\xbf" + DATA.replace("\n", "\r\n").encode())
    assert load_recipe(Path("my.toml")) == load(DATA)


# --- kinds --------------------------------------------------------------------------------------------------------


def test_a_table_without_a_kind_has_the_default_kind() -> None:
    recipe = load(
        DATA + "[tokenizer]\nsize=500\n[model]\nlayers=2\n[train]\noptimizer={beta1=0.8}\nschedule={warmup=7}"
    )
    assert recipe.tokenizer == ByteBpe(size=500)
    assert recipe.model == TransformerModel(layers=2)
    assert recipe.train.optimizer == Adam(beta1=0.8)
    assert recipe.train.schedule == Noam(warmup=7)


def test_one_corpus_may_be_a_table_or_a_list_and_has_the_form_of_its_keys() -> None:
    train = "train = [{ tsv = 'a.tsv' }, { jsonl = 'b.jsonl' }]"
    recipe = load(f"[data]\n{train}\ntest = {{ builtin = 'english-spanish', part = 'test' }}")
    assert recipe.data.train == (TsvCorpus(tsv="a.tsv"), JsonlCorpus(jsonl="b.jsonl"))
    assert recipe.data.test == (BuiltinCorpus(builtin="english-spanish", part="test"),)


# --- extends ------------------------------------------------------------------------------------------------------


def test_tables_merge_key_by_key_over_the_base() -> None:
    recipe_file(DATA + "batch_tokens = 10\n[train]\nsteps = 5\nvalidation = { every = 3, patience = 2 }", "base.toml")
    recipe = load('extends = "base.toml"\n[data]\nnfc = true\n[train.validation]\nevery = 9')
    assert recipe.data.train == (TextCorpus(source="a.en", target="a.de"),)
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
    corpus = (TextCorpus(source="my.en", target="my.de"),)
    assert load('extends = "base.toml"\n[data]\ntrain = { source = "my.en", target = "my.de" }').data.train == corpus
    overrides = ["data.train.target=my.de", "data.train.source=my.en"]
    assert load('extends = "base.toml"', *overrides).data.train == corpus
    assert complaints('extends = "base.toml"\n[data]\ntrain = { source = "my.en", targt = "my.de" }') == [
        "my.toml: `data.train.targt` is not a key. Did you mean `target`?"
    ]


def test_fields_of_a_jsonl_corpus_are_no_files() -> None:
    recipe_file('[data]\ntrain = { jsonl = "a.jsonl" }', "base.toml")
    assert load('extends = "base.toml"\n[data]\ntrain = { source = "en", target = "de" }').data.train == (
        JsonlCorpus(jsonl="a.jsonl", source="en", target="de"),
    )


def test_a_list_of_corpora_replaces_whatever_the_base_has() -> None:
    recipe_file('[data]\ntrain = { jsonl = "a.jsonl" }', "base.toml")
    assert load('extends = "base.toml"\n[data]\ntrain = [{ source = "en", target = "de" }]').data.train == (
        TextCorpus(source="en", target="de"),
    )


def test_a_corpus_of_the_same_form_merges() -> None:
    recipe_file('[data]\ntrain = { tsv = "a.tsv", target = 3 }', "base.toml")
    assert load('extends = "base.toml"\n[data.train]\nsource = 2').data.train == (
        TsvCorpus(tsv="a.tsv", source=2, target=3),
    )


def test_a_base_that_extends_is_an_error() -> None:
    recipe_file('extends = "base2.toml"\n' + DATA, "base.toml")
    assert complaints('extends = "base.toml"') == [
        "my.toml: `extends` names base.toml, which extends another recipe: only one level is possible."
    ]


def test_a_recipe_that_extends_itself_is_an_error() -> None:
    assert complaints('extends = "my.toml"') == [
        "my.toml: `extends` names my.toml, which extends another recipe: only one level is possible."
    ]


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


# --- overrides ----------------------------------------------------------------------------------------------------


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
    assert corpora == (TextCorpus(source="a", target="b", lines="1-5"), TextCorpus(source="x", target="d"))


@pytest.mark.parametrize("path", ["data.train.source", "data.train.0.source"])
def test_a_corpus_written_as_one_table_is_reached_with_and_without_its_number(path: str) -> None:
    assert load(DATA, f"{path}=x").data.train == (TextCorpus(source="x", target="a.de"),)


def test_overrides_alone_can_name_the_data() -> None:
    assert load("", "data.train.0.source=a", "data.train.0.target=b").data.train == (
        TextCorpus(source="a", target="b"),
    )


@pytest.mark.parametrize("order", [1, -1])
def test_an_override_of_the_kind_starts_the_table_anew_whatever_the_order(order: int) -> None:
    overrides = ["train.schedule.kind=linear", "train.schedule.lr=0.5"][::order]
    assert load(DATA + "[train]\nschedule = { factor = 2.0 }", *overrides).train.schedule == Linear(
        kind="linear", lr=0.5
    )


def test_an_override_of_a_corpus_form_starts_the_corpus_anew() -> None:
    assert load(DATA, "data.train.target=3", "data.train.tsv=x.tsv").data.train == (TsvCorpus(tsv="x.tsv", target=3),)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("model.layers", "must be a dotted key and a value, as in --set model.layers=3."),
        ("=3", "must be a dotted key and a value, as in --set model.layers=3."),
        ("model..layers=3", "must be a dotted key and a value, as in --set model.layers=3."),
        ("extends=base", "`extends` must be in the recipe's file."),
        ("data.folder.x=1", "`data.folder` is a plain value and has no key `x`."),
        ("data.valid.source=x", "`data.valid` is a list: say which of it, as in data.valid.0.source."),
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


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("model.heads=3", "in `model`, `width` must be a multiple of `heads` (3), but is 512."),
        ("train.schedule.kind=linear", "`train.schedule.lr` is missing: it must be a number above 0."),
        (
            "tokenizer.joint=false",
            '`model.tie` must be "decoder" or "none" as `tokenizer.joint` is false, but is "all".',
        ),
    ],
)
def test_an_override_is_blamed_for_what_no_longer_fits_in_a_table_of_the_file(override: str, line: str) -> None:
    text = DATA + "[model]\nwidth = 512\ntie = 'all'\n[train.schedule]\nkind = 'constant'\nlr = 1.0"
    assert complaints(text, override) == [f"--set {override}: {line}"]


def test_an_override_is_not_blamed_for_keys_of_the_file_that_do_not_fit_together() -> None:
    text = DATA + '[tokenizer]\njoint = false\n[model]\nwidth = 512\ntie = "all"'
    assert complaints(text, "model.layers=3", "train.steps=5") == [
        'my.toml: `model.tie` must be "decoder" or "none" as `tokenizer.joint` is false, but is "all".'
    ]
    assert complaints(text + "\nheads = 3", "model.layers=3") == [
        "my.toml: in `model`, `width` must be a multiple of `heads` (3), but is 512."
    ]


def test_an_override_is_not_blamed_for_what_the_file_lacks() -> None:
    assert complaints("[data]\nnfc = true", "data.batch_tokens=10") == [
        "my.toml: `data.train` is missing: it must be a table with `source` and `target`, `tsv`, `jsonl`, "
        "`builtin` or `text`, or a list of them."
    ]


def test_bad_overrides_and_a_bad_file_are_reported_together() -> None:
    assert complaints(DATA + "nfcc = true", "model.layers", "model.layer=3", "data.folder.x=1") == [
        "--set model.layers: must be a dotted key and a value, as in --set model.layers=3.",
        "--set data.folder.x=1: `data.folder` is a table, but must be a text in quotes.",
        "my.toml: `data.nfcc` is not a key. Did you mean `nfc`?",
        "--set model.layer=3: `model.layer` is not a key of the family transformer. Did you mean `layers`?",
    ]


# --- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[model]\nlayer = 3", "`model.layer` is not a key of the family transformer. Did you mean `layers`?"),
        ("[modle]\nlayers = 3", "`modle` is not a key. Did you mean `model`?"),
        ("[train]\ndropout = 0.1", "`train.dropout` is not a key. Did you mean `model.dropout`?"),
        (
            "[train]\nbatch_tokens = 1",
            "`train.batch_tokens` is not a key. Did you mean `data.batch_tokens` or `decode.batch_tokens`?",
        ),
        (
            "[decode]\nxyz = 1",
            "`decode.xyz` is not a key. Known: beam, length_penalty, length_penalty_kind, length_shift, "
            "coverage, no_repeat, min_length, max_extra, batch_tokens.",
        ),
        (
            "[train.schedule]\nlr = 0.1",
            "`train.schedule.lr` is not a key of the kind noam, but of the kinds inverse_sqrt, linear, cosine, "
            "constant.",
        ),
        (
            "[tokenizer]\nmin_count = 2",
            "`tokenizer.min_count` is not a key of the kind byte_bpe, but of the kind word.",
        ),
        (
            "[train.schedule]\nkind = 'noam'\nwarmpu = 1",
            "`train.schedule.warmpu` is not a key of the kind noam. Did you mean `warmup`?",
        ),
        (
            "[tokenizer]\nkind = 'bytebpe'\nsize = 0\nfoo = 1",
            '`tokenizer.kind` is "bytebpe", but must be one of: byte_bpe, bpe, wordpiece, unigram, word, char.',
        ),
        ("[tokenizer]\nkind = 3", "`tokenizer.kind` is 3, but must be one of: byte_bpe, bpe,"),
        (
            "[model]\nfamily = 'rnn'\ncells = 3\nheads = 0",
            '`model.family` is "rnn", but must be one of: transformer, recurrent, mixed, classifier, bert.',
        ),
        ("[model]\nheads = 0", "`model.heads` is 0, but must be a whole number of at least 1."),
        ("[model]\nlayers = 1.5", "`model.layers` is 1.5, but must be a whole number of at least 1."),
        ("[model]\nlayers = '6'", '`model.layers` is "6", but must be a whole number of at least 1.'),
        ("[model]\nlayers = true", "`model.layers` is true, but must be a whole number of at least 1."),
        ("[model]\ndropout = 1", "`model.dropout` is 1, but must be a number of at least 0 and below 1."),
        (
            "[model]\ndropout_embedding = 'x'",
            '`model.dropout_embedding` is "x", but must be a number of at least 0 and below 1.',
        ),
        ("[model]\nnorm = 'mid'", '`model.norm` is "mid", but must be "post" or "pre".'),
        ("[model]\npreset = ['big']", '`model.preset` is a list, but must be "small", "base" or "big".'),
        ("[model]\nfinal_norm = 1", "`model.final_norm` is 1, but must be true or false."),
        (
            "[model]\nwidth = 10\nheads = 3",
            "in `model`, `width` must be a multiple of `heads` (3), but is 10.",
        ),
        ("[model]\nwidth = 9\nheads = 3", "in `model`, `width` must be even for sinusoidal positions, but is 9."),
        (
            "[model]\nwidth = 12\nheads = 4\npositions = 'rope'",
            'in `model`, `width` must be an even multiple of `heads` (4) for `positions = "rope"`, but is 12.',
        ),
        (
            "[model]\npositions = 'rotary'",
            '`model.positions` is "rotary", but must be "sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi" '
            'or "relative".',
        ),
        ("[model]\nmax_distance = 0", "`model.max_distance` is 0, but must be a whole number of at least 1."),
        ("[tokenizer]\nsize = 5", "`tokenizer.size` is 5, but must be a whole number of at least 260."),
        ("[train]\nseed = 2024-01-01", "`train.seed` is 2024-01-01, but must be a whole number."),
        ("[train]\nclip_norm = inf", "`train.clip_norm` is inf, but must be a number above 0."),
        ("[train]\ncompile = 'maybe'", '`train.compile` is "maybe", but must be "auto", true or false.'),
        ("[train]\ndevice = 'gpu'", '`train.device` is "gpu", but must be "auto", "cpu", "cuda" or "cuda:0".'),
        ("[train]\noptimizer = 'adam'", '`train.optimizer` is "adam", but must be a table.'),
        (
            "[train.schedule]\nkind = 'linear'\nlr = 1.0\nfloor = 2",
            "`train.schedule.floor` is 2, but must be a number of at least 0 and of at most 1.",
        ),
        (
            '[tokenizer]\njoint = false\n[model]\ntie = "all"',
            '`model.tie` must be "decoder" or "none" as `tokenizer.joint` is false, but is "all".',
        ),
        ("decode = []", "`decode` is a list, but must be a table."),
        (f"[evaluate]\nbleu_tokenize = '{'x' * 99}'", f'`evaluate.bleu_tokenize` is "{"x" * 59}…, but must be "13a",'),
    ],
)
def test_one_mistake_is_one_line_with_file_path_and_what_it_must_be(text: str, line: str) -> None:
    top, tables = (text + "\n", "") if not text.startswith("[") else ("", text)
    lines = complaints(top + DATA + tables)
    assert len(lines) == 1
    assert lines[0].startswith(f"my.toml: {line}")


@pytest.mark.parametrize(("word", "meant"), FOREIGN_WORDS.items())
def test_a_word_of_another_tool_gets_ours(word: str, meant: str) -> None:
    assert meant in paths_of_key(meant.rpartition(".")[2])
    assert complaints(f"{word} = 1\n{DATA}") == [f"my.toml: `{word}` is not a key. Did you mean `{meant}`?"]


@pytest.mark.parametrize(
    ("corpus", "line"),
    [
        ("{ source = 'a', targt = 'b' }", "`data.train.targt` is not a key. Did you mean `target`?"),
        ("[{ source = 'a' }]", "`data.train.0.target` is missing: it must be a text in quotes."),
        ("{ tvs = 'a' }", "`data.train.tvs` is not a key. Did you mean `tsv`?"),
        ("{ tsv = 'a', source = 'x' }", '`data.train.source` is "x", but must be a whole number of at least 1.'),
        (
            "{ source = 'a', target = 'b', lines = '7' }",
            '`data.train.lines` is "7", but must be a range of lines such as "1-2000".',
        ),
        ("{ builtin = 'french' }", '`data.train.builtin` is "french", but must be "english-spanish".'),
        (
            "'train.txt'",
            '`data.train` is "train.txt", but must be a table with `source` and `target`, `tsv`, `jsonl`, `builtin` '
            "or `text`",
        ),
        (
            "[{ source = 'a', target = 'b' }, 3]",
            "`data.train.1` is 3, but must be a table with `source` and `target`, `tsv`, `jsonl`, `builtin` or `text`.",
        ),
    ],
)
def test_a_mistake_in_a_corpus_has_the_path_that_the_recipe_writes(corpus: str, line: str) -> None:
    lines = complaints(f"[data]\ntrain = {corpus}")
    assert len(lines) == 1
    assert lines[0].startswith(f"my.toml: {line}")


TAGGED = '{ source = "a.en", target = "a.de", to = "de" }'
NAMED = '{ source = "a.en", target = "a.de", name = "x" }'
VALID = 'valid = { source = "b.en", target = "b.de" }\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"[data]\ntrain = {TAGGED}\nvalid = {{ source = 'b.en', target = 'b.de' }}",
            "`to` must be set in all corpora or in none, but one of `data.valid` lacks it.",
        ),
        (
            f"{DATA}test = {TAGGED}",
            "`to` must be set in all corpora or in none, but one of `data.train` lacks it.",
        ),
        (
            f"{DATA}test = [{NAMED}, {NAMED}]",
            "`data.test` has two corpora named `x`: give each its own `name`.",
        ),
        (
            f"{DATA}test = [{{ source = 'a', target = 'b', name = '2' }}, {{ source = 'a', target = 'b' }}]",
            "`data.test` has two corpora named `2`: give each its own `name`.",
        ),
        (
            f"{DATA}test = {{ source = 'a', target = 'b', name = 'a/b' }}",
            '`data.test.name` is "a/b", but must be letters, digits, `.`, `-`, `_` and spaces.',
        ),
        (
            '[data]\ntrain = { source = "a", target = "b", to = "<2de>" }',
            '`data.train.to` is "<2de>", but must be a language such as "de".',
        ),
        (
            '[data]\ntrain = { source = "a", target = "b", to = "de at" }',
            '`data.train.to` is "de at", but must be a language such as "de".',
        ),
        (f"{DATA}temperature = 0.5", "`data.temperature` is 0.5, but must be a number of at least 1."),
        (f"{DATA}lowercase = 1", "`data.lowercase` is 1, but must be true or false."),
        (f"{DATA}tokenized = true", "`data.tokenized` is true, but must be a table."),
        (f'{DATA}tokenized = {{ source = "en" }}', "`data.tokenized.target` is missing: it must be "),
        (f'{DATA}tokenized = {{ source = "en", target = "" }}', '`data.tokenized.target` is "", but must be '),
        (
            f"{DATA}[evaluate]\ndetokenize = true",
            "`evaluate.detokenize` needs `data.tokenized`, which names the languages.",
        ),
        (
            f"{DATA}[train]\naverage = {{ last = 2, best = 3 }}",
            "in `train.average`, must have one key: `last` or `best`, the number of checkpoints to average.",
        ),
        (
            f"{DATA}[train]\naverage = {{}}",
            "in `train.average`, must have one key: `last` or `best`, the number of checkpoints to average.",
        ),
        (
            f"{DATA}[train]\naverage = {{ last = 0 }}",
            "`train.average.last` is 0, but must be a whole number of at least 1.",
        ),
        (f"{DATA}[train]\naverage = 5", "`train.average` is 5, but must be a table."),
        (
            f"{DATA}[train]\naverage = {{ best = 5 }}",
            "`train.average.best` needs `data.valid`, by which they are the best.",
        ),
        (
            f'{DATA}[train]\nvalidation = {{ metric = "bleu" }}',
            '`train.validation.metric` is "bleu", which needs `data.valid`.',
        ),
        (f"{DATA}[train]\nstart_from = 1", "`train.start_from` is 1, but must be a text in quotes."),
    ],
)
def test_a_mistake_about_languages_text_averaging_or_the_start_is_one_line(text: str, line: str) -> None:
    lines = complaints(text)
    assert len(lines) == 1
    assert lines[0].startswith(f"my.toml: {line}")


def test_languages_text_averaging_and_the_start_are_read() -> None:
    recipe = load(
        f"[data]\ntrain = [{TAGGED}, {TAGGED.replace('de', 'pt-BR')}]\nvalid = {TAGGED}\ntest = [{TAGGED}]\n"
        'temperature = 5\nlowercase = true\ntokenized = { source = "en", target = "de" }\n'
        '[train]\naverage = { best = 3 }\nstart_from = "runs/first"\n[evaluate]\ndetokenize = true'
    )
    assert [corpus.to for corpus in recipe.data.train] == ["de", "pt-BR"]
    assert (recipe.data.temperature, recipe.data.lowercase) == (5, True)
    assert recipe.data.tokenized == Tokenized(source="en", target="de")
    assert recipe.train.average == Average(best=3)
    assert recipe.train.start_from == "runs/first"
    assert recipe.evaluate.detokenize
    assert recipe_from_json(recipe_to_json(recipe), "config.json") == recipe
    recipe_file(recipe_to_toml(recipe), "shown.toml")
    assert load_recipe("shown.toml") == recipe


def test_the_last_checkpoints_can_be_averaged_without_validation() -> None:
    assert load(f"{DATA}[train]\naverage = {{ last = 5 }}").train.average == Average(last=5)
    assert load(f"{DATA}{VALID}[train]\naverage = {{ best = 5 }}").train.average == Average(best=5)


def test_an_override_is_blamed_for_what_needs_validation() -> None:
    assert complaints(DATA, "train.average.best=2") == [
        "--set train.average.best=2: `train.average.best` needs `data.valid`, by which they are the best."
    ]
    assert complaints(DATA, "train.validation.metric=chrf") == [
        '--set train.validation.metric=chrf: `train.validation.metric` is "chrf", which needs `data.valid`.'
    ]


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_schema() -> None:
    text = """
    [data]
    train = { source = "a", targt = "b" }
    [tokenizer]
    kind = "bytebpe"
    [model]
    layer = 3
    heads = 0
    [train]
    steps = "many"
    """
    assert complaints(text) == [
        "my.toml: `data.train.targt` is not a key. Did you mean `target`?",
        'my.toml: `tokenizer.kind` is "bytebpe", but must be one of: byte_bpe, bpe, wordpiece, unigram, word, char.',
        "my.toml: `model.heads` is 0, but must be a whole number of at least 1.",
        "my.toml: `model.layer` is not a key of the family transformer. Did you mean `layers`?",
        'my.toml: `train.steps` is "many", but must be a whole number of at least 1.',
    ]


def test_an_empty_recipe_lacks_its_data() -> None:
    assert complaints("") == ["my.toml: `data` is missing: it must be a table."]


# --- JSON and TOML ------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def rich_recipe(folder: str, name: str) -> Recipe:
    values: dict[str, Any] = {
        "data": {
            "folder": folder,
            "train": [{"source": name, "target": "b", "weight": 0.1}, {"tsv": "c", "target": 3}],
            "valid": {"jsonl": name},
            "test": [{"builtin": "english-spanish"}],
            "max_ratio": 1.5,
        },
        "tokenizer": {"kind": "word", "min_count": 2},
        "model": {"preset": "big", "layers": 2, "final_norm": True, "norm": "pre"},
        "train": {
            "optimizer": {"kind": "adamw", "epsilon": 1e-12},
            "schedule": {"kind": "cosine", "lr": 3e-4},
            "compile": False,
            "seed": -7,
        },
    }
    return recipe_from_json(values, "here")


@given(folder=TEXTS, name=TEXTS)
def test_json_and_toml_give_the_same_recipe_back(folder: str, name: str) -> None:
    recipe = rich_recipe(folder, name)
    assert recipe_from_json(recipe_to_json(recipe), "config.json") == recipe
    Path("shown.toml").write_bytes(recipe_to_toml(recipe).encode())
    assert load_recipe("shown.toml") == recipe


def test_the_toml_of_a_recipe_reads_well() -> None:
    text = recipe_to_toml(rich_recipe("corpora", "a.en"))
    assert text.startswith(
        '[data]\nfolder = "corpora"\ntrain = [\n'
        '  { name = "", weight = 0.1, lines = "", to = "", source = "a.en", target = "b" },\n'
        '  { name = "", weight = 1.0, lines = "", to = "", tsv = "c", source = 1, target = 3 },\n]\n'
        'valid = { name = "", weight = 1.0, lines = "", to = "", '
        'jsonl = "a.en", source = "source", target = "target" }\n'
    )
    assert '\n\n[tokenizer]\nkind = "word"\njoint = true\nsample = 1000000\nsize = 50000\n' in text
    assert '\n\n[train.schedule]\nkind = "cosine"\nlr = 0.0003\n' in text
    assert text.endswith('[evaluate]\nbleu_tokenize = "13a"\ndetokenize = false\n')
    assert "None" not in text
    assert "decoder_layers" not in text


def test_toml_has_no_null_so_none_is_left_out() -> None:
    assert toml_document({"a": None, "b": {"c": [{"d": None, "e": 1}], "f": {}}}) == "[b]\nc = { e = 1 }\n\n[b.f]\n"


def test_json_errors_name_the_file_they_are_in() -> None:
    values = recipe_to_json(rich_recipe("", "a"))
    values["model"]["layers"] = None
    values["model"]["family"] = "transformer"
    with pytest.raises(UserError) as caught:
        recipe_from_json(values, "runs/m30k/config.json")
    assert str(caught.value) == (
        "runs/m30k/config.json: `model.layers` is null, but must be a whole number of at least 1."
    )


@pytest.mark.parametrize("value", [None, [], 3, "x"])
def test_json_that_is_no_object_is_no_recipe(value: object) -> None:
    with pytest.raises(UserError, match=r"^config\.json: must hold a recipe, but is not a JSON object\.$"):
        recipe_from_json(value, "config.json")


def test_recipes_are_read_without_torch() -> None:
    code = "import sys, heedful.config.reading.load; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
