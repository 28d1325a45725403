"""Streams whose reader goes away, or whose disk is full."""

import os
import pty
import sys
from collections.abc import Callable
from io import StringIO, TextIOWrapper
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.base import files


def hang_up_a_pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    return writer, reader


def hang_up_a_terminal() -> tuple[int, int]:
    master, slave = pty.openpty()
    return slave, master


@pytest.mark.parametrize("opened", [hang_up_a_pipe, hang_up_a_terminal])
def test_a_stream_is_read_as_long_as_it_has_a_reader_and_written_to_nowhere_after(
    opened: Callable[[], tuple[int, int]],
) -> None:
    writer, reader = opened()
    with os.fdopen(writer, "w", encoding="latin-1") as stream:
        quiet = files.tolerate_closed_reader(stream)
        assert quiet.isatty() == stream.isatty()
        print("zwölf", file=quiet)
        assert os.read(reader, 100).rstrip() == b"zw\xf6lf"
        os.close(reader)
        with pytest.raises(OSError, match=r"Broken pipe|Input/output error"):
            os.write(writer, b"x")
        for _ in range(3):
            print("more than a buffer holds" * 1000, file=quiet, flush=True)
        quiet.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_behind_a_stream_is_not_hidden() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, TextIOWrapper(full, write_through=True) as stream:
        quiet = files.tolerate_closed_reader(stream)
        with refuses("...No space left...", OSError):
            print("x", file=quiet)
        with refuses("...No space left...", OSError):
            quiet.close()  # here, not when it is forgotten: its file number may be another file's then


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_behind_a_stream_can_be_tolerated() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, TextIOWrapper(full, write_through=True) as stream:
        quiet = files.tolerate_closed_reader(stream, full_disk=True)
        print("x", file=quiet)
        quiet.close()


def test_a_closed_stream_goes_nowhere_and_one_without_a_file_stays_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with files.tolerate_closed_reader(None) as nowhere:
        print("x", file=nowhere)
    in_memory = StringIO()
    assert files.tolerate_closed_reader(in_memory) is in_memory
    assert files.tolerate_closed_reader(sys.stderr) is sys.stderr
    assert capsys.readouterr() == ("", "")
