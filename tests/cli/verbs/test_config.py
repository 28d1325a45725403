"""`heedful config` and `heedful recipes` as a user sees them."""

import gzip
import json
import sys
import zipfile
from pathlib import Path

import pytest

from heedful.cli.main import run
from heedful.config.reading.load import load_recipe
from heedful.config.reading.shipped_recipes import shipped_recipes

NAME = "transformer-base-wmt14"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def heedful(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_correct_recipe_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    out = (
        "demo-en-es: a correct recipe.\n"
        "  train: 160,000 pairs of english-spanish train\n"
        "  valid: 500 pairs of english-spanish valid\n"
        "  test: 2,000 pairs of english-spanish test\n"
    )
    assert heedful(capsys, "config", "check", "demo-en-es") == (0, out, "")


def test_a_recipe_whose_files_can_be_read_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile("pairs.zip", "w") as archive:
        archive.writestr("train.en", "a dog\n")
    Path("train.de.gz").write_bytes(gzip.compress(b"ein Hund\n"))
    Path("my.toml").write_text('[data]\ntrain = { source = "pairs.zip:train.en", target = "train.de.gz" }')
    lines = "my.toml: a correct recipe.\n  train: 1 pair of pairs.zip:train.en + train.de.gz\n"
    assert heedful(capsys, "config", "check", "my.toml") == (0, lines, "")


def test_a_check_needs_no_torch_and_its_result_is_json_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it fails
    Path("a.tsv").write_text("good\tyes\nbad\tno\n")
    Path("b.tsv").write_text("good\tyes\nbad\tmaybe\n")
    table = '{{ tsv = "{}.tsv", text = 1, label = 2 }}'
    Path("my.toml").write_text(f"data.train = {table.format('a')}\n[model]\nfamily = 'classifier'\n")
    code, out, err = heedful(capsys, "config", "check", "my.toml", "--json")
    train = {"part": "train", "name": "a.tsv", "rows": 2, "unit": "texts", "whole": True}
    assert (code, err) == (0, "")
    assert json.loads(out) == {"recipe": "my.toml", "errors": [], "warnings": [], "corpora": [train]}
    code, out, err = heedful(capsys, "config", "check", "my.toml", "--json", "--set", f"data.test={table.format('b')}")
    assert code == 2
    assert json.loads(out)["corpora"] == [train]
    (error,) = json.loads(out)["errors"]
    assert err == f"heedful: error: my.toml: {error}\n"
    assert error.startswith("`data.test`: b.tsv, line 2 has the label `maybe`, which")


def test_a_check_follows_the_defaults_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.tsv").write_text("".join(f"film {number}\t{'ab'[number % 2]}\n" for number in range(100)))
    said = "data.train = { tsv = 'a.tsv', text = 1, label = 2 }\n[model]\nfamily = 'classifier'\n"
    Path("my.toml").write_text(said)
    code, out, _ = heedful(capsys, "config", "check", "my.toml")
    assert (code, len(out.splitlines())) == (0, 4)
    assert out.endswith(" of 100 texts are held out as validation data: `data.valid` is not set\n")
    Path("a.tsv").write_text("a\tx\nb\ty\n")
    code, _, err = heedful(capsys, "config", "check", "my.toml", "--set", "train.validation.metric=f1")
    assert code == 2
    assert "There are too few rows to hold some out" in err


def test_names_of_columns_that_are_read_as_data_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"the film number {number}\t{'ab'[number % 2]}\n" for number in range(9))
    Path("a.tsv").write_text(f"text\tlabel\n{rows}")
    said = "data.train = { tsv = 'a.tsv', text = 1, label = 2, header = false }\n[model]\nfamily = 'classifier'\n"
    Path("my.toml").write_text(said)
    code, out, err = heedful(capsys, "config", "check", "my.toml")
    assert (code, out.splitlines()[0]) == (0, "my.toml: a correct recipe, but see the warning above.")
    assert err.startswith(
        "heedful: warning: a.tsv: the first line looks like the names of columns: “text | label”. Set"
    )


def test_every_file_that_is_not_there_is_one_line_with_its_key_and_path(capsys: pytest.CaptureFixture[str]) -> None:
    Path("here").mkdir()
    Path("here/a.en").write_text("a dog\n")
    with zipfile.ZipFile("here/pairs.zip", "w") as archive:
        archive.writestr("train.en", "a dog\n")
    Path("my.toml").write_text(
        """
        [data]
        folder = "here"
        train = [{ source = "a.en", target = "a.de" }, { tsv = "b.tsv.gz" }]
        valid = { source = "pairs.zip:train.en", target = "pairs.zip:train.de" }
        """
    )
    code, out, err = heedful(capsys, "config", "check", "my.toml")
    assert (code, out) == (2, "")
    first, *lines = err.splitlines()
    assert first == "heedful: 3 errors:"
    assert lines[0].startswith("  my.toml: `data.train.0.target`: here/a.de: no such file")
    assert lines[1].startswith("  my.toml: `data.train.1.tsv`: here/b.tsv.gz: no such file")
    assert lines[2] == (
        "  my.toml: `data.valid.target`: here/pairs.zip has no member `train.de`. Its members: train.en."
    )


def test_a_start_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = heedful(capsys, "config", "check", "imdb-few")
    assert (code, out) == (2, "")
    assert "  imdb-few: `train.start_from` names runs/bert-reviews, which does not exist.\n" in err
    code, out, err = heedful(capsys, "config", "show", "imdb-few")
    assert (code, 'start_from = "runs/bert-reviews"' in out) == (0, True)
    assert err == (
        "heedful: `train.start_from` names runs/bert-reviews, which does not exist: what the recipe takes over from it "
        "is not shown.\n"
    )


