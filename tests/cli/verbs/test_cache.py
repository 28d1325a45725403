"""`heedful cache` as a user sees it."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from heedful.cli.main import run
from heedful.cli.verbs.cache import show_size
from heedful.data.cache import cached, in_use
from heedful.data.token_store import StreamType, TokenStore, open_store, write_store

Capture = pytest.CaptureFixture[str]
KEY = "a" * 64
OTHER = "b" * 64


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def tokens(cache: Path, key: str = KEY) -> TokenStore:
    """Build or open a store of two pairs in the cache."""
    rows = TokenStore.of(source=[[1, 2, 3], [4]], target=[[5], [6, 7]])

    def build(staged: Path) -> None:
        kind = StreamType(np.dtype(np.uint16))
        write_store(staged, key, {"source": kind, "target": kind}, [rows.streams], Counter())

    return cached(cache / "tokens" / key, lambda folder: open_store(folder, key), build, lambda message: None)


def tokenizer(cache: Path) -> Path:
    folder = cache / "tokenizers" / OTHER
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}}}))
    month_ago = time.time() - 30.5 * 24 * 3600
    os.utime(folder, (month_ago, month_ago))
    return folder


def test_entries_are_listed_with_kind_content_size_and_age(cache: Path, capsys: Capture) -> None:
    tokens(cache)
    tokenizer(cache)
    assert run(["cache", "list"]) == 0
    head, old, new, total = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "kind", "content", "size", "unused"]
    assert old.startswith("bbbbbbbbbbbb  tokenizers  tokenizer: BPE, 2 pieces")
    assert old.endswith("30 days")
    assert new.startswith("aaaaaaaaaaaa  tokens      corpus of 2 rows; tokens: 4 source, 3 target")
    assert new.endswith("today")
    assert total.startswith("2 entries, ")
    assert total.endswith(f" in {cache}")
    assert run(["cache", "list", "--json", "--older", "7"]) == 0
    (entry,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (entry["kind"], entry["what"]) == ("tokenizers", "tokenizer: BPE, 2 pieces")


def test_an_empty_cache_has_nothing_to_list_or_remove(cache: Path, capsys: Capture) -> None:
    assert run(["cache", "list"]) == 0
    assert capsys.readouterr().out == f"0 entries, 0 B in {cache}\n"
    assert run(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"Nothing to remove in {cache}.\n"
    assert run(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(cache), "removed": 0, "bytes": 0, "kept": 0}


def test_clear_removes_entries_and_what_killed_processes_left(cache: Path, capsys: Capture) -> None:
    tokens(cache)
    (cache / "tokens" / f".{KEY}.{'0' * 32}").mkdir()
    (cache / "tokens" / f".{OTHER}.{'0' * 32}").mkdir()
    folder = tokenizer(cache)
    assert run(["cache", "clear", "--yes", "--older", "7"]) == 0
    assert capsys.readouterr().out.startswith("Removed 1 entry, ")
    assert not folder.exists()
    assert (cache / "tokens" / KEY).exists()
    assert run(["cache", "clear", "-y"]) == 0
    assert capsys.readouterr().out.startswith("Removed 1 entry, ")
    assert [path.name for path in (cache / "tokens").iterdir()] == []


def test_an_entry_in_use_or_being_built_is_kept(cache: Path, capsys: Capture) -> None:
    store = tokens(cache)
    folder = tokenizer(cache)
    with FileLock(f"{folder}.lock"):  # as its builder does
        assert run(["cache", "clear", "--yes"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Removed 0 entries, 0 B ")
    assert shown.err == "heedful: kept 2 entries that another process is using.\n"
    assert in_use(cache / "tokens" / KEY)
    assert store.sentence("source", 0).tolist() == [1, 2, 3]
    del store
    assert not in_use(cache / "tokens" / KEY)


def test_clear_asks_or_needs_yes(cache: Path, capsys: Capture) -> None:
    folder = tokenizer(cache)
    assert run(["cache", "clear"]) == 2
    assert capsys.readouterr().err == (
        "heedful: error: Nobody is there to ask whether to clear the cache: add --yes.\n"
    )
    assert folder.exists()


@pytest.mark.parametrize(("size", "words"), [(940, "940 B"), (1536, "1.5 KiB"), (12 * 2**20, "12.0 MiB")])
def test_sizes_are_said_the_way_people_do(size: int, words: str) -> None:
    assert show_size(size) == words
