"""`heedful answer` as a user sees it, and what other verbs say of a reader."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.models.reading import fresh_reader, reader_recipe, report_rows, trained_reader, write_rows
from tests.models.text import written

from heedful.cli.main import run

Capture = pytest.CaptureFixture[str]
TEXT = "so Ann lives in New York now ."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    return trained_reader(tmp_path_factory.mktemp("reader"))


def answer(model: Path, *arguments: str | Path) -> int:
    return run(["answer", str(model), "--device", "cpu", *map(str, arguments)])


def lines(capsys: Capture) -> list[str]:
    return capsys.readouterr().out.splitlines()


def type_in(monkeypatch: pytest.MonkeyPatch, data: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data.encode())))


def test_a_question_about_a_file_or_a_text(model: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "report.txt").write_text("so\nAnn lives in\nNew York now .\n")
    assert answer(model, "--question", "Who ?", "--question", "Where ?", "--context", tmp_path / "report.txt") == 0
    found = [line.split("\t") for line in lines(capsys)]
    assert [answer for answer, _ in found] == ["Ann", "New York"]
    assert all(0 < float(share) <= 1 for _, share in found)
    assert answer(model, "--question", "Where ?", "--context", TEXT) == 0
    assert lines(capsys)[0].startswith("New York\t")


def test_json_has_the_position_and_the_most_likely_stretches(model: Path, capsys: Capture) -> None:
    assert answer(model, "-Q", "Where ?", "-c", TEXT, "--json", "--n-best", "3") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["question"], found["answer"]) == ("Where ?", "New York")
    assert TEXT[found["start"] : found["end"]] == "New York"
    assert len(found["spans"]) == 3
    assert found["spans"][0] == {key: found[key] for key in ("start", "end", "probability")} | {"text": "New York"}
    assert "no_answer" not in found


def test_the_most_likely_stretches_are_columns(model: Path, capsys: Capture) -> None:
    assert answer(model, "-Q", "Where ?", "-c", TEXT, "--n-best", "2", "--max-answer", "1") == 0
    columns = lines(capsys)[0].split("\t")
    assert len(columns) == 4
    assert columns[0] in ("New", "York")


def test_json_lines_in_and_out_a_blank_line_stays_blank(model: Path, tmp_path: Path, capsys: Capture) -> None:
    rows: list[dict[str, Any]] = [{"id": "7", "question": "Who ?", "text": TEXT}, {"question": "Where ?", "text": TEXT}]
    content = f"{json.dumps(rows[0])}\n\n{json.dumps(rows[1])}\n"
    (tmp_path / "q.jsonl").write_text(content)
    assert answer(model, tmp_path / "q.jsonl", "--json", "-o", tmp_path / "out.jsonl") == 0
    first, blank, last = (tmp_path / "out.jsonl").read_text().splitlines()
    assert (json.loads(first)["id"], json.loads(first)["answer"], blank) == ("7", "Ann", "")
    assert json.loads(last)["answer"] == "New York"
    assert capsys.readouterr().out == ""


def test_questions_or_the_text_come_from_standard_input(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    type_in(monkeypatch, "Who ?\n\nWhere ?\n")
    assert answer(model, "--context", TEXT) == 0
    assert [line.split("\t")[0] for line in lines(capsys)] == ["Ann", "", "New York"]
    type_in(monkeypatch, TEXT)
    assert answer(model, "--question", "Who ?") == 0
    assert lines(capsys)[0].startswith("Ann\t")
    type_in(monkeypatch, json.dumps({"question": "Who ?", "text": TEXT}))
    assert answer(model, "-q") == 0
    assert lines(capsys)[0].startswith("Ann\t")


def test_an_answer_that_a_text_does_not_have_is_empty(tmp_path: Path, capsys: Capture) -> None:
    folder = written(fresh_reader(reader_recipe(tmp_path, {"no_answer": True})), tmp_path)
    assert answer(folder, "-Q", "Who ?", "-c", TEXT, "--threshold", "-1000") == 0
    assert lines(capsys)[0].startswith("\t0.")
    assert answer(folder, "-Q", "Who ?", "-c", TEXT, "--threshold", "-1000", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["answer"], found["start"], found["end"]) == ("", None, None)
    assert found["no_answer"] == found["probability"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["q.jsonl", "-Q", "Who ?"], 'FILE has questions with their texts (one JSON object per line: {"question": '
         '"...", "text": "..."}): leave out --question and --context.'),
        (["-Q", " ", "-c", TEXT], "--question: the question is empty:"),
        (["-Q", "Who ?", "-c", "blank.txt"], "blank.txt: the text is empty: give the text that the question is about."),
        (["-c", "-"], "--context - reads the text from standard input: give the question by --question."),
        (["bad.jsonl"], "bad.jsonl, line 1 has no field `text`. Known: question."),
        (["-Q", "Who ?", "-c", "missing.txt"], "missing.txt"),
    ],
)  # fmt: skip
def test_each_mistake_is_one_line_and_exit_code_2(
    model: Path, arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.jsonl").write_text("{}\n")
    (tmp_path / "bad.jsonl").write_text('{"question": "Who ?"}\n')
    (tmp_path / "blank.txt").write_text(" \n")
    assert answer(model, *arguments) == 2
    assert told in capsys.readouterr().err


def test_other_verbs_know_a_reader(model: Path, capsys: Capture) -> None:
    assert run(["evaluate", str(model), "--device", "cpu", "--json", "--max-answer", "5"]) == 0
    assert '"exact_match": ' in capsys.readouterr().out
    assert run(["evaluate", str(model), "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "exact match" in shown
    assert "token F1" in shown
    assert run(["classify", str(model), "--text", "x"]) == 2
    assert "is a model that answers questions about texts: use `heedful answer`." in capsys.readouterr().err
    assert run(["evaluate", str(model), "--stride", "3"]) == 2
    assert "--stride is for language models, which" in capsys.readouterr().err


def test_the_doctor_reads_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    rows = report_rows(30)
    rows[2]["text"] = f"{rows[2]['text']} {rows[2]['text']}"
    write_rows(tmp_path / "train.jsonl", rows)
    (tmp_path / "r.toml").write_text(
        '[data]\nfolder = "' + str(tmp_path) + '"\ntrain = { jsonl = "train.jsonl", question = "question" }\n'
        'batch_tokens = 256\nmax_length = 24\n[tokenizer]\nkind = "word"\n[model]\nfamily = "reader"\n'
        'encoder = { family = "transformer", width = 16, heads = 2, layers = 1, inner = 16 }\n[train]\nsteps = 5\n'
        'device = "cpu"\n'
    )
    assert run(["doctor", str(tmp_path / "r.toml"), "--quick"]) in (0, 1)
    shown = capsys.readouterr().out
    assert "1 of 30 answers occur several times in their text" in shown
    assert run(["tokens", str(tmp_path / "r.toml"), "--batch"]) == 0
    assert "<s>" in capsys.readouterr().out
