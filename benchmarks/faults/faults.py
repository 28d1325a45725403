"""Faults: runs that are killed, full and damaged disks, lost power and signals, over recipes of all tasks.

    python -m benchmarks.faults.faults [--kills 1000] [--states 6000] [--seed 1] [--processes 2] [--no-record]
    python -m benchmarks.faults.faults --quick          # a part of it, as in `make test-faults`: records nothing
    python -m benchmarks.faults.faults --tiny           # a few of each, as in `make test`
    python -m benchmarks.faults.faults --parts kills power --recipes translate tag

    kills         chains of random kills and signals; each ends with an undisturbed resumption
    operations    a kill, a full disk, an error and a short write at every file operation of a short run
    power         what the disk may hold after a loss of power, after each file operation: of runs, caches and a study
    savers        known-bad savers, each of which must be found out by these faults

At the end of each chain all weights, optimizer states and positions equal those of an undisturbed run bit by bit, and
so do the logs but for times; on the way every model can be loaded, every run resumes, and nothing is lost that was
saved. The exit code is 1 if anything is wrong.
"""

import os

# Before any import. Without kernels: the compiler is another program, and what it writes is not recorded.
os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1", HEEDFUL_NATIVE="off")

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Final

import torch
from benchmarks.faults.bad_savers import BAD_SAVERS, OURS, Saver
from benchmarks.faults.children import Send, Work, run_side_by_side, warm_up
from benchmarks.faults.disk import FAULTS, Fault, FaultKind
from benchmarks.faults.kills import fail_at_operations, kill_in_chains
from benchmarks.faults.lost_power import lose_power
from benchmarks.faults.recipes import BRIEF, NOT_FINITE, RECIPES, TEACHER, harms, make_recipe, write_files
from benchmarks.faults.studies import lose_power_in_study
from benchmarks.faults.trained import Tally, Whole, enter, train_here, undisturbed

from heedful.metrics.recorded_results import record
from heedful.tasks.table import HOMES

PARTS: Final = ("kills", "operations", "power", "savers")
WRONG: Final = ("unloadable", "lost", "unequal", "logs_unequal", "power_wrong")
_POWER: Final = ("translate", "classify", "generate-carried", "tag", "fine-tuned", "answer-images")  # runs that lose it
_AT_ONCE: Final = 40  # faults that one worker plants


@dataclass(frozen=True)
class Amount:
    """How many faults are planted."""

    kills: int
    states: int  # of all runs that lose power; a study has a tenth as many more
    trained: int  # of the states of each run
    every: int = 1  # file operation, at which each kind of fault happens


QUICK: Final = Amount(kills=120, states=700, trained=2, every=2)  # minutes
TINY: Final = Amount(kills=4, states=20, trained=1, every=110)  # seconds


