"""Runs and their caches after a loss of power: every state that the disk may be in is read, and some are trained on."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final
from unittest.mock import patch

from benchmarks.faults.bad_savers import Saver
from benchmarks.faults.children import Send, run_in_child
from benchmarks.faults.disk import Disk
from benchmarks.faults.power_loss import Log, Mark, State, states
from benchmarks.faults.trained import (
    LOGS,
    RUN,
    WEIGHTS,
    Files,
    Reached,
    Tally,
    compare,
    digest_of,
    ends_before_training,
    enter,
    key_of,
    outcome,
    train_here,
    without_times,
)

from heedful.config.recipe import Recipe
from heedful.runs.run import RunObserver
from heedful.tasks.loading import load
from heedful.training.checkpoints import Position, step_of

SAVED: Final = "saved"


@dataclass
class Recording:
    """A run whose file operations were recorded."""

    log: Log
    digests: dict[str, str] = field(default_factory=dict)  # of all that a run loads, by run and step
    files: Files = field(default_factory=dict)  # at the end
    cache: Files = field(default_factory=dict)
    weights: list[tuple[int, bytes]] = field(default_factory=list)  # of the run's model, by operation


@contextmanager
def noting(recording: Recording) -> Iterator[None]:
    """Note what a run holds when it begins and whenever it saves."""
    to_the_end, checkpoint = RunObserver.to_the_end, RunObserver.checkpoint

    def begin(observer: RunObserver, position: Position) -> None:
        recording.digests[key_of(observer, position)] = digest_of(observer.job, position)
        to_the_end(observer, position)

    def save(observer: RunObserver, position: Position) -> None:
        checkpoint(observer, position)
        recording.log.mark(SAVED, position.step)
        recording.digests[key_of(observer, position)] = digest_of(observer.job, position)

    with patch.object(RunObserver, "to_the_end", begin), patch.object(RunObserver, "checkpoint", save):
        yield


def record(train: Callable[[Log], None], root: Path, saver: Saver) -> Recording:
    """Train in this process, which must be one that was forked for it, and record all file operations."""
    enter(root)
    recording = Recording(Log(root))
    with Disk(root, log=recording.log).mounted() as disk, noting(recording), saver():
        train(recording.log)
    assert not disk.missed, f"not recorded: {disk.missed}"
    assert not recording.log.differences(), f"a replay differs: {recording.log.differences()}"
    recording.files, recording.cache = outcome(root), _cached(root)
    recording.weights = recording.log.versions(WEIGHTS)
    return recording


def record_run(recipe: Recipe, root: Path, saver: Saver, again: bool) -> Recording:
    """Record a run of a recipe, or one that was killed after its first checkpoint and is resumed."""

    def killed(send: Send) -> None:
        def kill(**message: int) -> None:
            if "saved" in message:
                os.kill(os.getpid(), signal.SIGKILL)

        enter(root)
        train_here(recipe, kill)

    def train(log: Log) -> None:
        if again:
            log.mark(SAVED, step_of(next((root / "run/checkpoints").glob("step-*"))))
        train_here(recipe, lambda **message: None)

    if again:
        run_in_child(killed)
    return record(train, root, saver)


def _cached(root: Path) -> Files:
    """Return the files of all entries of the cache."""
    paths = (path for path in (root / "cache").glob("*/[!.]*/*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def choose_states(log: Log, seed: str, limit: int) -> list[State]:
    """Return the states that a loss of power may leave, each once, or so many of them, in an order of chance."""
    distinct: dict[object, State] = {}
    for state in states(log, seed):
        distinct.setdefault((*state.tree.listing().items(), state.done.get(SAVED, 0)), state)
    return Random(seed).sample(list(distinct.values()), min(limit, len(distinct)))


def lose_power(
    recipe: Recipe, name: str, saver: Saver, again: bool, limit: int, whole: int, home: Path, tally: Tally
) -> None:
    """Record a run, and check what each loss of power leaves: all states are read, and `whole` of them trained on."""
    recording = record_run(recipe, home / "recorded", saver, again)
    chosen = choose_states(recording.log, name, limit)
    trained = set(Random(name).sample(range(len(chosen)), min(whole, len(chosen))))
    for number, state in enumerate(chosen):
        root = home / "state"
        problems = _check(recipe, recording, state, root, number in trained)
        tally.add("power_states")
        tally.add("power_trained", number in trained)
        if problems:
            where = f"{name}, after operation {state.after} ({recording.log.describe(state.after)}), {state.how}"
            tally.add("power_wrong", problem=f"{where}: {'; '.join(problems)}")
        shutil.rmtree(root)
        if tally.is_enough:
            return


def _check(recipe: Recipe, recording: Recording, state: State, root: Path, to_the_end: bool) -> list[str]:
    """Return what is wrong with a state: it must resume from what was saved, or begin again if nothing was."""
    state.tree.put(root)
    enter(root)
    saved, problems = state.done.get(SAVED, 0), list[str]()
    try:
        if saved and Path(WEIGHTS).exists():
            load(RUN)
        with ends_before_training():
            train_here(recipe, lambda **message: None)
        return ["a run ended before it began"]
    except Reached as reached:
        problems += _check_loaded(recording, reached, saved)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    if to_the_end and not problems:
        train_here(recipe, lambda **message: None)
        files, logs = compare(outcome(root), recording.files)
        problems += [f"at the end {name} is not that of an undisturbed run" for name in (*files, *logs)]
    return problems


def _check_loaded(recording: Recording, reached: Reached, saved: int) -> list[str]:
    """Compare what was loaded, and what else a run finds in its folder, with what was there at that step."""
    step, problems = reached.step, list[str]()
    if step < saved:
        problems.append(f"step {step} was loaded, but {saved} had been saved")
    if reached.digest != recording.digests.get(reached.key):
        problems.append(f"what was loaded is not what was saved at step {step}")
    for name in LOGS:
        whole = recording.files.get(name, b"").splitlines(keepends=True)
        expected = b"".join(line for line in whole if json.loads(line)["step"] <= step)
        left = without_times(name, (RUN / name).read_bytes()) if (RUN / name).exists() else b""
        if left != expected:
            problems.append(f"{name} has lost lines up to step {step}")
    if step:
        at = recording.log.operations.index(Mark(SAVED, step))
        before = [number for number, _ in recording.weights if number <= at]
        later = [data for number, data in recording.weights if number >= max(before, default=0)]
        left = Path(WEIGHTS).read_bytes() if Path(WEIGHTS).exists() else b""
        if before and left not in later:
            problems.append(f"the model is not the best one of step {step}, nor a later one")
    cache = _cached(Path.cwd())
    for name, data in recording.cache.items():
        if cache.get(name) != data and not (step and name.startswith("cache/tokenizers/")):  # not read in a resumed run
            problems.append(f"{name} is not what it was")
    return problems
