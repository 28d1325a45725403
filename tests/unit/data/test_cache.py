import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from heedful.base.errors import MachineError, UserError
from heedful.data import cache_trust
from heedful.data.cache import cache_entries, cache_folder, cached, create_folder, key_of

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


@pytest.mark.parametrize("hashes", ["{", "[]", "{}", '{"text": 1}', '{"text": "00", "more": "11"}', '{"more": "11"}'])
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

    cached(cache / "key", load, build, quiet)
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


# --- whose entries are used ---------------------------------------------------------------------------------------


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> dict[Path, int]:
    """This user has the number 7; files belong to this user, too, unless the test says otherwise."""
    known: dict[Path, int] = {}
    monkeypatch.setattr(cache_trust, "this_user", lambda: 7)
    monkeypatch.setattr(cache_trust, "_owner", lambda path: known.get(path, 7))
    return known


def rebuilt(folder: Path) -> list[str]:
    """What is said while an entry is asked for again; nothing if it is used."""
    said: list[str] = []
    assert cached(folder, load, build, said.append) == "built"
    return said


@pytest.mark.parametrize("what", ["", "text", "sha256.json"])
def test_an_entry_of_another_user_is_not_used_whatever_its_hashes_say(
    cache: Path, owners: dict[Path, int], what: str
) -> None:
    entry = cache / "tokens/key"
    cached(entry, load, build, quiet)
    owners[entry / what] = 8
    cache.chmod(0o770)
    assert rebuilt(entry) == [f"{entry} belongs to another user (8): preparing it again"]
    owners[entry / what] = 0  # root can do anything anyway
    assert rebuilt(entry) == []


def test_naming_a_folder_that_only_its_owner_can_write_to_trusts_its_owner(
    cache: Path, owners: dict[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = cache / "tokens/key"
    cached(entry, load, build, quiet)
    for path in (cache, cache / "tokens", entry, entry / "text", entry / "sha256.json"):
        owners[path] = 8
        path.chmod(path.stat().st_mode & 0o755)
    assert cache_folder() == cache
    assert rebuilt(entry) == []
    (cache / "tokens").chmod(0o775)
    assert rebuilt(entry) == [f"{entry} belongs to another user (8): preparing it again"]
    (cache / "tokens").chmod(0o755)
    monkeypatch.setenv("HEEDFUL_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))  # nobody named it
    assert rebuilt(entry) == [f"{entry} belongs to another user (8): preparing it again"]


def test_in_a_folder_that_several_users_write_to_each_has_a_private_one(cache: Path, owners: dict[Path, int]) -> None:
    cache.mkdir()
    cache.chmod(0o1777)
    owners[cache] = 0
    assert cache_folder() == cache / "user-7"
    cached(cache_folder() / "tokens/key", load, build, quiet)
    assert stat.S_IMODE((cache / "user-7").stat().st_mode) == 0o700
    cache.chmod(0o755)
    assert cache_folder() == cache


def test_new_folders_are_private_and_those_in_a_folder_for_all_to_read_are_not(cache: Path) -> None:
    create_folder(cache_folder() / "tokens")
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (cache, cache / "tokens")] == [0o700, 0o700]
    cache.chmod(0o755)
    create_folder(cache_folder() / "in_memory")
    assert stat.S_IMODE((cache / "in_memory").stat().st_mode) == 0o755
    create_folder(cache_folder() / "in_memory")


def test_files_of_an_entry_that_are_links_are_not_used_and_other_names_of_them_do_no_harm(
    cache: Path, tmp_path: Path
) -> None:
    entry, elsewhere = cache / "key", tmp_path / "elsewhere"
    cached(entry, load, build, quiet)
    os.link(entry / "text", elsewhere)
    assert rebuilt(entry) == []
    (entry / "text").unlink()
    (entry / "text").symlink_to(elsewhere)
    assert rebuilt(entry) == [f"{entry} is damaged: preparing it again"]
    assert not (entry / "text").is_symlink()
    assert elsewhere.read_text() == "built"


def test_a_file_that_no_hash_vouches_for_is_not_used(cache: Path) -> None:
    cached(cache / "key", load, build, quiet)
    (cache / "key/.nfs0001").touch()
    assert rebuilt(cache / "key") == []
    (cache / "key/more").touch()
    assert rebuilt(cache / "key") == [f"{cache / 'key'} is damaged: preparing it again"]


def test_entries_on_a_disk_that_can_only_be_read_are_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached(cache / "key", load, build, quiet)

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    for function in ("mkdir", "utime", "rename", "replace", "unlink"):
        monkeypatch.setattr(os, function, read_only)
    assert cached(cache / "key", load, refuse, quiet) == "built"
    with pytest.raises(
        MachineError, match=rf"other: the file system is read-only: choose another folder\. {ELSEWHERE}$"
    ):
        cached(cache / "new/other", load, build, quiet)


if __name__ == "__main__":
    assert cached(Path(sys.argv[1]), load, slow_build, quiet) == "built"


def test_an_entry_with_a_pipe_is_damaged_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))
    folder, said = tmp_path / "tokens" / "entry", list[str]()

    def build(staged: Path) -> None:
        (staged / "meta.json").write_text("{}")

    def load(found: Path) -> str | None:
        return str(found) if (found / "meta.json").exists() else None

    cached(folder, load, build, said.append)
    (folder / "meta.json").unlink()
    os.mkfifo(folder / "meta.json")
    assert [entry.what for entry in cache_entries()] == ["damaged: it will be made again"]
    cached(folder, load, build, said.append)
    assert said == [f"{folder} is damaged: preparing it again"]
    assert (folder / "meta.json").is_file()