class Faults:
    """All faults of a run of this program, in a folder of its own."""

    def __init__(self, home: Path, amount: Amount, seed: int, recipes: Sequence[str]) -> None:
        self._home, self._amount, self._seed, self._recipes = home, amount, seed, recipes
        write_files(home)
        (home / "whole").mkdir()
        for module in HOMES.values():
            import_module(module.partition(":")[0])
        warm_up(self._train_teacher)
        self._wholes: dict[str, Whole] = {}

    def _train_teacher(self, send: Send) -> None:
        """Train the model that others learn or start from."""
        enter(self._home / "whole" / TEACHER)
        train_here(make_recipe("translate", self._home), send)
        Path("run").rename(self._home / TEACHER)

    def _whole(self, name: str) -> Whole:
        if name not in self._wholes:
            self._wholes[name] = undisturbed(make_recipe(name, self._home), self._home / "whole" / name, _around(name))
            logged = self._wholes[name].files["metrics.jsonl"]
            assert (b'"not finite"' in logged) == (name == NOT_FINITE), name
        return self._wholes[name]

    def parts(self, names: Sequence[str]) -> Iterator[Work]:
        """Yield the work of some parts, the longest first."""
        works: Mapping[str, Callable[[], Iterator[Work]]] = {
            "power": self._power,
            "kills": self._kills,
            "operations": self._operations,
            "savers": self._savers,
        }
        for part, work in works.items():
            if part in names:
                yield from work()

    def _counted(self, name: str, work: Callable[[Path, Tally], None]) -> Work:
        """Return work in a folder of its own that tells what it found."""

        def counted(send: Send) -> None:
            home, tally = self._home / "work" / name, Tally()
            home.mkdir(parents=True)
            began = time.monotonic()
            try:
                work(home, tally)
            finally:
                os.chdir(self._home)
                shutil.rmtree(home, ignore_errors=True)
                tally.send(send)
                send(done=name, seconds=time.monotonic() - began)

        return counted

    def _kills(self) -> Iterator[Work]:
        share = -(-self._amount.kills // len(self._recipes))
        for name in self._recipes:
            recipe, whole, seed = make_recipe(name, self._home), self._whole(name), f"{name}:{self._seed}"
            yield self._counted(f"kills-{name}", partial(kill_in_chains, recipe, whole, share, seed, _around(name)))

    def _operations(self) -> Iterator[Work]:
        recipe, whole = make_recipe(BRIEF, self._home), self._whole(BRIEF)
        faults = [fault for kind in FAULTS for fault in _faults(kind, whole)]
        faults = faults[self._seed % self._amount.every :: self._amount.every]
        for first in range(0, len(faults), _AT_ONCE):
            some = faults[first : first + _AT_ONCE]
            yield self._counted(f"operations-{first}", partial(fail_at_operations, recipe, whole, some, OURS))

    def _power(self) -> Iterator[Work]:
        runs = [(name, again) for name in _POWER if name in self._recipes for again in (False, True)]
        for name, again in runs:
            limit, recipe = -(-self._amount.states // len(runs)), make_recipe(name, self._home)
            work = partial(lose_power, recipe, f"{name}:{self._seed}", OURS, again, limit, self._amount.trained)
            yield self._counted(f"power-{name}{'-again' if again else ''}", work)
        yield self._counted("power-study", partial(lose_power_in_study, self._amount.states // 10))

    def _savers(self) -> Iterator[Work]:
        self._whole(BRIEF)
        for name in BAD_SAVERS:
            yield self._counted(f"saver-{name.replace(' ', '-')}", partial(self._find_out, name))

    def _find_out(self, name: str, home: Path, tally: Tally) -> None:
        """Let faults happen to a bad saver until something goes wrong."""
        saver, kind = BAD_SAVERS[name]
        found, recipe, whole = Tally(most=1), make_recipe(BRIEF, self._home), self._whole(BRIEF)
        if kind == "power" or kind == "power again":
            lose_power(recipe, name, saver, kind == "power again", 1 << 30, 0, home, found)
        elif kind == "damage":
            kill_in_chains(recipe, whole, 60, name, saver, home, found)
        else:
            faults = _faults(kind, whole)
            fail_at_operations(recipe, whole, Random(0).sample(faults, len(faults)), saver, home, found)
        caught = any(found.counts.get(wrong) for wrong in WRONG)
        tally.add("mutants")
        tally.add("mutants_caught", caught, None if caught else f"the saver `{name}` was not found out")


def _around(name: str) -> Saver:
    """Return what is done to all runs of a recipe."""
    return harms if name == NOT_FINITE else OURS


def _faults(kind: FaultKind, whole: Whole) -> list[Fault]:
    """Return the faults of a kind at all operations of a run."""
    numbers = enumerate(whole.operations)
    return [Fault(kind, at) for at, operation in numbers if kind != "short" or operation.startswith("write")]


def main() -> int:
    """Run, print and record; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--states", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--recipes", nargs="+", choices=[*RECIPES], default=[*RECIPES])
    parser.add_argument("--quick", action="store_true", help="a part of it")
    parser.add_argument("--tiny", action="store_true", help="a few of each")
    parser.add_argument("--no-record", action="store_true")
    arguments = parser.parse_args()
    amount = Amount(arguments.kills, arguments.states, trained=12)
    if arguments.quick or arguments.tiny:
        amount = TINY if arguments.tiny else QUICK
    torch.set_num_threads(1)
    sys.modules["torch.utils.tensorboard"] = None  # type: ignore[assignment]  # its thread writes when it likes
    counts, problems, began = Counter[str](), list[str](), time.monotonic()
    with tempfile.TemporaryDirectory(dir=_memory()) as scratch:
        recipes = [arguments.recipes[0], arguments.recipes[-1]] if arguments.tiny else arguments.recipes
        faults = Faults(Path(scratch), amount, arguments.seed, recipes)
        for message in run_side_by_side(list(faults.parts(arguments.parts)), arguments.processes):
            counts.update(message.get("counts", {}))
            new = [*message.get("problems", ()), *(message[key] for key in ("trace", "problem") if key in message)]
            problems += new
            for line in (*new, *([f"{message['done']}: {message['seconds']:.0f} s"] if "done" in message else ())):
                print(line, flush=True)
    figures = {
        **{name: counts[name] for name in ("kills", "recipes", *WRONG, "mutants", "mutants_caught")},
        **{name: counts[name] for name in ("power_states", "power_trained", "signals", "damages")},
        **{f"{kind}_faults": counts[f"{kind}_faults"] for kind in FAULTS},
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    print(json.dumps(figures, indent=2))
    parts = {*arguments.parts}
    if len(arguments.recipes) == len(RECIPES) and not (arguments.quick or arguments.tiny or arguments.no_record):
        of_parts = {name: figure for name, figure in figures.items() if ("power" in parts) or "power" not in name}
        command = f"python -m benchmarks.faults.faults {' '.join(sys.argv[1:])}".rstrip()
        record("faults", of_parts, command=command, merge=len(parts) < len(PARTS))
    return 1 if problems else 0


def _memory() -> str | None:
    """Return a folder in memory, if there is one: files are small, and many."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
