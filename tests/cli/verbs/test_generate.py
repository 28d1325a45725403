"""`heedful generate` as a user sees it."""

import io
import json
import os
import pty
import sys
from pathlib import Path

import pytest
from tests.shared.refusals import like
from tests.unit.tasks.text_generators import language_bundle, week_language_bundle

from heedful.cli.main import run
from heedful.models.bundle import Bundle, write_description, write_weights
from heedful.models.networks import LanguageModel
from heedful.tasks.generate.model import TextGenerator

Capture = pytest.CaptureFixture[str]


def write(folder: Path, bundle: Bundle[LanguageModel]) -> Path:
    write_description(folder, bundle.recipe, bundle.vocabularies)
    write_weights(folder, bundle.model)
    return folder


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that learned the days of the week in their order."""
    return write(tmp_path_factory.mktemp("models") / "week", week_language_bundle())


@pytest.fixture(scope="module")
def chars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of characters that sees 24 of them at once."""
    return write(tmp_path_factory.mktemp("models") / "chars", language_bundle())


def generate(model: Path, *arguments: str) -> int:
    return run(["generate", str(model), "--device", "cpu", *arguments])


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_prompt_is_continued(week: Path, capsys: Capture) -> None:
    for named in (["--prompt", "friday"], ["-p", "friday"], ["-t", "friday"]):
        assert generate(week, *named, "--temperature", "0") == 0
        assert capsys.readouterr().out == "friday saturday sunday\n"


