"""Tokenizing in several processes: the same bytes as in one, and nothing left behind when something goes wrong."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from tests.shared.patience import PATIENCE

from heedful.base.errors import MachineError, UserError
from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.tokenizer import ByteBpe
from heedful.data.corpora.files import content_key
from heedful.data.corpora.pairs import Pair, read_pairs
from heedful.data.prepare import pairs as tokenizing
from heedful.data.prepare.pairs import pair_rows
from heedful.data.prepare.stores import build_store
from heedful.data.token_store import TokenStore
from heedful.data.tokenize import worker_pool as workers
from heedful.data.tokenize.encoding import Encoder, Filters
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.worker_pool import Workers
from heedful.data.tokenize.worker_protocol import Frame

TOKENIZER = train_tokenizer(ByteBpe(size=300), ["a dog sees a cat", "ein Hund sieht eine Katze"], ["de"])
MAX_LENGTH = 10
CORPUS = AlignedFiles(source="in", target="out", to="de")

WITHOUT_MAIN_GUARD = """
from heedful.config.tokenizer import ByteBpe
from heedful.data.tokenize.encoding import Encoder, Filters
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.worker_pool import Workers
tokenizer = train_tokenizer(ByteBpe(size=300), ["a dog"])
with Workers(Encoder(tokenizer, tokenizer, Filters()), 2) as workers:
    print(sum(len(made.streams["source"]) for made in workers.map([[("a", "b")]] * 5)))
    if len(__import__("sys").argv) > 1:
        print(*(process.pid for process in workers.processes), flush=True)
        input()
"""
ALL_KILLED = """
with Workers(Encoder(tokenizer, tokenizer, Filters()), 2) as workers:
    for process in workers.processes:
        process.kill()
    list(workers.map([[("a", "b")]] * 50))
"""


NO_MEMORY = """
import heedful.data.tokenize.encoding
def full(self, pairs):
    raise MemoryError
heedful.data.tokenize.encoding.Encoder.__call__ = full
"""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizing, "_CHUNK", 7)
    monkeypatch.setattr(tokenizing, "_FEW", 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A hundred pairs, some without text and some too long."""
    lines = [" ".join(["dog"] * (number % 9)) + ("\u3000" if number % 3 else "") for number in range(100)]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "out").write_text("".join(f"Hund {number}\n" for number in range(100)))
    return tmp_path


def one_by_one(folder: Path) -> tuple[list[tuple[list[int], list[int]]], dict[str, int]]:
    """The pairs that are kept and the reasons of the others, by a plain loop."""
    kept = []
    reasons: Counter[str] = Counter()
    for texts in zip(*((folder / side).read_text().split("\n")[:-1] for side in ("in", "out")), strict=True):
        source, target = (TOKENIZER.encode(text) for text in texts)
        if not texts[0].strip():
            reasons["empty"] += 1
        elif len(source) + 1 > MAX_LENGTH or len(target) > MAX_LENGTH:
            reasons["too long"] += 1
        elif len(source) > 2 * len(target) or len(target) > 2 * len(source):
            reasons["ratio"] += 1
        else:
            kept.append(([TOKENIZER.tag("de"), *source], target))
    assert len(reasons) == 3
    return kept, dict(reasons)


def tokenized(folder: Path, processes: int) -> TokenStore:
    data = Data(folder=str(folder), train=(CORPUS,), max_length=MAX_LENGTH)
    filters = Filters(max_length=MAX_LENGTH, max_ratio=2)
    rows = pair_rows(CORPUS, data, TOKENIZER, TOKENIZER, filters, processes)
    return build_store(CORPUS, rows, content_key(CORPUS, str(folder)), lambda message: None)


def entries(cache: Path) -> list[Path]:
    return [entry for entry in (cache / "tokens").iterdir() if entry.suffix != ".lock"]


def remembered(monkeypatch: pytest.MonkeyPatch) -> list[Workers]:
    """All workers that are started from now on."""
    started: list[Workers] = []

    def start(encoder: Encoder, count: int) -> Workers:
        started.append(Workers(encoder, count))
        return started[-1]

    monkeypatch.setattr(tokenizing, "Workers", start)
    return started


def reading(monkeypatch: pytest.MonkeyPatch, happens: Any, after: int = 50) -> None:
    """Something happens while the corpus is read."""

    def pairs(*arguments: Any) -> Iterator[Pair]:
        for number, pair in enumerate(read_pairs(*arguments)):
            if number == after:
                happens()
            yield pair

    monkeypatch.setattr(tokenizing, "read_pairs", pairs)


def assert_all_ended(started: list[Workers]) -> None:
    (only,) = started
    assert len(only.processes) == 2
    assert all(process.returncode is not None for process in only.processes)


