"""Files and folders after a loss of power: the old content or the new one, and the new one once a function returned.

`benchmarks/faults/power_loss.py` says what a disk may hold then; `make test-faults` does this with whole runs.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.faults.bad_savers import BAD_SAVERS, OURS, Saver
from benchmarks.faults.disk import Disk
from benchmarks.faults.power_loss import Log, Tree, Write, states

from heedful.base import files

OLD, NEW = b"old " * 400, b"new " * 300
Content = dict[str, bytes | str | None]


def write_file(root: Path, data: bytes) -> None:
    files.write_bytes(root / "deep/er/file", data)


def write_folder(root: Path, data: bytes) -> None:
    files.write_folder(root / "deep/folder", {"one": data, "two": data[::-1]})


def remove_folder(root: Path, data: bytes) -> None:
    files.remove_folder(root / "deep/folder")


def remaining(tree: Tree) -> Content:
    """What is on the disk, without folders and without what killed processes may leave."""
    found = {name: content for name, content in tree.listing().items() if content is not None}
    return {name: content for name, content in found.items() if not any(p.startswith(".") for p in name.split("/"))}


def record(root: Path, change: Callable[[Path, bytes], None], saver: Saver = OURS) -> Log:
    log = Log(root)
    with Disk(root, log=log, audited=False).mounted(), saver():
        change(root, NEW)
    log.mark("returned", 1)
    assert log.differences() == []
    return log


def wrong(root: Path, change: Callable[[Path, bytes], None], saver: Saver = OURS) -> list[str]:
    """Make a change, and return the states that are neither as before nor as after it, or not after it at its end."""
    log = record(root, change, saver)
    before, after = remaining(next(iter(states(log, "a"))).tree), remaining(log.live)
    assert before != after
    found = []
    for state in states(log, "a", draws=20):
        left = remaining(state.tree)
        if left != after and (left != before or "returned" in state.done):
            found.append(f"after {log.describe(state.after)}, {state.how}")
    return found


def write_new(root: Path, data: bytes) -> None:
    files.write_new(root / "deep/er/new", data)


@pytest.mark.parametrize("change", [write_file, write_folder])
def test_what_is_written_is_there_whole_or_not_at_all_and_stays_once_it_was_written(
    tmp_path: Path, change: Callable[[Path, bytes], None]
) -> None:
    assert wrong(tmp_path, change) == []  # where there was nothing
    assert wrong(tmp_path, lambda root, data: change(root, OLD)) == []  # over the new content


def test_a_new_file_is_there_whole_or_not_at_all_and_stays_once_it_was_written(tmp_path: Path) -> None:
    assert wrong(tmp_path, write_new) == []


def test_a_folder_is_removed_whole_or_not_at_all(tmp_path: Path) -> None:
    write_folder(tmp_path, OLD)
    assert wrong(tmp_path, remove_folder) == []


FOR_FILES = ["in place", "delete then rename", "rename without sync", "sync of files, not of folders"]


@pytest.mark.parametrize("name", FOR_FILES)
def test_a_bad_saver_is_found_out(tmp_path: Path, name: str) -> None:
    write_file(tmp_path, OLD)
    assert wrong(tmp_path, write_file, BAD_SAVERS[name][0]) != []


def test_data_that_was_not_synced_may_be_torn_zero_or_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    log = Log(tmp_path)
    log.written(log.opened(str(tmp_path / "file"), cut=False), 0, NEW)
    assert isinstance(log.operations[-1], Write)
    found = {state.tree.listing()["file"] for state in states(log, "a", draws=200)}
    assert {b"", NEW, bytes(len(NEW))} < found
    assert any(
        isinstance(data, bytes) and data[:512] != NEW[:512] and data[512:1024] == NEW[512:1024] for data in found
    )


def test_a_rename_may_be_lost_until_its_folder_is_synced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(OLD)
    log = Log(tmp_path)
    log.renamed(str(tmp_path / "a"), str(tmp_path / "b"))
    assert {tuple(state.tree.listing()) for state in states(log, "a")} == {("a",), ("b",)}
    log.synced(str(tmp_path))
    assert [*states(log, "a")][-1].tree.listing() == {"b": OLD}