def test_prompts_are_texts_files_or_standard_input(
    week: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = "thursday friday saturday sunday\n---\nsaturday sunday\n"
    file = tmp_path / "prompts.txt"
    file.write_text("thursday friday\nsaturday\n")
    assert generate(week, str(file), "--beam", "2") == 0
    assert capsys.readouterr().out == expected
    assert generate(week, "thursday friday", "-p", "saturday", "--beam", "2") == 0
    assert capsys.readouterr().out == expected
    given(monkeypatch, file.read_text())
    assert generate(week, "--beam", "2") == 0
    assert capsys.readouterr().out == expected


def test_a_whole_file_is_one_prompt(chars: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "play.txt"
    file.write_text("the cat\nsat")
    assert generate(chars, str(file), "--whole", "--max-tokens", "4") == 0
    out = capsys.readouterr().out
    assert out.startswith("the cat\nsat")
    assert "---" not in out


def test_only_what_is_new_can_be_written(week: Path, capsys: Capture) -> None:
    assert generate(week, "-p", "friday", "--temperature", "0", "--only-new") == 0
    assert capsys.readouterr().out == " saturday sunday\n"


def test_json_has_tokens_log_probabilities_and_the_reason_of_the_end(chars: Path, capsys: Capture) -> None:
    assert generate(chars, "-p", "the", "-n", "2", "--seed", "4", "--max-tokens", "9", "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = TextGenerator.load(chars, "cpu").generate_detailed("the", samples=2, seed=4, max_tokens=9)
    assert [one["text"] for one in found] == [one.text for one in expected]
    for one, text in zip(found, expected, strict=True):
        assert one["prompt"] == "the"
        assert one["tokens"] == list(text.tokens)
        assert one["pieces"] == list(text.pieces)
        assert one["log_probabilities"] == pytest.approx(text.log_probabilities, abs=1e-5)
        assert one["log_probability"] == pytest.approx(sum(one["log_probabilities"]))
        assert one["ended"] == text.ended
        assert one["slid"] is False


def test_a_text_that_is_shown_as_it_grows_is_the_one_that_is_written_to_a_file(
    chars: Path, tmp_path: Path, capsys: Capture
) -> None:
    wanted = ("-p", "the cat", "--max-tokens", "50", "--stop", "tt", "--stop", "\n\n", "--seed", "3")
    assert generate(chars, *wanted) == 0
    shown = capsys.readouterr().out
    assert generate(chars, *wanted, "-o", str(tmp_path / "text.txt")) == 0
    assert (tmp_path / "text.txt").read_text() == shown
    assert capsys.readouterr().out == ""


def test_it_says_once_that_the_window_slid(chars: Path, capsys: Capture) -> None:
    said = "heedful: the window slid past the model's 24 positions: it no longer saw the start of the text.\n"
    assert generate(chars, "-p", "the cat", "-p", "a cat", "--max-tokens", "60", "--seed", "1") == 0
    assert capsys.readouterr().err == said
    assert generate(chars, "-p", "the cat", "--max-tokens", "60", "--seed", "1") == 0
    assert capsys.readouterr().err == said
    assert generate(chars, "-p", "the cat", "--max-tokens", "60", "--seed", "1", "--no-slide") == 0
    assert capsys.readouterr().err == ""


def test_it_says_that_a_prompt_has_unknown_characters(chars: Path, capsys: Capture) -> None:
    said = "characters or words that are not in the vocabulary: the model reads them as <unk>.\n"
    assert generate(chars, "-p", "QED", "--max-tokens", "2") == 0
    assert capsys.readouterr().err == f"heedful: 1 prompt with {said}"
    assert generate(chars, "-p", "QED", "-p", "a", "-p", "Ω", "--max-tokens", "2", "--json") == 0
    assert capsys.readouterr().err == f"heedful: 2 prompts with {said}"


def test_each_part_is_written_at_once(chars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a text of 20 tokens the reader sees the first ones long before the last."""
    parts: list[str] = []
    monkeypatch.setattr("heedful.cli.verbs.generate.write_part", parts.append)
    assert generate(chars, "-p", "the cat", "--max-tokens", "20", "--temperature", "0") == 0
    assert len(parts) > 10
    assert parts[0] == "the cat"
    assert parts[-1] in ("", "\n")


def test_on_a_terminal_lines_are_continued_one_by_one(
    week: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Who types sees a prompt; a blank line asks for nothing; Ctrl-D ends."""
    here, there = pty.openpty()
    os.write(here, b"friday\n\nsaturday\n\x04")
    terminal = os.fdopen(there, "r", closefd=True)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert generate(week, "--temperature", "0") == 0
    out, err = capsys.readouterr()
    assert out == " saturday sunday\n sunday\n"
    assert "heedful: reading from the terminal, one prompt per line; Ctrl-D ends." in err
    assert "> " in err
    terminal.close()
    os.close(here)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "a", "--seed", "-1"], "--seed is -1, but must be 0 or more, and less than 2^64."),
        (
            ["-p", "a", "--top-k", "-1"],
            "--top-k is -1, but must be 1 or more, or 0 for all tokens.",
        ),
        (["-p", "a", "--top-p", "2"], "--top-p is 2.0, but must be more than 0 and at most 1, which is all tokens."),
        (["-p", "a", "--min-p", "2"], "--min-p is 2.0, but must be from 0, which is all tokens, to 1."),
        (["-p", "a", "--min-p", "nan"], "--min-p is nan, but must be a number."),
        (
            ["-p", "a", "--temperature", "-1"],
            "--temperature is -1.0, but must be 0 (greedy search) or more.",
        ),
        (
            ["-p", "a", "--repetition-penalty", "inf"],
            "--repetition-penalty is inf, but must be 1 (no penalty) or more.",
        ),
        (["-p", "a", "--beam", "10001"], "--beam is 10,001, but must be at most 10,000."),
        (["-p", "a", "--stop", "Q"], "--stop 'Q' cannot occur, as 'Q' is not in the vocabulary: ..."),
        (
            ["-p", "a", "--stop", ""],
            "--stop has an empty string, ...",
        ),
        (["-p", "a", "--json", "--only-new"], "--json has the prompt as a key of its own: leave out --only-new."),
        (
            ["-p", "a", "--beam", "2", "-n", "3"],
            "--n-best is 3, but a beam of 2 finds no more than 2: set --beam to 3 or more, or sample with a "
            "--temperature above 0.",
        ),
        (
            ["-p", "the cat sat on the mat .", "--no-slide"],
            "texts, line 1 has 25 tokens, but the model sees at most 24 (`data.max_length`): shorten it, or leave out "
            "--no-slide.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_impossible_wishes_are_refused_in_one_line(
    chars: Path, arguments: list[str], message: str, capsys: Capture
) -> None:
    assert generate(chars, *arguments) == 2
    out, err = capsys.readouterr()
    assert err == like(f"heedful: error: {message}\n")
    assert out == ""


def test_an_empty_prompt_is_refused_where_texts_have_no_begin(tmp_path: Path, capsys: Capture) -> None:
    model = write(tmp_path / "open", language_bundle(borders="open"))
    assert generate(model, "-p", "") == 2
    assert capsys.readouterr().err == like("heedful: error: texts, line 1 is empty, but this model ...\n")


def test_rows_with_their_continuations_can_be_written_to_a_file(week: Path, tmp_path: Path) -> None:
    (tmp_path / "it.tsv").write_text("id\ttext\n1\tfriday\n2\tsaturday\n")
    data = ["--data", str(tmp_path / "it.tsv"), "--temperature", "0"]
    assert generate(week, *data, "-o", str(tmp_path / "out.tsv")) == 0
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert lines == ["id\ttext\tcontinuation", "1\tfriday\t saturday sunday", "2\tsaturday\t sunday"]


def test_objects_of_several_files_name_them(week: Path, tmp_path: Path, capsys: Capture) -> None:
    for name in "ab":
        (tmp_path / name).write_text("friday\nsaturday\n")
    assert generate(week, *(str(tmp_path / name) for name in "ab"), "-n", "2", "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["file"], one["line"]) for one in found] == [
        (str(tmp_path / name), number) for name in "ab" for number in (1, 1, 2, 2)
    ]