@pytest.mark.parametrize("processes", [2, 3])
def test_the_bytes_do_not_depend_on_the_number_of_processes(
    processes: int, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = remembered(monkeypatch)
    serial = tokenized(folder, 1)
    assert not started
    (entry,) = entries(cache)
    expected = {file.name: file.read_bytes() for file in entry.iterdir()}
    pairs = [tuple(serial.sentence(side, i).tolist() for side in ("source", "target")) for i in range(len(serial))]
    assert (pairs, serial.dropped) == one_by_one(folder)
    for file in entry.iterdir():
        file.unlink()
    tokenized(folder, processes)
    assert len(started) == 1
    assert {file.name: file.read_bytes() for file in entry.iterdir()} == expected


def test_a_small_corpus_is_tokenized_in_this_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizing, "_FEW", 16)  # there are 15 chunks
    started = remembered(monkeypatch)
    tokenized(folder, 2)
    assert not started


def test_a_killed_process_is_said_in_one_line_and_leaves_nothing(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = remembered(monkeypatch)
    reading(monkeypatch, lambda: os.kill(started[0].processes[0].pid, signal.SIGKILL))
    message = (
        r"^A process that tokenized was killed \(SIGKILL\), most likely because memory ran out: free some memory and "
        r"run the same command again\.$"
    )
    with pytest.raises(MachineError, match=message):
        tokenized(folder, 2)
    assert_all_ended(started)
    assert entries(cache) == []


def test_dead_processes_keep_nobody_waiting() -> None:
    """In a program of its own, which can be ended where this fails."""
    program = [sys.executable, "-c", WITHOUT_MAIN_GUARD + ALL_KILLED]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "5\n"
    assert "MachineError: A process that tokenized was killed (SIGKILL)" in done.stderr


@pytest.fixture
def at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets every interpreter that is started from now on begin with a program."""

    def begin(program: str) -> None:
        (tmp_path / "start").mkdir()
        (tmp_path / "start" / "sitecustomize.py").write_text(program)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "start"))

    return begin


def test_what_is_printed_at_the_start_of_an_interpreter_disturbs_nobody(at_start: Callable[[str], None]) -> None:
    """In a program of its own, which can be ended where this fails."""
    at_start("print('hello from the site', flush=True)")
    done = subprocess.run([sys.executable, "-c", WITHOUT_MAIN_GUARD], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "hello from the site\n5\n"  # the program's own interpreter was started too
    assert done.stderr.count("hello from the site") == 2  # two processes write at once


def test_a_process_without_memory_is_said_in_one_line(
    at_start: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    at_start(NO_MEMORY)
    monkeypatch.syspath_prepend(str(tmp_path / "start"))
    made = Workers(Encoder(TOKENIZER, TOKENIZER, Filters()), 1)
    message = r"^A process that tokenized found no memory: free some memory and run the same command again\.$"
    with pytest.raises(MachineError, match=message), made:
        list(made.map([[("a", "b")]]))
    assert capfd.readouterr().err == ""


def test_a_process_knows_how_many_share_the_room_for_words() -> None:
    with Workers(Encoder(TOKENIZER, TOKENIZER, Filters()), 3) as made:
        commands: list[Any] = [process.args for process in made.processes]
        assert [command[-1] for command in commands] == ["3"] * 3
    program = (
        "from heedful.data.tokenize.encoding import KnownWords; "
        "from heedful.data.tokenize.worker_main import main; main(); print(KnownWords.sharers)"
    )
    command = [sys.executable, "-c", program, "2", "3"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "3\n"


def test_a_process_that_fails_is_a_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "encoder_frame", lambda encoder: Frame({}, [b"no tokenizer"]))
    made = Workers(Encoder(TOKENIZER, TOKENIZER, Filters()), 1)
    message = r"^a tokenizing process ended with status 1: what it wrote above says why$"
    with pytest.raises(RuntimeError, match=message), made:
        list(made.map([[("a", "b")]]))
    assert "is not a tokenizer" in capfd.readouterr().err
    assert made.processes[0].returncode is not None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("in, line 51: bad"), OSError(28, "disk full")])
def test_what_interrupts_the_work_ends_all_processes(
    error: BaseException, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise error

    started = remembered(monkeypatch)
    reading(monkeypatch, interrupt)
    with pytest.raises(MachineError if isinstance(error, OSError) else type(error)):
        tokenized(folder, 2)
    assert_all_ended(started)
    assert entries(cache) == []


def test_few_chunks_are_in_memory_at_once() -> None:
    taken = count()
    with Workers(Encoder(TOKENIZER, TOKENIZER, Filters()), 2) as made:
        results = made.map([(f"{number}", "b")] for number in taken)
        first = list(islice(results, 3))
    assert [TOKENIZER.decode(chunk.streams["source"].values.tolist()) for chunk in first] == ["0", "1", "2"]
    assert next(taken) == 3 + workers._AHEAD * 2


def test_a_program_without_a_main_guard_may_use_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_MAIN_GUARD)
    (tmp_path / "tokenizers.py").write_text("raise ImportError('a file of the user that stands in the way')")
    done = subprocess.run(
        [sys.executable, "-P", str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.stdout, done.stderr) == ("5\n", "")


def test_processes_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_MAIN_GUARD, "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "5\n"
        children = [Path("/proc") / pid for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        parent.kill()
    deadline = time.monotonic() + PATIENCE
    while any(child.exists() and "Z (zombie)" not in (child / "status").read_text() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_worker_loads_no_torch() -> None:
    program = (
        "import sys, heedful.data.tokenize.worker_main; sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)
