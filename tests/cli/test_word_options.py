"""--terms, --require and --forbid as a user sees them."""

import json
from pathlib import Path

import pytest
from tests.shared.refusals import like, refuses

from heedful.cli.main import run
from heedful.config.tasks import TASKS, refuse_evaluation_option
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *arguments: str | Path) -> list[str]:
    assert run([*map(str, arguments), "--device", "cpu"]) == 0
    return capsys.readouterr().out.splitlines()


def refused(capsys: Capture, *arguments: str | Path) -> str:
    assert run([*map(str, arguments), "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error.removeprefix("heedful: error: ").rstrip("\n")


def test_terms_apply_to_the_lines_that_have_them(
    reversing_folder: Path, reversing: Translator, tmp_path: Path, capsys: Capture
) -> None:
    texts = ["ant bee", "cat dog", "", "eel"]
    (tmp_path / "text").write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "terms.tsv").write_text("cat\tfox gnu\n")
    where = ("translate", reversing_folder, tmp_path / "text", "--terms", tmp_path / "terms.tsv")
    lines, plain = shown(capsys, *where), reversing.translate(texts)
    assert [lines[0], *lines[2:]] == [plain[0], *plain[2:]]
    assert "fox gnu" in lines[1]
    assert [json.loads(line)["text"] for line in shown(capsys, *where, "--json")] == lines
    assert [line.split("\t")[2] for line in shown(capsys, *where, "--n-best", "1")] == lines


def test_words_are_required_and_forbidden_in_every_line(reversing_folder: Path, capsys: Capture) -> None:
    rules = ("--require", "hen", "--require", "gnu", "--forbid", "ant", "--forbid", "bee")
    (line,) = shown(capsys, "translate", reversing_folder, "-t", "ant bee", *rules)
    assert {"hen", "gnu"} <= set(line.split())
    assert not {"ant", "bee"} & set(line.split())


def test_test_sets_are_translated_with_words_too(reversing_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "translations"
    shown(capsys, "evaluate", reversing_folder, "--forbid", "ant", "--output", output)
    texts = [line for path in tmp_path.glob("translations*") for line in path.read_text().splitlines()]
    assert texts
    assert not any("ant" in line.split() for line in texts)


def test_mistakes_are_told_before_the_model_is_loaded(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = tmp_path / "terms.tsv"
    assert refused(capsys, "translate", tmp_path, "-t", "ant", "--terms", terms) == f"{terms}: no such file."
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, "translate", tmp_path, "-t", "ant", "--terms", "terms.tsv") == "terms.tsv: no such file."
    terms.write_text("ant\n")
    assert refused(capsys, "translate", tmp_path, "-t", "ant", "--terms", terms) == (
        f"{terms}, line 1 has 1 column, but must be a term, a tab and its translation."
    )


def test_mistakes_name_the_flags(reversing_folder: Path, capsys: Capture) -> None:
    words = [part for word in ("bee", "cat", "dog") for part in ("--require", word)]
    assert refused(capsys, "translate", reversing_folder, "-t", "ant", *words, "--max-extra", "1") == like(
        "Sentence 1 must contain `bee`, `cat`, `dog`, for which it needs up to 4 tokens with `</s>`, "
        "but ... 2: require less or raise --max-extra."
    )
    assert refused(capsys, "translate", reversing_folder, "-t", "ant", "--forbid", " ") == (
        "--forbid, word 1 is blank: leave it out."
    )


def test_words_are_options_of_translators() -> None:
    with refuses("--terms is for translators, which runs/trees is not: leave it out."):
        refuse_evaluation_option("terms", "--terms", TASKS["parse"], "runs/trees")
