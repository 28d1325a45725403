"""Links, devices, pipes, permissions, and names that no file can have."""

import os
import stat
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.base import files
from heedful.base.errors import MachineError, UserError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real/file")
    (tmp_path / "dangling").symlink_to("real/new")
    files.write_bytes(tmp_path / "link", b"one")
    files.write_bytes(tmp_path / "dangling", b"two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()
    assert (tmp_path / "real/file").read_bytes() == b"one"
    assert (tmp_path / "real/new").read_bytes() == b"two"
    assert names(tmp_path / "real") == ["file", "new"]
    (tmp_path / "loop").symlink_to("loop")
    with refuses("...loop: its symbolic links form a loop."):
        files.write_bytes(tmp_path / "loop", b"")


def test_the_permissions_of_a_file_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o640)
    (tmp_path / "file").chmod(0o604)
    files.write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o604


def test_a_protected_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everything
    with refuses("...file: no permission: choose another folder or change the permissions.", MachineError):
        files.write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_device_and_a_pipe_are_written_to_and_stay(tmp_path: Path) -> None:
    files.write_bytes(Path(os.devnull), b"gone")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_bytes(tmp_path / "pipe", b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert names(tmp_path) == ["pipe"]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="open files by number")
def test_a_file_behind_a_device_name_is_added_to(tmp_path: Path) -> None:
    """`--output /dev/stdout > file`"""
    with (tmp_path / "file").open("wb") as file:
        file.write(b"before\n")
        file.flush()
        files.write_bytes(Path(f"/dev/fd/{file.fileno()}"), b"after\n")
    assert (tmp_path / "file").read_bytes() == b"before\nafter\n"


def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        for read in (files.read_bytes, files.read_json, files.sha256_of_file):
            with refuses(f"...{name}: this is a pipe or a device, but must be a file."):
                read(tmp_path / name)


def test_a_pipe_is_not_waited_for_to_be_synced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Invalid argument"):
        files.sync(tmp_path / "pipe")


def test_a_long_name_leaves_room_for_a_temporary_one(tmp_path: Path) -> None:
    files.write_bytes(tmp_path / ("é" * 120), b"x")
    assert names(tmp_path) == ["é" * 120]


# --- folders that the user names ----------------------------------------------------------------------------------


def test_a_folder_for_results_must_have_a_name_that_a_folder_can_have(tmp_path: Path) -> None:
    assert files.output_folder(str(tmp_path / "new")) == tmp_path / "new"
    assert files.output_folder("~/runs") == Path.home() / "runs"
    for name, words in [
        ("", r"^`out` is empty: name a folder\.$"),
        ("x" * 300, r"xxx: the name is too long\.$"),
        ("runs/a\0b", r"^'runs/a\\x00b': the name has a NUL character: choose another\.$"),
        (
            "~nobody-of-this-name/x",
            r"^~nobody-of-this-name/x: there is no home folder ~nobody-of-this-name: write the pa",
        ),
    ]:
        with pytest.raises(UserError, match=words):
            files.output_folder(name)


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    files.write_folder(tmp_path / "real", {"old": b"1"})
    (tmp_path / "link").symlink_to("real")
    files.write_folder(tmp_path / "link", {"new": b"2"})
    assert names(tmp_path) == ["link", "real"]
    assert names(tmp_path / "real") == ["new"]
    files.remove_folder(tmp_path / "link")
    assert names(tmp_path) == ["real"]


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    mark = "0123456789abcdef" * 2
    files.write_folder(tmp_path / "real", {"a": b"1"})
    files.write_folder(tmp_path / f".folder.{mark}", {"a": b"1"})
    (tmp_path / f".file.{mark}").touch()
    (tmp_path / f".link.{mark}").symlink_to("real")
    (tmp_path / ".notes.txt").touch()
    files.remove_leftovers(tmp_path)
    assert names(tmp_path) == [".notes.txt", "real"]
    assert names(tmp_path / "real") == ["a"]
