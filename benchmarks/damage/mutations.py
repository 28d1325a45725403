"""Damaged inputs: recipes, models, checkpoints, folders to import and corpora, changed by seeds in thousands of ways.

    python benchmarks/damage/mutations.py [--inputs 2000] [--first 0] [--seconds 20] [--gigabytes 2] [--processes 2]
                                   [--minutes M] [--no-record]
    python benchmarks/damage/mutations.py --only bundle:17 corpus:4

Every input must be used, or refused with one line and exit code 2 or 3, within 20 seconds and 2 GB of memory: a
traceback, a panic of a library, a crash or a full memory counts as a traceback. Inputs run in forked children of one
process (`limited_runs.py`); an input is its kind and its seed, with which --only runs it again and shows what it said.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")  # before any import

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from itertools import count, islice, takewhile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `python benchmarks/damage/mutations.py`

from benchmarks.damage.limited_runs import Limits, Outcome, Work, run_all
from benchmarks.damage.mutation_inputs import Inputs

from heedful.cli.main import VERBS
from heedful.metrics.recorded_results import record

BAD = ("traceback", "crash", "hang")
_LAZY = ("heedful.runs.training_run", "heedful.doctor.examination", "heedful.tasks.loading",
         "heedful.interop.importing", "heedful.cli.verbs.doctor", "heedful.lab.test_sets",
         "heedful.runs.averaging", "sacrebleu")  # fmt: skip


def warm_up() -> None:
    """Import everything that the children need, with one thread."""
    torch.set_num_threads(1)
    for module in (*(module for module, _ in VERBS.values()), *_LAZY):
        import_module(module)


def draw(inputs: Inputs, number: int, first: int) -> Iterable[Work]:
    """Yield `number` inputs, of each kind in turn, with the seeds from `first` on."""
    return islice((inputs.work(kind, seed) for seed in count(first) for kind in inputs.kinds), number)


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


def main() -> None:
    """Run, print and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no input after so long")
    parser.add_argument("--only", metavar="KIND:SEED", nargs="+")
    parser.add_argument("--sound", action="store_true", help="run the inputs as they are, which must all succeed")
    parser.add_argument("--no-record", action="store_true")
    arguments = parser.parse_args()
    warm_up()
    limits = Limits(arguments.seconds, int(arguments.gigabytes * 2**30))
    ended: Counter[str] = Counter()
    slowest, largest, began = 0.0, 0, time.monotonic()
    with tempfile.TemporaryDirectory(dir=temporary_root()) as scratch:
        inputs = Inputs(Path(scratch) / "sound")
        work = draw(inputs, arguments.inputs, arguments.first)
        work = takewhile(lambda _: time.monotonic() - began < 60 * arguments.minutes, work)
        if arguments.only:
            work = [inputs.work(kind, int(seed)) for kind, seed in (name.split(":") for name in arguments.only)]
        if arguments.sound:
            work = inputs.sound()
        for name, outcome in run_all(work, Path(scratch) / "work", limits, arguments.processes):
            kind = name.partition(":")[0]
            ended.update([outcome.result, f"{kind} {outcome.result}"])
            slowest, largest = max(slowest, outcome.seconds), max(largest, outcome.peak)
            wrong = arguments.sound and outcome.result != "ok"
            if outcome.result in BAD or arguments.only or wrong:
                tell(name, outcome)
    figures = {
        "inputs": sum(ended[result] for result in ("ok", "refused", *BAD)),
        "tracebacks": ended["traceback"] + ended["crash"],
        "hangs": ended["hang"],
        "accepted": ended["ok"],
        "refused": ended["refused"],
        **{name.replace(" ", "_"): number for name, number in sorted(ended.items()) if " " in name},
        "slowest_seconds": round(slowest, 2),
        "largest_mib": round(largest / 2**20),
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    print(json.dumps(figures, indent=2))
    if not (arguments.no_record or arguments.only or arguments.sound):
        record("mutations", figures, command=f"python {' '.join(sys.argv)}")


if __name__ == "__main__":
    main()
