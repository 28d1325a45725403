"""Standard streams may be closed, full or of the wrong kind: one line or none, and the right exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

HEEDFUL = f"'{sys.executable}' -P -m heedful"
CLOSED = (
    "heedful: error: standard output is closed, but there are results to write: leave `>&-` out, or write them to a "
    "file with `> FILE`.\n"
)


def shell(command: str) -> tuple[int, str]:
    """Run a command in a shell; return its exit code, and what reaches its standard output and error."""
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("streams", "expected"),
    [(">&-", (2, CLOSED)), ("1</dev/null", (2, CLOSED)), (">&- 2>&-", (2, "")), ("2>&- >/dev/null <&-", (0, ""))],
)
def test_results_that_have_nowhere_to_go_are_one_line(streams: str, expected: tuple[int, str]) -> None:
    assert shell(f"{HEEDFUL} recipes list {streams}") == expected


def test_what_has_no_results_needs_no_standard_output() -> None:
    code, shown = shell(f"{HEEDFUL} trian >&- <&-")
    assert (code, shown.startswith("heedful: error: `trian` is not a verb")) == (2, True)
    assert shell(f"{HEEDFUL} trian 2>&-") == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_messages_that_a_full_disk_cannot_take_keep_the_exit_code() -> None:
    assert shell(f"{HEEDFUL} trian 2>/dev/full") == (2, "")


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library prints would be written into it."""
    program = (
        "import os, sys; from heedful.cli.output import open_streams; open_streams();"
        f"file = open({str(tmp_path / 'file')!r}, 'w'); os.write(1, b'one'); os.write(2, b'two');"
        "file.write(f'{file.fileno() > 2} {sys.stdin.read()!r}')"
    )
    command = [sys.executable, "-P", "-c", program]
    subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command])
    assert (tmp_path / "file").read_text() == "True ''"
