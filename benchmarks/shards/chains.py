"""Batch jobs whose workers are killed again and again: tiny models, parts of a few inputs, forked workers.

A chain is one job. In each of its links some workers do their shares at the same time, with different shares or by
mistake with the same one; some are killed, at a file operation or at any moment. At the end one worker does the rest,
and the parts must be those of an undisturbed run.
"""

import hashlib
import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

from benchmarks.faults.children import Child, Ended, Send, run_in_child, warm_up
from benchmarks.faults.disk import Disk, Fault
from benchmarks.faults.recipes import make_recipe, write_files
from benchmarks.faults.trained import Tally, enter, train_here

from heedful.cli.answering import parts
from heedful.cli.answering.parts_folder import PartsFolder
from heedful.cli.main import run

SIZE: Final = 5  # inputs of a part
_INPUTS: Final = 58
_LINKS: Final = 12  # of a chain, at most
_DAMAGED: Final = 0.15  # share of links after which a part or its record is damaged
_WORDS: Final = ("a", "dog", "man", "runs", "reads", "small", "the", "walks", "house")

# Name: the verb and the model's recipe, its options, and whether its inputs are a table.
JOBS: Final[Mapping[str, tuple[str, Sequence[str], bool]]] = {
    "translate, lines": ("translate", ("--max-extra", "2"), False),
    "translate, json": ("translate", ("--json", "--beam", "2", "--max-extra", "2"), False),
    "classify, table": ("classify", ("--all",), True),
    "tag, json": ("tag", ("--json",), False),
    "generate, n-best": ("generate", ("--n-best", "2", "--max-tokens", "6", "--seed", "1"), False),
}


@dataclass(frozen=True)
class Undisturbed:
    """A job, and what it is without a fault."""

    name: str
    words: Sequence[str]
    parts: Sequence[bytes]
    seconds: float
    operations: int

    @property
    def whole(self) -> bytes:
        """The output of the command without --shard."""
        return b"".join(self.parts)


