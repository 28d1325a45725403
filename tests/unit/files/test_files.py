"""Files appear whole or not at all, and the machine's failures are one line."""

import errno
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.base import files
from heedful.base.errors import MachineError, UserError

FAULTS = [
    (
        errno.ENOSPC,
        "the disk is full: free some space and try again (with `resume=True` if it was training).",
    ),
    (
        errno.EDQUOT,
        "the disk quota is used up: free some space and try again (with `resume=True` if it was training).",
    ),
    (errno.EACCES, "no permission: choose another folder or change the permissions."),
    (errno.EPERM, "no permission: choose another folder or change the permissions."),
    (errno.EROFS, "the file system is read-only: choose another folder."),
    (errno.EIO, "the disk reported an input/output error."),
    (errno.EMFILE, "too many open files: raise the limit with `ulimit -n`."),
]


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


# --- files --------------------------------------------------------------------------------------------------------


def test_a_file_is_written_with_the_folders_above_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    files.write_bytes(path, b"one")
    files.write_bytes(path, b"two")
    assert files.read_bytes(path) == b"two"
    assert names(path.parent) == ["file"]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no folder in memory")
def test_a_file_in_memory_is_replaced_though_devices_are_its_neighbours() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for data in (b"one", b"two"):
            files.write_bytes(Path(folder) / "file", data)
        assert (Path(folder) / "file").read_bytes() == b"two"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    files.write_bytes(path, b"old")
    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[step], failing(errno.ENOSPC))
    with refuses("...file: the disk is full...", MachineError):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "file"
    files.write_bytes(path, b"old")
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(("number", "words"), FAULTS)
def test_a_fault_of_the_machine_is_one_line_and_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    monkeypatch.setattr(os, "fsync", failing(number))
    with pytest.raises(MachineError) as caught:
        files.write_bytes(tmp_path / "file", b"new")
    assert str(caught.value) == f"{tmp_path / 'file'}: {words}"
    assert caught.value.exit_code == 3


def test_a_fault_that_is_not_the_machines_stays_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EBADF))
    with refuses("...Bad file descriptor...", OSError):
        files.write_bytes(tmp_path / "file", b"new")


def test_a_path_that_cannot_be_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with refuses("...file/below: a file exists where a folder must be."):
        files.write_bytes(tmp_path / "file" / "below", b"")
    with refuses("...folder: this is a folder, but must be a file."):
        files.write_bytes(tmp_path / "folder", b"")
    with refuses("...xxx: the name is too long."):
        files.write_bytes(tmp_path / ("x" * 300), b"")
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.skipif(not Path("/proc").exists(), reason="a folder in which nobody can make another")
def test_a_place_that_cannot_be_made_cannot_be_written() -> None:
    words = ": cannot be written: there is no such folder, choose another."
    with refuses(f"/proc/x/file{words}"):
        files.write_bytes(Path("/proc/x/file"), b"")
    with refuses(f"/proc/x/folder{words}"):
        files.write_folder(Path("/proc/x/folder"), {})


# --- logs ---------------------------------------------------------------------------------------------------------


def test_lines_are_added_at_the_end_of_a_log(tmp_path: Path) -> None:
    for line in ("one", "zwei", "três"):
        files.append_line(tmp_path / "log", line)
    assert (tmp_path / "log").read_text(encoding="utf-8") == "one\nzwei\ntrês\n"


def test_a_line_after_a_torn_one_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'{"step": 1}\n{"st')
    files.append_line(tmp_path / "log", '{"step": 3}')
    assert (tmp_path / "log").read_bytes() == b'{"step": 1}\n{"st\n{"step": 3}\n'


def test_a_log_in_no_folder_is_one_line(tmp_path: Path) -> None:
    with refuses("...gone/log: cannot be written: there is no such folder, choose another."):
        files.append_line(tmp_path / "gone" / "log", "x")


# --- folders ------------------------------------------------------------------------------------------------------


def test_a_folder_of_files_appears_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "above" / "folder"
    files.write_folder(path, {"a": b"1", "b": b"2"})
    files.write_folder(path, {"c": b"3"})
    assert names(path) == ["c"]
    assert names(path.parent) == ["folder"]


def test_a_folder_may_hold_folders(tmp_path: Path) -> None:
    with files.new_folder(tmp_path / "folder") as staged:
        (staged / "deep" / "er").mkdir(parents=True)
        (staged / "deep" / "er" / "file").write_bytes(b"1")
    assert (tmp_path / "folder" / "deep" / "er" / "file").read_bytes() == b"1"


def test_everything_in_a_folder_is_on_the_disk_before_the_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def note(path: Path) -> None:
        synced.append((path.name, (tmp_path / "folder").exists()))

    monkeypatch.setattr(files, "sync", note)
    with files.new_folder(tmp_path / "folder") as staged:
        (staged / "deep").mkdir()
        (staged / "deep" / "file").touch()
    assert sorted(synced[:2]) == [("deep", False), ("file", False)]
    assert synced[2:] == [(staged.name, False), (tmp_path.name, True)]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_a_folder_whose_making_fails_vanishes_and_leaves_the_old_one(tmp_path: Path, error: BaseException) -> None:
    files.write_folder(tmp_path / "folder", {"old": b"1"})

    def make() -> None:
        with files.new_folder(tmp_path / "folder") as staged:
            (staged / "new").write_bytes(b"2")
            assert names(tmp_path / "folder") == ["old"]
            raise error

    with pytest.raises(type(error)):
        make()
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["old"]