def test_a_recipe_with_five_mistakes_shows_all_five(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my.toml").write_text(
        """
        [data]
        train = { source = "train.en", targt = "train.de" }
        [tokenizer]
        kind = "bytebpe"
        [model]
        layer = 3
        heads = 0
        [train]
        batch_tokens = 4096
        """
    )
    code, out, err = heedful(capsys, "config", "check", "my.toml")
    assert (code, out) == (2, "")
    assert err == (
        "heedful: 5 errors:\n"
        "  my.toml: `data.train.targt` is not a key. Did you mean `target`?\n"
        '  my.toml: `tokenizer.kind` is "bytebpe", but must be one of: byte_bpe, bpe, wordpiece, unigram, word, char.\n'
        "  my.toml: `model.heads` is 0, but must be a whole number of at least 1.\n"
        "  my.toml: `model.layer` is not a key of the family transformer. Did you mean `layers`?\n"
        "  my.toml: `train.batch_tokens` is not a key. "
        "Did you mean `data.batch_tokens` or `decode.batch_tokens`?\n"
    )


def test_a_bad_override_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert heedful(capsys, "config", "check", NAME, "--set", "model.heads=3", "--set", "train.steps=5") == (
        2,
        "",
        "heedful: error: --set model.heads=3: in `model`, `width` must be a multiple of `heads` (3), but is 512.\n",
    )


def test_a_shown_recipe_is_the_recipe_with_its_overrides(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = heedful(capsys, "config", "show", NAME, "--set", "model.layers=2", "--set", "data.folder=x")
    Path("shown.toml").write_text(out)
    assert (code, err) == (0, "")
    assert load_recipe("shown.toml") == load_recipe(NAME, ["model.layers=2", "data.folder=x"])


def test_a_key_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = heedful(capsys, "config", "explain", "train.accumulate")
    assert (code, err) == (0, "")
    assert out.startswith("train.accumulate\n\nNumber of micro-batches in one update")
    code, out, err = heedful(capsys, "config", "explain")
    assert (code, err) == (0, "")
    assert "\ntrain.validation  " in out


def test_an_unknown_key_is_not_explained(capsys: pytest.CaptureFixture[str]) -> None:
    line = "heedful: error: `train.acumulate` is not a key of a recipe: did you mean `train.accumulate`?\n"
    assert heedful(capsys, "config", "explain", "train.acumulate") == (2, "", line)


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = heedful(capsys, "config", "schema")
    assert (code, err) == (0, "")
    assert json.loads(out)["title"] == "A recipe of Heedful"


def test_the_shipped_recipes_are_listed_with_their_summaries(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = heedful(capsys, "recipes", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == sorted(shipped_recipes())
    assert '  English -> German, the base Transformer from "Attention Is All You Need" (Vaswani et al. 2017).\n' in out


def test_the_list_of_recipes_goes_to_a_file_too_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert heedful(capsys, "recipes", "list", "--json", "-o", "list.jsonl") == (0, "", "")
    listed = [json.loads(line) for line in Path("list.jsonl").read_text().splitlines()]
    assert {row["name"]: row["path"] for row in listed} == {name: str(p) for name, p in shipped_recipes().items()}
    assert all(row["summary"] for row in listed)


@pytest.mark.parametrize("arguments", [["list", "-o", "new/x"], ["copy", NAME, "new/x"]])
def test_no_folder_is_made_silently(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    line = "heedful: error: new/x: there is no folder new: create it with `mkdir -p new`, or choose another file.\n"
    assert heedful(capsys, "recipes", *arguments) == (2, "", line)
    assert not Path("new").exists()


def test_a_shipped_recipe_is_shown_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    text = shipped_recipes()[NAME].read_text(encoding="utf-8")
    assert heedful(capsys, "recipes", "show", NAME) == (0, text, "")


@pytest.mark.parametrize("verb", ["show", "copy"])
def test_an_unknown_shipped_recipe_gets_a_suggestion(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    line = f"heedful: error: `{NAME}x` is not a shipped recipe. Did you mean `{NAME}`?\n"
    assert heedful(capsys, "recipes", verb, f"{NAME}x") == (2, "", line)


@pytest.mark.parametrize(
    ("arguments", "target"),
    [([], f"{NAME}.toml"), (["mine.toml"], "mine.toml"), (["folder"], f"folder/{NAME}.toml")],
)
def test_a_copy_goes_where_it_should_and_says_where(
    capsys: pytest.CaptureFixture[str], arguments: list[str], target: str
) -> None:
    Path("folder").mkdir()
    assert heedful(capsys, "recipes", "copy", NAME, *arguments) == (0, f"{target}\n", "")
    assert Path(target).read_bytes() == shipped_recipes()[NAME].read_bytes()


def test_a_copy_overwrites_nothing_unless_it_is_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text("precious")
    assert heedful(capsys, "recipes", "copy", NAME, "mine.toml") == (
        2,
        "",
        "heedful: error: mine.toml already exists: choose another name, or overwrite it with --force.\n",
    )
    assert Path("mine.toml").read_text() == "precious"
    assert heedful(capsys, "recipes", "copy", NAME, "mine.toml", "--force")[0] == 0
    assert Path("mine.toml").read_bytes() == shipped_recipes()[NAME].read_bytes()