def prepare(home: Path, names: Sequence[str]) -> list[Undisturbed]:
    """Train the models of some jobs, and do each job once without a fault."""
    parts.SIZE = SIZE
    home.mkdir()
    write_files(home)
    chance = Random(0)
    texts = [" ".join(chance.choices(_WORDS, k=chance.randint(1, 4))) for _ in range(_INPUTS)]
    (home / "inputs.txt").write_text("".join(f"{text}\n" for text in texts))
    (home / "inputs.csv").write_text("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    (home / "runs").mkdir()
    for task in dict.fromkeys(JOBS[name][0] for name in names):
        _expect(run_in_child(partial(_train, task, home)))
    return [_undisturbed(name, home) for name in names]


def _train(task: str, home: Path, send: Send) -> None:
    enter(home / "runs" / task)
    train_here(make_recipe(task, home), send)


def _undisturbed(name: str, home: Path) -> Undisturbed:
    verb, options, table = JOBS[name]
    model, source = str(home / "runs" / verb / "run"), ["--data", "inputs.csv", "--set", "data.text=text"]
    words = ["-q", verb, model, "--device", "cpu", *options, *(source if table else ["inputs.txt"])]
    folder, whole = home / "whole", home / "whole.out"

    def write(send: Send) -> None:
        _work(home, [*words, "--output", str(whole)])
        began = time.monotonic()
        with Disk(folder).mounted() as disk:
            _work(home, [*words, "--output", str(folder), "--shard", "1/1"])
        send(seconds=time.monotonic() - began, operations=len(disk.operations))

    warm_up(write)
    shutil.rmtree(folder)
    ended = run_in_child(write)
    _expect(ended)
    found = [path.read_bytes() for path in sorted(folder.glob("part-*"))]
    assert b"".join(found) == whole.read_bytes(), name
    assert len(found) == -(-_INPUTS // SIZE), name
    shutil.rmtree(folder)
    return Undisturbed(name, words, found, ended.last("seconds"), ended.last("operations"))


def _work(home: Path, words: Sequence[str]) -> None:
    os.chdir(home)
    with redirect_stderr(StringIO()) as said:
        code = run(words)
    assert code == 0, f"exit code {code}: {said.getvalue()}"


def _expect(ended: Ended) -> None:
    assert ended.code == 0, ended.last("trace")


class Chain:
    """A job whose workers are killed."""

    def __init__(self, job: Undisturbed, home: Path, folder: Path, tally: Tally, careless: bool) -> None:
        self.job, self.home, self.path, self.tally = job, home, folder, tally
        self.around = trusting if careless else nullcontext
        self.folder = PartsFolder(folder)

    def link(self, chance: Random) -> None:
        """Let some workers work at the same time, and kill most of them."""
        workers = chance.choice((1, 1, 2, 3))
        same = chance.random() < 0.25
        faults = [
            Fault("kill", chance.randrange(self.job.operations)) if chance.random() < 0.5 else None
            for _ in range(workers)
        ]
        moments = [chance.random() * 1.2 * self.job.seconds for _ in range(workers)]
        before = self._whole()
        children = [
            self._start("1/1" if same else f"{number}/{workers}", fault) for number, fault in enumerate(faults, start=1)
        ]
        began = time.monotonic()
        for moment, child in sorted(zip(moments, children, strict=True), key=lambda pair: pair[0]):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            os.kill(child.process, signal.SIGKILL)  # which does nothing to one that has ended
        self._look(children, before)

    def finish(self) -> None:
        """Let one worker do the rest, and compare."""
        before = self._whole()
        self._look([self._start("1/1", None)], before)
        expected = self.job.whole
        found = b"".join(path.read_bytes() for path in sorted(self.path.glob("part-*")))
        lines, wanted = Counter(found.splitlines()), Counter(expected.splitlines())
        self.tally.add("missing", (wanted - lines).total())
        self.tally.add("doubled", (lines - wanted).total())
        where = f"{self.job.name}, {self.path.name}"
        if found != expected:
            self.tally.add("unequal", problem=f"{where}: other bytes than an undisturbed run")
        self.tally.add("chains")
        shutil.rmtree(self.path)

    def damage(self, chance: Random) -> None:
        """Damage a part or a record."""
        files = sorted([*self.path.glob("part-*"), *self.path.glob("records/*.json")])
        if not files:
            return
        path, data = (file := chance.choice(files)), bytearray(file.read_bytes())
        match chance.choice(("byte", "end", "file")):
            case "byte" if data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                path.write_bytes(data)
            case "end":
                path.write_bytes(data[: chance.randrange(len(data) + 1)])
            case _:
                path.unlink()
        self.tally.add("damages")

    def _start(self, shard: str, fault: Fault | None) -> Child:
        def work(send: Send) -> None:
            with self.around(), Disk(self.path, fault).mounted():
                _work(self.home, [*self.job.words, "--output", str(self.path), "--shard", shard])

        return Child(work)

    def _look(self, children: Sequence[Child], before: Mapping[int, int]) -> None:
        """Wait for workers, and look at what they have left."""
        for child in children:
            ended = child.end()
            self.tally.add("kills", ended.code == -signal.SIGKILL)
            if ended.code not in (0, -signal.SIGKILL):
                self.tally.add("failed", problem=f"{self.job.name}: {ended.last('trace') or ended.code}")
        after = self._whole()
        again = [part for part, inode in before.items() if after.get(part) != inode]
        self.tally.add("redone", len(again), f"{self.job.name}: {again} were whole" if again else None)

    def _whole(self) -> dict[int, int]:
        """Return the parts that are whole, each with the number of its file; their bytes must be the expected ones."""
        if not (self.path / "manifest.json").exists():
            return {}
        found = {}
        for part, expected in enumerate(self.job.parts):
            if self.folder.failed(part) is not None:
                path = self.folder.part(part)
                found[part] = path.stat().st_ino
                if hashlib.sha256(path.read_bytes()).digest() != hashlib.sha256(expected).digest():
                    self.tally.add("unequal", problem=f"{self.job.name}: part {part} is taken for whole, and is not")
        return found


@contextmanager
def trusting() -> Iterator[None]:
    """Let workers believe records, whatever the parts hold: this must be found out."""

    def failed(self: PartsFolder, number: int) -> list[str] | None:
        record = self._record(number)
        return [str(line) for line in json.loads(record.read_bytes())["failed"]] if record.exists() else None

    with patch.object(PartsFolder, "failed", failed):
        yield


def kill_workers(
    jobs: Sequence[Undisturbed], kills: int, seed: str, home: Path, tally: Tally, careless: bool = False
) -> None:
    """Kill so many workers, in chains of jobs."""
    chance, number = Random(seed), 0
    while tally.counts.get("kills", 0) < kills and not tally.is_enough:
        chain = Chain(chance.choice(jobs), home, home / f"job-{seed}-{number}", tally, careless)
        number += 1
        for _ in range(chance.randint(1, _LINKS)):
            chain.link(chance)
            if chance.random() < _DAMAGED:
                chain.damage(chance)
        chain.finish()