@pytest.mark.parametrize("call", [1, 2])
def test_a_folder_that_cannot_be_renamed_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    files.write_folder(tmp_path / "folder", {"old": b"1"})
    rename, calls = Path.rename, []

    def fail_once(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == call:
            raise OSError(errno.EIO, "input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    monkeypatch.setattr(files, "_swap", lambda *_: False)  # a system that cannot swap two names
    with refuses("...folder: the disk reported an input/output error...", MachineError):
        files.write_folder(tmp_path / "folder", {"new": b"2"})
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == ["old"]


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="a system that cannot swap two names")
def test_a_reader_finds_the_old_folder_or_the_new_one_at_every_moment(tmp_path: Path) -> None:
    folder, done, missed = tmp_path / "folder", threading.Event(), []
    files.write_folder(folder, {"a": b"0"})

    def read() -> None:
        while not done.is_set():
            try:
                os.stat(folder)  # noqa: PTH116 - it is called as often as possible
            except FileNotFoundError as error:
                missed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        files.write_folder(folder, {"a": str(number).encode()})
    done.set()
    reader.join()
    assert missed == []
    assert names(tmp_path) == ["folder"]
    assert (folder / "a").read_bytes() == b"99"


@pytest.mark.parametrize("missing", [True, False])
def test_where_names_cannot_be_swapped_a_folder_is_renamed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    library = object() if missing else SimpleNamespace(renameat2=lambda *_: -1, renamex_np=lambda *_: -1)
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: library)
    for content in (b"1", b"2"):
        files.write_folder(tmp_path / "folder", {"a": content})
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder/a").read_bytes() == b"2"


def test_a_full_disk_while_a_folder_is_filled_is_one_line(tmp_path: Path) -> None:
    def fill() -> None:
        with files.new_folder(tmp_path / "folder"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with refuses("...folder: the disk is full...", MachineError):
        fill()
    assert names(tmp_path) == []


def test_a_missing_file_inside_the_block_of_a_folder_is_no_mistake_of_the_users(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), files.new_folder(tmp_path / "folder"):
        (tmp_path / "gone").read_bytes()


def test_a_folder_cannot_replace_a_file_or_stand_in_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refuses("...file: this is a file, but must be a folder."):
        files.write_folder(tmp_path / "file", {})
    with refuses("...below: a file exists where a folder must be."):
        files.write_folder(tmp_path / "file" / "below", {})
    assert names(tmp_path) == ["file"]


def test_a_removed_folder_is_gone(tmp_path: Path) -> None:
    files.write_folder(tmp_path / "folder", {"a": b"1"})
    files.remove_folder(tmp_path / "folder")
    assert names(tmp_path) == []


def test_a_half_removed_folder_has_lost_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_folder(tmp_path / "folder", {"a": b"1"})
    monkeypatch.setattr("shutil.rmtree", failing(errno.EACCES))
    with refuses("...folder: no permission...", MachineError):
        files.remove_folder(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


# --- reading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [files.read_bytes, files.read_json, files.sha256_of_file])
def test_what_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    (tmp_path / "file").touch()
    with refuses("...gone: no such file."):
        read(tmp_path / "gone")
    with refuses("...this is a folder, but must be a file."):
        read(tmp_path)
    with refuses("...below: a file exists where a folder must be."):
        read(tmp_path / "file" / "below")
    monkeypatch.setattr(Path, "open", failing(errno.EACCES))
    monkeypatch.setattr(Path, "read_bytes", failing(errno.EACCES))
    with refuses("...file: no permission: choose another folder or change the permissions.", MachineError):
        read(tmp_path / "file")


def test_json_comes_back_as_it_was_written(tmp_path: Path) -> None:
    value = {"name": "Größe", "numbers": [1, 2.5, None, True]}
    files.write_json(tmp_path / "x.json", value)
    assert files.read_json(tmp_path / "x.json") == value
    assert "Größe" in (tmp_path / "x.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("data", [b"", b'{"a": ', b"\xff\xfe\xff", b"[" * 100_000])
def test_damaged_json_says_which_file_to_restore(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(
        UserError, match=r"x\.json is not JSON \(.+\): the file is damaged, restore it from a copy\.$"
    ) as caught:
        files.read_json(tmp_path / "x.json")
    assert len(str(caught.value).splitlines()) == 1


def test_a_hash_is_of_the_files_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert files.sha256_of_file(tmp_path / "file") == hashlib.sha256(b"abc").hexdigest()


# --- new files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("links", [True, False], ids=["a file system with links", "without links"])
def test_a_new_file_is_written_once_and_never_replaced(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", failing(errno.EPERM))
    assert files.write_new(tmp_path / "new", b"first")
    assert not files.write_new(tmp_path / "new", b"second")
    assert (names(tmp_path), (tmp_path / "new").read_bytes()) == (["new"], b"first")


def test_of_several_writers_of_a_new_file_one_is_first(tmp_path: Path) -> None:
    written = dict[bytes, bool]()

    def write(data: bytes) -> None:
        written[data] = files.write_new(tmp_path / "new", data)

    threads = [threading.Thread(target=write, args=(bytes([number]) * 1000,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (first,) = [data for data, was_first in written.items() if was_first]
    assert (names(tmp_path), (tmp_path / "new").read_bytes()) == (["new"], first)


def test_a_new_file_that_cannot_be_written_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_at_the_name(self: Path, target: Path) -> Path:
        return failing(errno.EIO)() if target.name == "new" else replace(self, target)

    replace = Path.replace
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    monkeypatch.setattr(Path, "replace", fail_at_the_name)
    with refuses(f"{tmp_path / 'new'}: the disk reported ...", MachineError):
        files.write_new(tmp_path / "new", b"first")
    assert names(tmp_path) == []
