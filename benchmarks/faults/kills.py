"""Runs that are killed, again and again, at file operations and at any moment; and faults at every file operation."""

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.faults.bad_savers import Saver
from benchmarks.faults.children import Ended, Send, run_in_child
from benchmarks.faults.disk import Disk, Fault
from benchmarks.faults.trained import Tally, Whole, check_loading, compare, enter, outcome, train_here

from heedful.base.errors import HeedfulError, Stopped
from heedful.config.recipe import Recipe

_LINKS: Final = 12  # kills in a row at most
_DAMAGED: Final = 0.2  # share of kills after which a checkpoint is damaged
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Chain:
    """One run that is ended and resumed many times; what was saved must never be lost."""

    def __init__(self, recipe: Recipe, whole: Whole, root: Path, tally: Tally, name: str, saver: Saver) -> None:
        self.recipe, self.whole, self.root, self.tally, self.name = recipe, whole, root, tally, name
        self.saver = saver
        self.saved = 0  # the last step that was
        self.broken = self.damaged = False

    def link(self, fault: Fault | None = None, signals: list[tuple[float, signal.Signals]] | None = None) -> Ended:
        """Start or resume the run with a fault, and look at what it tells."""

        def work(send: Send) -> None:
            try:
                enter(self.root)
                check_loading(send)
                with Disk(self.root, fault).mounted(), self.saver():
                    train_here(self.recipe, send)
                send(ended=True)
            except (Stopped, KeyboardInterrupt):  # which may come at any moment
                send(stopped=True)
            except HeedfulError as error:
                if fault is None or fault.kind == "short":
                    raise
                send(refused=str(error))

        ended, where = run_in_child(work, signals or ()), f"{self.name}, {fault or signals}"
        for key in ("unloadable", "failed"):
            if ended.last(key) is not None:
                self.broken = True
                self.tally.add("unloadable", problem=f"{where}: {ended.last(key)}\n{ended.last('trace') or ''}")
        began = ended.last("at")
        if began is not None and began < self.saved:
            self.tally.add("lost", problem=f"{where}: resumed from step {began}, but {self.saved} was saved")
        self.saved = max([self.saved, *(message["saved"] for message in ended.messages if "saved" in message)])
        self.tally.add("kills", ended.code == -signal.SIGKILL)
        self.tally.add("signals", ended.last("stopped") is not None or ended.code in [-number for number in _STOPPING])
        return ended

    def damage(self, chance: Random) -> None:
        """Damage a file of the newest checkpoint, once in a chain: the one before it must do."""
        checkpoints = sorted((self.root / "run/checkpoints").glob("step-*/manifest.json"))
        if self.damaged or len(checkpoints) < 2:
            return
        file = chance.choice(sorted(checkpoints[-1].parent.iterdir()))
        data = bytearray(file.read_bytes())
        match chance.choice(("byte", "end", "all", "file")):
            case "byte":
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                file.write_bytes(data)
            case "end":
                file.write_bytes(data[: chance.randrange(len(data))])
            case "all":
                file.write_bytes(bytes(len(data)))
            case _:
                file.unlink()
        self.damaged, self.saved = True, 0
        self.tally.add("damages")

    def finish(self, logs: bool = True) -> None:
        """Resume to the end, and compare with an undisturbed run."""
        if not self.broken:
            self.link()
        if not self.broken:
            files, lines = compare(outcome(self.root), self.whole.files)
            if files:
                self.tally.add("unequal", problem=f"{self.name}: {', '.join(files)}")
            if lines and logs:
                self.tally.add("logs_unequal", problem=f"{self.name}: {', '.join(lines)}")
        shutil.rmtree(self.root, ignore_errors=True)


def kill_in_chains(recipe: Recipe, whole: Whole, kills: int, seed: str, saver: Saver, home: Path, tally: Tally) -> None:
    """Kill runs of a recipe so many times, at file operations and at any moment; signals and damage come in between."""
    chance, number = Random(seed), 0
    tally.add("recipes")
    while tally.counts.get("kills", 0) < kills and not tally.is_enough:
        chain = Chain(recipe, whole, home / f"chain-{number}", tally, f"{seed}:{number}", saver)
        number += 1
        for _ in range(_LINKS):
            moment = chance.random() * whole.seconds
            fault, signals = None, list[tuple[float, signal.Signals]]()
            match chance.choice(("operation", "operation", "operation", "moment", "signal")):
                case "operation":
                    fault = Fault("kill", chance.randrange(len(whole.operations)))
                case "moment":
                    signals = [(moment, signal.SIGKILL)]
                case _:
                    signals = [(moment, chance.choice(_STOPPING))]
            ended = chain.link(fault, signals)
            if chain.broken or (ended.code == 0 and not ended.last("stopped")):
                break
            if chance.random() < _DAMAGED:
                chain.damage(chance)
        chain.finish()


def fail_at_operations(
    recipe: Recipe, whole: Whole, faults: Sequence[Fault], saver: Saver, home: Path, tally: Tally
) -> None:
    """Let one fault happen in each of many runs, and resume: at the end nothing is missing.

    On a full or damaged disk metrics may be lost: training matters more.
    """
    for fault in faults:
        root, operation = home / f"{fault.kind}-{fault.at}", whole.operations[fault.at]
        chain = Chain(recipe, whole, root, tally, f"{operation}, {fault.kind}", saver)
        chain.link(fault)
        tally.add(f"{fault.kind}_faults")
        chain.finish(logs=fault.kind in ("kill", "short"))
        if tally.is_enough:
            return
