"""Damaged inputs: everything that Heedful reads (`kinds.py`), changed by seeds in thousands of ways.

    python benchmarks/damage/mutations.py [--inputs 10000] [--first 0] [--processes 2] [--kinds table image]
                                          [--minutes M] [--no-record]
    python benchmarks/damage/mutations.py --only bundle:17 table:4.1032

Every input must be used, or refused with one line and exit code 2 or 3. Failures are a traceback, a panic of a library,
a crash, 2 GB of memory, a hang (20 seconds), and an escape: a file that is written elsewhere, a process, a connection,
code that is loaded. Times are those of a core, memory is above that of a process that has imported everything.

Inputs run in forked children of one process (`limited_runs.py`). Half of them are guided by coverage: they damage an
earlier input again that reached a line of the readers which none before it had reached. --only runs an input again and
shows what it said.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")  # before any import
os.environ["HEEDFUL_NATIVE"] = "off"  # an int8 model would start the compiler, which counts as an escape

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import cycle, islice, takewhile
from pathlib import Path
from pkgutil import walk_packages
from random import Random
from typing import Any, Final

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `python benchmarks/damage/mutations.py`

from benchmarks.damage.kinds import KINDS, Inputs
from benchmarks.damage.limited_runs import Limits, Outcome, Runner, Work
from benchmarks.damage.watching import Lines
from benchmarks.shared.detailed_results import Detailed, save

import heedful

ROOT: Final = Path(__file__).parents[2]
BAD: Final = ("traceback", "crash", "hang", "escape")
READERS: Final = (  # parts of the names of files whose lines guide: what takes files apart
    "/base/files", "/base/trees", "/config/reading/", "/data/corpora/", "/data/images/", "/data/tokenize/", "/interop/",
    "/data/cache", "/data/token_store", "/models/bundle", "/models/weights", "/training/checkpoints", "/pages/report/",
    "/lab/study/", "/cli/answering/given_rows", "/cli/input", "/cli/nbest",
)  # fmt: skip
_LAZY: Final = ("sacrebleu", "PIL.PngImagePlugin", "PIL.JpegImagePlugin", "PIL.WebPImagePlugin", "PIL.GifImagePlugin")


def warm_up() -> None:
    """Import everything that the children need, with one thread."""
    torch.set_num_threads(1)
    known = walk_packages(heedful.__path__, "heedful.", onerror=lambda name: None)
    modules = [module.name for module in known if not module.name.endswith(("__main__", "worker_main"))]
    for module in (*modules, *_LAZY):
        try:
            import_module(module)
        except ImportError:  # of Triton, where it is not installed
            if ".kernels." not in module:
                raise


@dataclass
class Guide:
    """Which inputs come next: new ones of each kind in turn, and those that reached new lines, damaged again."""

    kinds: Sequence[str]
    first: int = 0
    fruitful: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def names(self) -> Iterator[str]:
        """Yield names of inputs without end; every second one is guided, where there is one to follow."""
        chance = Random(self.first)
        for seed, kind in enumerate(cycle(self.kinds), start=self.first):
            known = self.fruitful[kind]
            follow = known and (seed // len(self.kinds)) % 2
            yield f"{chance.choice(known)}.{seed}" if follow else f"{kind}:{seed}"

    def learn(self, name: str, outcome: Outcome) -> None:
        """Remember an input that reached new lines."""
        if outcome.lines and name.count(".") < 4:
            self.fruitful[name.partition(":")[0]].append(name)


def tell(name: str, outcome: Outcome) -> None:
    """Print an input that failed, and how to run it again."""
    print(
        f"\n--- {outcome.result}: --only {name}, exit code {outcome.code}, {outcome.seconds:.1f} s, "
        f"{outcome.peak / 2**20:,.0f} MiB\n{outcome.said.rstrip()}",
        flush=True,
    )


def temporary_root() -> str | None:
    """Return a folder in memory, if there is one: inputs are small, and many."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass
