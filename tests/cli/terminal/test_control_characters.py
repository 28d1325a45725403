"""Data cannot act on a terminal: control characters are escaped in messages, and in results that a terminal shows."""

import io
import json
import os
import pty
import re
import sys
import termios
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copytree

import pytest
from rich.console import Console

from heedful.base.columns import printable
from heedful.base.errors import UserError, UserErrors
from heedful.cli import main, messages
from heedful.cli.output import open_streams, progress_bar
from heedful.runs.progress import RunProgress

BUNDLES = Path(__file__).parents[2] / "golden/bundles"
MARKS = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\u2066\u200f"  # colours, a title, a bell, a C1 control, marks of direction
HOSTILE = f"{MARKS}\x00\x7f\x0b\x85\u2028[red]:dog:{{task}}"
# What a terminal would obey, but for line breaks and tabs; ours are taken out first.
OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OURS = re.compile(r"\x1b\[(?:2K|1A|\?25[lh]|[0-9;]*m)")  # of a progress line

Shown = Callable[[], str]


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    """Make a terminal the standard output and error of this process; give a function that returns all it shows."""
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST  # no carriage returns but ours
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    parts: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # the other end is closed
            while part := os.read(master, 10_000):
                parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    with monkeypatch.context() as patch:
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, io.TextIOWrapper(io.FileIO(slave, "w", closefd=False), write_through=True))
        open_streams()

        def shown() -> str:
            sys.stdout.flush()
            sys.stderr.flush()
            os.close(slave)
            reader.join()
            return b"".join(parts).decode()

        yield shown
    os.close(master)


def assert_harmless(shown: str) -> None:
    found = OBEYED.search(OURS.sub("", shown))
    assert found is None, shown


def test_what_a_terminal_obeys_is_escaped_and_all_else_stays() -> None:
    kept = "Grüße, 日本語 \U0001f415\u200d\U0001f9ba می\u200cخواهم\n\tשלום"
    assert printable(kept) == kept
    assert printable("\x1b[31m\x07\x00\r\x85\u202e\u2028\ud800") == r"\x1b[31m\x07\x00\r\x85\u202e\u2028\ud800"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with hostile text in every kind of file."""
    monkeypatch.chdir(tmp_path)
    named = MARKS.replace("/", "")
    quoted = json.dumps(HOSTILE)
    (tmp_path / f"{named}.toml").write_text("[model\n")
    (tmp_path / "key.toml").write_text(f"[train]\n{quoted.replace(chr(0x7F), '')} = 1\n")
    (tmp_path / "value.toml").write_text(f"[train]\ndevice = {quoted.replace(chr(0x7F), '')}\n")
    (tmp_path / "some.trees").write_text(f"(S (NP a{MARKS}) (VP b))\n{MARKS} (S (NP c))\n", encoding="utf-8")
    (tmp_path / "some.csv").write_text("text,label\n" + f"a{MARKS}b,x{MARKS}\nb c,y\n" * 9, encoding="utf-8")
    (tmp_path / "recipe.toml").write_text(
        '[data]\ntrain = { csv = "some.csv", text = "text", label = "label" }\n[model]\nfamily = "classifier"\n'
    )
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        for number in range(2):
            archive.writestr(f"{number}{MARKS}.txt", "a\n")
    model = copytree(BUNDLES / "parser", tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    config["recipe"]["train"][HOSTILE] = 1
    (model / "config.json").write_text(json.dumps(config))
    return tmp_path


COMMANDS = {
    "a verb": [f"train{MARKS}"],
    "an option": ["recipes", "list", f"--all{MARKS}"],
    "a missing file": ["config", "check", f"none{MARKS}\n.toml"],
    "the name of a file": ["config", "check", f"{MARKS}.toml"],
    "a key": ["config", "check", "key.toml"],
    "a value": ["config", "check", "value.toml"],
    "words of trees": ["init", "some.trees", "--task", "parse"],
    "names in an archive": ["init", "some.zip"],
    "labels, by the doctor": ["doctor", "recipe.toml", "--quick"],
    "columns, in a first recipe": ["init", "some.csv"],
    "the key of a bundle": ["parse", "model", "--text", "a b", "--device", "cpu"],
    "words of trees in results": ["parse", str(BUNDLES / "parser"), "--text", f"a{MARKS} b", "--device", "cpu"],
    "a traceback": ["config", "check", "value.toml", "--verbose"],
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_data_cannot_act_on_the_terminal(arguments: list[str], files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown:
        main.run(arguments)
        found = shown()
    assert found
    assert_harmless(found)
    if "recipe.toml" not in arguments and "some.csv" not in arguments:
        assert r"\x1b[31m" in found or r"\u001b[31m" in found  # the second where a value is written as TOML has it


def test_results_that_no_terminal_shows_are_byte_exact(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    arguments = ["parse", str(BUNDLES / "parser"), "--text", f"a{MARKS} b", "--device", "cpu"]
    assert main.run(arguments) == 0
    assert f"a{MARKS}".encode() in capfdbinary.readouterr().out


def test_line_breaks_in_a_message_make_no_further_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main._report(UserError("a\nb\u2028c: no.")) == 2
    assert main._report(UserErrors(["a\nb: no.", "c: no."])) == 2
    lines = ["heedful: error: a\\nb\\u2028c: no.", "heedful: 2 errors:", "  a\\nb: no.", "  c: no.", ""]
    assert capsys.readouterr().err == "\n".join(lines)


def test_progress_shows_data_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    with terminal(monkeypatch) as shown:
        with RunProgress(Console(file=sys.stderr, force_terminal=True, width=300)) as progress:
            progress.say(f"trained on {HOSTILE}")
            with progress.showing(f"validating {HOSTILE}", 3) as advance:
                advance(1)
        with progress_bar(f"reading {HOSTILE}", 3) as advance:
            advance(3)
        found = shown()
    assert_harmless(found)
    plain = OURS.sub("", found)
    for text in ("trained on", "validating", "reading"):
        assert text + " " + printable(HOSTILE) in plain, text


def test_a_bug_is_shown_without_acting_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    messages.write_traceback(ValueError, ValueError(HOSTILE), None)
    assert capsys.readouterr().err == f"ValueError: {printable(HOSTILE)}\n"
