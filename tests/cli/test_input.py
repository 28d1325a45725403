"""Lines as they arrive, and the texts and pairs on them."""

import os
import pty
import sys
import threading
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.cli import input as input_of_verbs
from heedful.cli import messages
from heedful.cli.input import ArrivingLines, open_inputs
from heedful.cli.verbs.score import _pair_of_line
from heedful.data.corpora.texts import Text, text_of_line


def test_lines_arrive_whole_and_as_they_come() -> None:
    reader, writer = os.pipe()
    arriving = ArrivingLines(reader)
    lines = iter(arriving)
    os.write(writer, b"one\ntw")
    assert next(lines) == b"one\n"
    assert not arriving.ready()
    os.write(writer, b"o\r\nthree\n\nlast")
    assert arriving.ready()
    assert [next(lines), next(lines), next(lines)] == [b"two\r\n", b"three\n", b"\n"]
    assert not arriving.ready()
    os.close(writer)
    assert arriving.ready()
    assert list(lines) == [b"last"]
    assert not arriving.ready()
    os.close(reader)


def test_of_an_enormous_line_only_the_beginning_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_of_verbs, "LONGEST", 5)
    reader, writer = os.pipe()
    os.write(writer, b"short\nlonger" + b"x" * 100)
    arriving = ArrivingLines(reader)
    lines = iter(arriving)
    assert next(lines) == b"short"
    assert not arriving.ready()
    os.write(writer, b"y\nlast\n")
    os.close(writer)
    assert list(lines) == [b"longe", b"last\n"]
    os.close(reader)


def test_a_fast_writer_is_taken_in_large_pieces() -> None:
    reader, writer = os.pipe()
    sent = b"".join(b"line %d\n" % number for number in range(50_000))

    def send() -> None:
        os.write(writer, sent)
        os.close(writer)

    thread = threading.Thread(target=send)
    thread.start()
    arriving = ArrivingLines(reader)
    received, waits = [], 0
    for line in arriving:
        received.append(line)
        waits += not arriving.ready()
    thread.join()
    os.close(reader)
    assert b"".join(received) == sent
    assert waits < 100


# --- texts and pairs --------------------------------------------------------------------------------------------------


def test_a_line_is_a_text_or_a_pair_of_texts() -> None:
    assert text_of_line("one\ttwo", paired=False, where="x") == Text("one\ttwo")
    assert text_of_line("one\ttwo", paired=True, where="x") == Text("one", "two")
    assert text_of_line(" ", paired=True, where="x") == Text(" ")


@pytest.mark.parametrize(("line", "columns"), [("one", "1 column"), ("one\ttwo\tthree", "3 columns")])
def test_a_line_that_is_not_a_pair_is_refused(line: str, columns: str) -> None:
    with refuses(f"in.txt, line 3 has {columns}, but this model reads pairs: two texts separated by a tab."):
        text_of_line(line, paired=True, where="in.txt, line 3")


def test_a_pair_is_a_line_with_one_tab() -> None:
    assert _pair_of_line("a\tb", "") == {"source": "a", "target": "b"}
    assert _pair_of_line("\t", "") == {"source": "", "target": ""}
    with refuses("in.txt, line 3 has 1 column, but must have two: a source and its translation, separated by a tab."):
        _pair_of_line("c", "in.txt, line 3")


# --- files and texts on the command line ------------------------------------------------------------------------------


def opened(*arguments: str, texts: list[str] | None = None) -> list[tuple[str, list[str]]]:
    return [(entry.name, list(entry.lines())) for entry in open_inputs(arguments, texts)]


def test_an_argument_is_a_file_if_there_is_one_and_else_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two words").write_text("of a file\n")
    assert opened("two words", "three more words", "a [MASK]", "[MASK]", texts=["word", "two words"]) == [
        ("two words", ["of a file"]),
        ("texts", ["three more words", "a [MASK]", "[MASK]", "word", "two words"]),
    ]
    assert opened("x " * 5000, "~no-such-user else", "nul \0 in it") == [
        ("texts", ["x " * 5000, "~no-such-user else", "nul \0 in it"])
    ]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("word", "word: no such file (a text of one word is given with --text)."),
        ("test.en", "test.en: no such file."),
        ("my texts.txt", "my texts.txt: no such file."),
        ("my texts.zip:part", "my texts.zip: no such file."),
        (
            "~no-such-user/x",
            "~no-such-user/x: there is no home folder ~no-such-user: write the path of the folder instead.",
        ),
    ],
)
def test_what_can_only_be_a_files_name_is_not_taken_as_a_text(argument: str, message: str) -> None:
    with refuses(message):
        open_inputs([argument])


def test_the_number_of_lines_is_known_of_files_and_texts(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    entries = open_inputs([str(tmp_path / "in.txt"), "a text"], ["another"])
    assert [entry.count() for entry in entries] == [2, 2]


def test_a_pipe_is_read_once_as_it_arrives(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    thread = threading.Thread(target=(tmp_path / "pipe").write_text, args=("one\ntwo\n",))
    (entry,) = open_inputs([str(tmp_path / "pipe")])
    assert entry.count() is None
    thread.start()
    assert list(entry.lines()) == ["one", "two"]
    thread.join()


def test_who_types_is_told_so_and_prompted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, closefd=False) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        (entry,) = open_inputs(None)
        assert capsys.readouterr().err == "heedful: reading from the terminal, one text per line; Ctrl-D ends.\n"
        os.write(ours, b"hello\n\x04")
        assert list(entry.lines()) == ["hello"]
    assert capsys.readouterr().err == "> > \n"
    os.close(ours)
    os.close(theirs)


def test_quiet_does_not_prompt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    messages.reset()
    messages.choose(quiet=True, verbose=False)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, closefd=False) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        (entry,) = open_inputs(None)
        os.write(ours, b"hello\n\x04")
        assert list(entry.lines()) == ["hello"]
    messages.reset()
    assert capsys.readouterr().err == ""
    os.close(ours)
    os.close(theirs)