class Found:
    """What all inputs used, and how they ended."""

    ended: Counter[str] = field(default_factory=Counter)
    of_kind: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)
    largest: dict[str, tuple[int, str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, outcome: Outcome) -> None:
        """Count an input."""
        kind = name.partition(":")[0]
        self.ended[outcome.result] += 1
        self.of_kind[kind][outcome.result] += 1
        self.slowest[kind] = max(self.slowest.get(kind, (0.0, "")), (outcome.seconds, name))
        self.largest[kind] = max(self.largest.get(kind, (0, "")), (outcome.peak, name))
        if outcome.result in BAD:
            self.failed[name] = f"{outcome.result}: {(outcome.said.strip().splitlines() or [''])[-1][:300]}"

    def detailed(self, minutes: float, lines: int) -> Detailed:
        """Return what is recorded."""
        figures = {
            "inputs": sum(self.ended.values()),
            "tracebacks": self.ended["traceback"] + self.ended["crash"],
            "hangs": self.ended["hang"],
            "escapes": self.ended["escape"],
            "slowest_s": round(max(self.slowest.values())[0], 2),
            "largest_mib": round(max(self.largest.values())[0] / 2**20),
            "accepted": self.ended["ok"],
            "refused": self.ended["refused"],
            "lines_reached": lines,
            "minutes": round(minutes, 1),
        }
        kinds: dict[str, Any] = {
            kind: {
                "inputs": sum(ended.values()),
                "accepted": ended["ok"],
                "refused": ended["refused"],
                "slowest_s": round(self.slowest[kind][0], 2),
                "slowest": self.slowest[kind][1],
                "largest_mib": round(self.largest[kind][0] / 2**20),
                "largest": self.largest[kind][1],
            }
            for kind, ended in sorted(self.of_kind.items())
        }
        return Detailed(figures, {"kinds": kinds}, self.failed)


def run_inputs(work: Iterator[Work], guide: Guide, runner: Runner, processes: int, shown: bool) -> Found:
    """Run inputs, and show those that failed, or all."""
    found = Found()
    for name, outcome in runner.run(work, processes):
        found.add(name, outcome)
        guide.learn(name, outcome)
        if outcome.result in BAD or shown:
            tell(name, outcome)
    return found


def main() -> None:
    """Run, print and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no input after so long")
    parser.add_argument("--unguided", action="store_true", help="look at no lines: faster")
    parser.add_argument("--only", metavar="NAME", nargs="+")
    parser.add_argument("--sound", action="store_true", help="run the inputs as they are, which must all succeed")
    parser.add_argument("--no-record", action="store_true")
    arguments = parser.parse_args()
    warm_up()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=temporary_root()) as scratch:
        inputs, guide = Inputs(Path(scratch) / "sound"), Guide(arguments.kinds, arguments.first)
        for kind in arguments.kinds:
            inputs.of(kind)
        end = began + 60 * arguments.minutes
        names = takewhile(lambda _: time.monotonic() < end, islice(guide.names(), arguments.inputs))
        work: Iterator[Work] = map(inputs.work, arguments.only or names)
        inputs.rehearse()
        lines = None if arguments.unguided else Lines(str(Path(heedful.__file__).parent), READERS)
        runner = Runner(Path(scratch) / "work", Limits(arguments.seconds, int(arguments.gigabytes * 2**30)), lines)
        shown = bool(arguments.only or arguments.sound)
        if arguments.sound:
            work = inputs.sound(arguments.kinds)
        found = run_inputs(work, guide, runner, arguments.processes, shown)
    detailed = found.detailed((time.monotonic() - began) / 60, len(lines.known) if lines else 0)
    print(json.dumps({**detailed.figures, **detailed.details}, indent=2))
    if not (arguments.no_record or arguments.only or arguments.sound):
        save("mutations", detailed, ROOT / "benchmarks/results")


if __name__ == "__main__":
    main()
