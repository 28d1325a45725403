"""Recipes are found and read as a user expects."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.shared.refusals import Refusal, each, refuses
from tests.unit.config.reading.written_recipes import DATA, SHIPPED, complaints, load, recipe_file

from heedful.base.errors import UserError
from heedful.config.corpora.containers import AlignedFiles, Builtin, Jsonl, Tsv
from heedful.config.data import Data
from heedful.config.model.transformer import TransformerModel
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import ByteBpe
from heedful.config.train.optimizers import Adam
from heedful.config.train.schedules import Noam

# --- finding and reading ----------------------------------------------------------------------------------------------


def test_a_recipe_with_only_its_data_has_every_default() -> None:
    recipe = load(DATA)
    assert recipe == Recipe(data=Data(train=(AlignedFiles(source="a.en", target="a.de"),)))
    assert recipe.model == TransformerModel()
    assert recipe.tokenizer == ByteBpe()


def test_a_name_without_a_file_is_a_shipped_recipe() -> None:
    assert load_recipe(SHIPPED).tokenizer.size == 37000


def test_a_file_goes_before_a_shipped_recipe_of_the_same_name() -> None:
    recipe_file(DATA, SHIPPED)
    assert load_recipe(SHIPPED).tokenizer.size == 8000


REFUSALS = [
    Refusal(
        "an unknown name, near a shipped recipe",
        lambda: load_recipe("transformer-base-wmt15"),
        f"`transformer-base-wmt15` is neither a file nor a shipped recipe. Did you mean `{SHIPPED}`?",
    ),
    Refusal("a missing file", lambda: load_recipe("recipes/mine.toml"), "recipes/mine.toml: no such file."),
    Refusal(
        "a missing file with the name of a shipped recipe",
        lambda: load_recipe(f"recipes/{SHIPPED}.toml"),
        f"recipes/{SHIPPED}.toml: no such file. A recipe of that name ships with Heedful: write `{SHIPPED}`.",
    ),
    Refusal("a name too long for a file", lambda: load_recipe("x" * 300), "...the name is too long..."),
]


@each(REFUSALS)
def test_a_recipe_that_is_not_there_is_refused_in_one_line(refusal: Refusal) -> None:
    refusal.check()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("my", "`my` is neither a file nor a shipped recipe. Did you mean `my.toml`?"),
        ("my.tml", "`my.tml` is neither a file nor a shipped recipe. Did you mean `my.toml`?"),
        ("mine/first.toml", "mine/first.toml: no such file. Did you mean `mine/frist.toml`?"),
        ("mine/other.toml", "mine/other.toml: no such file."),
    ],
)
def test_a_recipe_that_is_not_there_gets_the_nearest_file(given: str, line: str) -> None:
    recipe_file(DATA, "my.toml")
    Path("mine").mkdir()
    Path("mine/frist.toml").write_text(DATA)
    with refuses(line):
        load_recipe(given)


def test_a_folder_is_no_recipe() -> None:
    Path("folder.toml").mkdir()
    with refuses("folder.toml: this is a folder, but must be a file."):
        load_recipe("folder.toml")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[data]\ntrain { }", "my.toml, line 2, column 7: this is not TOML: expected '=' after a key"),
        ("[data", "my.toml, end of document: this is not TOML: expected ']'"),
        ("x = y\n", "my.toml, line 1, column 5: this is not TOML: a value is expected here; a text needs quotes,"),
        (
            "x = " + "[" * 9999,
            "my.toml: tables or lists are nested more than 8 levels deep, which no key of a recipe is.",
        ),
        (
            f"[{'a.' * 5000}a]",
            "my.toml: tables or lists are nested more than 8 levels deep, which no key of a recipe is.",
        ),
        (
            "[train]\nsteps = 1\n[model]\n[train]\nseed = 2",
            "my.toml, line 4, column 7: this is not TOML: the table [train] is declared twice: put all its keys under "
            "one heading.",
        ),
        (
            "[train]\noptimizer = { beta1 = 0.8 }\n[train.optimizer]\nbeta2 = 0.9",
            "my.toml, line 3, column 17: this is not TOML: the table [train.optimizer] is",
        ),
        (
            "x = { a = 1, a = 2 }",
            "my.toml, line 1, column 19: this is not TOML: the key 'a' is set twice in one table.",
        ),
        ("steps = 1\nsteps = 2\n", "my.toml, line 2, column 10: this is not TOML: a key is set twice."),
    ],
)
def test_a_syntax_error_has_its_line_and_column(text: str, line: str) -> None:
    lines = complaints(text)
    assert len(lines) == 1
    assert lines[0].startswith(line)


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("my.toml", "# ours\ntrain:\n  steps: 100\n", "YAML"),
        ("my.yaml", "train: {steps: 100}\n", "YAML"),
        ("my.toml", '{"train": {"steps": 100}}', "JSON"),
        ("config.json", '{\n  "train": {"steps": 100}\n}', "JSON"),
    ],
)
def test_a_file_of_another_language_is_called_so(name: str, text: str, language: str) -> None:
    recipe_file(text, name)
    with pytest.raises(UserError) as caught:
        load_recipe(name)
    assert str(caught.value).startswith(f"{name}: this is {language}, but a recipe is TOML: ")
    assert str(caught.value).endswith(" written [train] and steps = 9.")


def test_a_file_that_is_not_utf8_has_its_line_and_byte() -> None:
    Path("my.toml").write_bytes(b"[data]\nfolder = 'caf\xe9'\n")
    with refuses("my.toml, line 2: byte 0xe9 is not UTF-8: save it as UTF-8."):
        load_recipe("my.toml")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    Path("my.toml").write_bytes(b"\xef\xbb\xbf" + DATA.replace("\n", "\r\n").encode())
    assert load_recipe(Path("my.toml")) == load(DATA)


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_a_float_that_is_whole_is_a_whole_number() -> None:
    recipe = load(f"{DATA}[train]\nsteps = 1e5\nfreeze = 2.0\nstart_from = 'x'\nclip_norm = 1", "data.batch_tokens=4e3")
    assert (recipe.train.steps, recipe.train.freeze, recipe.data.batch_tokens) == (100_000, 2, 4000)
    assert {type(number) for number in (recipe.train.steps, recipe.train.freeze)} == {int}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[model]\nlayers = 1000000000", "`model.layers` is 1000000000, but must be a whole number of at most 1,000."),
        (
            "[model]\nwidth = 1000000000",
            "`model.width` is 1000000000, but must be a whole number of at most 1,000,000.",
        ),
        ("[model]\nmax_positions = 1e9", "`model.max_positions` is 1000000000, but must be a whole number of at most"),
        (
            "[decode]\nmax_extra = 1e9",
            "`decode.max_extra` is 1000000000, but must be a whole number of at most 100,000.",
        ),
        ("[decode]\nbeam = 1e9", "`decode.beam` is 1000000000, but must be a whole number of at most 10,000."),
        (
            "[tokenizer]\nsize = 1e9",
            "`tokenizer.size` is 1000000000, but must be a whole number of at most 10,000,000.",
        ),
        (
            "[train]\nsteps = 1e300",
            "in `train`, `steps` must be at most 1,000,000,000,000, as no machine can hold more.",
        ),
        (
            "[model]\nlayers = 1000\nwidth = 100000\ninner = 400000",
            "`model` has at least 180,000,000,000,000 parameters, but no machine holds more than 100,000,000,000: "
            "lower its layers and widths.",
        ),
    ],
)
def test_sizes_that_no_machine_holds_are_refused(text: str, line: str) -> None:
    lines = complaints(DATA + text)
    assert len(lines) == 1
    assert lines[0].startswith(f"my.toml: {line}")


# --- kinds ------------------------------------------------------------------------------------------------------------


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
    assert recipe.data.train == (Tsv(tsv="a.tsv"), Jsonl(jsonl="b.jsonl"))
    assert recipe.data.test == (Builtin(builtin="english-spanish", part="test"),)


# --- JSON and TOML ----------------------------------------------------------------------------------------------------


def test_recipes_are_read_without_torch() -> None:
    code = "import sys, heedful.config.reading.load; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
