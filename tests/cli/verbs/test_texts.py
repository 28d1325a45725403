"""`heedful texts` as a user sees it, and the commands of all its items in a short form."""

import json
import shlex
from pathlib import Path

import pytest

from heedful.cli.main import run
from heedful.cli.verbs.texts import has_json
from heedful.texts.listing import MODEL, read_texts

ITEMS = [item for text in read_texts() for item in text.items]
SHORT = {item.short or item.arguments: item.id for item in ITEMS if item.arguments}


def test_the_list_has_every_item_with_its_verdict_and_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["texts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Tal Daniel: EE 046211, Technion, Tutorial 07: Sequential Tasks" in "\n".join(lines)
    assert len(lines) == len(ITEMS) + 5 + 1
    assert lines[-1].startswith(f"{len(ITEMS)} items: ")


def test_a_text_is_listed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["texts", "seq2seq"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [item.id for item in ITEMS if item.id.startswith("seq2seq-")]
    assert lines[-1].startswith(f"{len(lines) - 2} items: ")


def test_an_equation_is_computed_by_the_text_and_by_heedful(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["texts", "seq2seq-worked-example"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "verdict: same"
    assert [float(number) for number in lines[-2].removeprefix("Heedful").split()] == [112, 96, 14, 12, 0.88, 0.12]
    assert lines[-1] == "largest difference between the text and Heedful: 0"


def test_items_and_their_results_are_objects_of_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["texts", "--json"]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [item["id"] for item in found] == [item.id for item in ITEMS]
    assert run(["texts", "seq2seq-worked-example", "--json"]) == 0
    computed = json.loads(capfd.readouterr().out)
    assert computed["verdict"] == "same"
    assert computed["lines"][-1] == "largest difference between the text and Heedful: 0"
    assert computed["values"]["heedful"] == computed["values"]["text"] == [112, 96, 14, 12, 0.88, 0.12]
    assert run(["texts", "tutorial-perplexity-bounds", "--json"]) == 0
    assert json.loads(capfd.readouterr().out, parse_constant=pytest.fail)["values"]["text"] == [1.0, None, 1000.0]
    assert run(["texts", "thesis-figure-2.14", "--show", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["command"].startswith("heedful plot schedule ")


@pytest.mark.parametrize(
    ("arguments", "known"), [(["gradients"], True), (["plot", "cell", "lstm"], False), (["cache", "list"], True)]
)
def test_a_command_gets_json_where_its_verb_has_it(arguments: list[str], known: bool) -> None:
    assert has_json(arguments) == known


def test_a_command_is_shown_or_run(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["texts", "notes-7-restricted", "--show"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "command: heedful config explain model.attention_radius"
    assert run(["texts", "notes-7-restricted"]) == 0
    assert "model.attention_radius" in capfd.readouterr().out.splitlines()[2:]


def test_settings_go_to_the_recipe_or_the_study_of_an_item(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["texts", "notes-6.3-wsj", "--show", "--set", "data.folder=my trees"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "command: heedful train wsj-parse --set 'data.folder=my trees'"
    assert run(["texts", "notes-6.3-wsj", "--set", f"data.folder={tmp_path}", "--set", "model.nosuch=1"]) == 2
    assert "`model.nosuch` is not a key" in capsys.readouterr().err


def test_settings_without_a_recipe_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["texts", "thesis-2.9", "--set", "data.folder=here"]) == 2
    assert "--set: thesis-2.9 neither trains a recipe nor runs a study, so there is nothing to set." in (
        capsys.readouterr().err
    )
    assert run(["texts", "--set", "data.folder=here"]) == 2
    assert "--set: name the item whose command it is for, such as `heedful texts notes-table-3 --set ...`." in (
        capsys.readouterr().err
    )


def test_a_model_that_no_command_reads_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["texts", "thesis-2.9", "--model", "runs/mine"]) == 2
    assert "--model: thesis-2.9 needs no trained translator." in capsys.readouterr().err
    assert run(["texts", "thesis", "--model", "runs/mine"]) == 2
    assert "--model: name the item that needs it, such as `heedful texts seq2seq-it --model ...`." in (
        capsys.readouterr().err
    )


def test_an_item_without_a_command_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["texts", "transformers-sizes"]) == 0
    assert "no command: a chart of models of others" in capsys.readouterr().out


def test_a_model_that_is_not_there_and_an_unknown_item_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["texts", "notes-greedy-speed", "--model", str(tmp_path / "none")]) == 2
    assert (
        "none is not there, but notes-greedy-speed needs a trained translator: run `heedful demo` first, or name one "
        in (capsys.readouterr().err)
    )
    assert run(["texts", "thesis-3.1"]) == 2
    assert "`thesis-3.1` is not an item of the texts." in capsys.readouterr().err
    assert run(["texts", "THESIS-2.9"]) == 2
    assert "`THESIS-2.9` is not an item of the texts. Did you mean `thesis-2.9`?" in capsys.readouterr().err
    assert run(["texts", "nosuch"]) == 2
    assert capsys.readouterr().err.endswith("`nosuch` is not an item of the texts. `heedful texts` lists all.\n")


@pytest.mark.parametrize("item", ["notes-greedy-speed", "seq2seq-alignment"])
def test_a_model_that_does_not_translate_is_refused(item: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["texts", item, "--model", "tests/golden/bundles/bert"]) == 2
    assert capsys.readouterr().err == (
        f"heedful: error: tests/golden/bundles/bert is a model that fills masks, but {item} needs a trained "
        "translator: run `heedful demo` first, or name one with --model.\n"
    )


@pytest.mark.parametrize(("item", "file", "what", "recipe"), [
    ("notes-6.3-wsj", "wsj-02-21.trees", "trains the recipe `wsj-parse`", "wsj-parse"),
    ("seq2seq-bottleneck", "train.lc.norm.tok.en.gz", "runs the study `ladder` of the recipe `sutskever`", "sutskever"),
])  # fmt: skip
def test_an_item_whose_files_are_not_here_is_refused_with_the_way_to_name_their_folder(
    item: str,
    file: str,
    what: str,
    recipe: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for given, place in (([], ""), (["--set", f"data.folder={tmp_path}"], f"{tmp_path}/")):
        assert run(["texts", item, *given]) == 2
        assert capsys.readouterr().err == (
            f"heedful: error: {place}{file}: no such file: {item} {what}, and `heedful recipes show {recipe}` says "
            f"what files that needs: name their folder by `heedful texts {item} --set data.folder=FOLDER`.\n"
        )
    assert not [*tmp_path.iterdir()], "nothing is written"


@pytest.mark.wide
@pytest.mark.parametrize("arguments", sorted(SHORT, key=str), ids=lambda arguments: SHORT[arguments])
def test_the_command_of_an_item_runs(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reversing_folder: Path
) -> None:
    """In a short form where the whole one trains a model."""
    monkeypatch.chdir(tmp_path)
    words = [str(reversing_folder) if word == MODEL else word for word in shlex.split(arguments)]
    assert run(words) == 0
