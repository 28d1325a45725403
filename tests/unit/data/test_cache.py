import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from heedful.base.errors import MachineError, UserError
from heedful.data.cache import cache_folder, cached, key_of

ELSEWHERE = r"`\$HEEDFUL_CACHE` is where the cache goes: set it to another folder\."


def load(folder: Path) -> str | None:
    file = folder / "text"
    return file.read_text() if file.exists() else None


def build(staged: Path) -> None:
    (staged / "text").write_text("built")


def refuse(staged: Path) -> None:
    raise AssertionError("built again")


def quiet(message: str) -> None:
    pass


def test_an_entry_is_built_once(cache: Path) -> None:
    assert cached(cache / "a" / "key", load, build, quiet) == "built"
    assert cached(cache / "a" / "key", load, refuse, quiet) == "built"


def test_a_damaged_entry_is_built_again(cache: Path) -> None:
    (cache / "key").mkdir(parents=True)
    (cache / "key" / "rubbish").touch()
    assert cached(cache / "key", load, build, quiet) == "built"
    assert sorted(file.name for file in (cache / "key").iterdir()) == ["sha256.json", "text"]


def test_an_entry_with_a_changed_byte_is_built_again_and_said(cache: Path) -> None:
    cached(cache / "key", load, build, quiet)
    (cache / "key/text").write_text("buiLt")
    said: list[str] = []
    assert cached(cache / "key", load, build, said.append) == "built"
    assert said == [f"{cache / 'key'} is damaged: preparing it again"]
    assert cached(cache / "key", load, refuse, quiet) == "built"


@pytest.mark.parametrize("hashes", ["{", "[]", '{"text": 1}', '{"text": "00", "more": "11"}', '{"more": "11"}'])
def test_an_entry_with_other_hashes_is_built_again(cache: Path, hashes: str) -> None:
    cached(cache / "key", load, build, quiet)
    (cache / "key/sha256.json").write_text(hashes)
    cached(cache / "key", load, build, quiet)
    assert cached(cache / "key", load, refuse, quiet) == "built"


def test_an_entry_of_an_earlier_version_is_built_again(cache: Path) -> None:
    """It states no hashes: whether a byte has changed cannot be known."""
    (cache / "key").mkdir(parents=True)
    (cache / "key/text").write_text("something else")
    said: list[str] = []
    assert cached(cache / "key", load, build, said.append) == "built"
    assert said == []


def test_a_failure_half_way_leaves_nothing(cache: Path) -> None:
    def fail(staged: Path) -> None:
        build(staged)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(cache / "key", load, fail, quiet)
    assert [file.name for file in cache.iterdir() if file.suffix != ".lock"] == []
    assert cached(cache / "key", load, build, quiet) == "built"


def test_leftovers_of_a_killed_builder_are_removed(cache: Path) -> None:
    leftover = cache / ".key.0123456789abcdef"
    leftover.mkdir(parents=True)
    build(leftover)
    other = cache / ".other.0123456789abcdef"
    other.mkdir()
    assert cached(cache / "key", load, build, quiet) == "built"
    assert not leftover.exists()
    assert other.exists()  # its builder may be alive


def slow_build(staged: Path) -> None:
    time.sleep(0.3)
    with (staged.parent / "builds").open("a") as log:
        log.write("built\n")
    build(staged)


def test_two_processes_at_once_build_once(cache: Path) -> None:
    """Each child runs this file as a program: see its end."""
    children = [subprocess.Popen([sys.executable, __file__, str(cache / "key")]) for _ in range(2)]
    assert [child.wait(600) for child in children] == [0, 0]
    assert (cache / "builds").read_text() == "built\n"


def test_a_cache_path_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=rf"file: a file exists where a folder must be\. {ELSEWHERE}$"):
        cached(tmp_path / "file" / "key", load, build, quiet)


@pytest.mark.skipif(not Path("/proc").exists(), reason="a folder in which nobody can make another")
def test_a_cache_in_an_impossible_place_is_named() -> None:
    with pytest.raises(UserError, match=rf"^/proc/x: cannot be written: there is no such .*\. {ELSEWHERE}$"):
        cached(Path("/proc/x/key"), load, build, quiet)


def test_a_mistake_in_what_is_built_has_its_own_way_out(cache: Path) -> None:
    def refuse_corpus(staged: Path) -> None:
        raise UserError("train.en: empty.")

    with pytest.raises(UserError, match=r"^train.en: empty\.$"):
        cached(cache / "key", load, refuse_corpus, quiet)


def test_waiting_for_another_process_is_said(cache: Path) -> None:
    cache.mkdir()
    lock = FileLock(cache / "key.lock", thread_local=False)
    lock.acquire()
    said: list[str] = []

    def tell(message: str) -> None:
        said.append(message)
        lock.release()

    assert cached(cache / "key", load, build, tell) == "built"
    assert said == ["waiting for another process that prepares the same data"]


def test_a_cache_that_cannot_be_written_is_one_line(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_folder(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse_folder)
    with pytest.raises(MachineError, match=rf"key: no permission: choose another folder .*\. {ELSEWHERE}$"):
        cached(cache / "key", load, build, quiet)


def test_an_entry_that_cannot_be_read_is_one_line(cache: Path) -> None:
    def fail(folder: Path) -> str | None:
        raise MachineError(f"{folder}: no permission.")

    with pytest.raises(MachineError, match=rf"key: no permission\. {ELSEWHERE}$"):
        cached(cache / "key", fail, build, quiet)


def test_the_folder_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder().name == "cache"
    monkeypatch.setenv("HEEDFUL_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/heedful")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "heedful"


def test_a_key_depends_on_values_not_on_their_order() -> None:
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})


if __name__ == "__main__":
    assert cached(Path(sys.argv[1]), load, slow_build, quiet) == "built"
