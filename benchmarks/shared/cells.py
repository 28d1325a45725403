"""Benchmarks of many trainings: a cell is a part of one with a seed, trained and evaluated in a process of its own.

A benchmark derives its cells from `Cell`, and ends with `run_program`. What is ready is not trained again, so that a
program that was ended goes on where it was.
"""

import argparse
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, ClassVar, Final, NoReturn

from benchmarks.shared.detailed_results import Detailed, recorded, save
from benchmarks.shared.gpu_work import choose_names

from heedful.base.errors import HeedfulError
from heedful.base.files import read_json, write_json
from heedful.base.processes import child_environment, run_module
from heedful.lab.study.side_by_side import Task, run_side_by_side
from heedful.metrics.recorded_results import RESULTS

FOUND: Final = "found.json"  # in a cell's folder: what is known of it


@dataclass(frozen=True)
class Cell(ABC):
    """A part of a benchmark with a seed."""

    part: str
    seed: int
    options: argparse.Namespace

    program: ClassVar[str]  # the benchmark's folder and name: "images.mnist"
    passed: ClassVar[tuple[str, ...]] = ("data",)  # options of a place that the cell's process needs too, if given

    @abstractmethod
    def measure(self) -> dict[str, Any]:
        """Train and evaluate; return what is known then."""

    @property
    def settings(self) -> list[str]:
        """What is set otherwise than in the recipe. What is known of a cell with other settings does not count."""
        return list(self.options.set)

    @property
    def folder(self) -> Path:
        """The folder of the cell's runs."""
        runs: Path = self.options.runs
        return runs / f"{self.part}-{self.seed}{'-tiny' if self.options.tiny else ''}"

    def found(self) -> dict[str, Any] | None:
        """Return what is known of the cell; None before it is ready."""
        path = self.folder / FOUND
        known = read_json(path) if path.exists() else None
        return known if isinstance(known, dict) and known.get("settings") == self.settings else None

    def run(self) -> None:
        """Measure, and write down what is known."""
        known = self.measure()
        write_json(self.folder / FOUND, {"settings": self.settings, **known})

    def task(self) -> Task:
        """Return what measures it in a process of its own."""
        command = run_module(f"benchmarks.{self.program}", "--cell", self.part, "--seeds", str(self.seed))
        places = {f"--{name}": getattr(self.options, name) for name in ("runs", *self.passed)}
        given = [word for flag, value in places.items() if value is not None for word in (flag, str(value))]
        sets = [word for setting in self.options.set for word in ("--set", setting)]
        tiny = ["--tiny"] if self.options.tiny else []
        return Task(f"{self.part}, seed {self.seed}", [*command, *given, *tiny, *sets], self.folder.with_suffix(".log"))


def make_parser(doc: str | None, name: str, parts: Sequence[str]) -> argparse.ArgumentParser:
    """Make a parser with the options that all benchmarks of cells have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(parts), help="by default all of them")
    parser.add_argument("--cell", choices=parts, help="train and evaluate this part here and now, with the first seed")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--set", action="append", default=[], help="of every recipe, as `heedful train` has it")
    parser.add_argument("--jobs", type=int, default=1, help="cells that train side by side")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="of one cell")
    parser.add_argument("--runs", type=Path, default=Path("runs") / name, help="the folder of the run folders")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny models and a few steps on a CPU; records nothing")
    return parser


def measure_cells(
    cells: Iterable[Cell], options: argparse.Namespace, failed: dict[str, str], summarise: Callable[[], object]
) -> None:
    """Measure the cells that are not ready, `--jobs` at a time, and sum up after each; take down what failed."""

    def ready(task: Task, failure: str | None) -> None:
        print(f"{task.name}: {failure or 'ready'}", flush=True)
        if failure is not None:
            failed[task.name] = failure
        summarise()

    tasks = [cell.task() for cell in cells if cell.found() is None]
    run_side_by_side(
        tasks, options.jobs, options.limit, ready, {**child_environment("benchmarks"), "OMP_NUM_THREADS": "1"}
    )


def known_by_part(cells: Iterable[Cell]) -> dict[str, list[dict[str, Any]]]:
    """Return what is known of the cells that are ready, part by part, in the order of seeds."""
    known: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        found = cell.found()
        if found is not None:
            known.setdefault(cell.part, []).append({"seed": cell.seed, **found})
    return known


def mean_over_seeds(figure: str, values: Sequence[float], digits: int = 4) -> dict[str, float]:
    """Return the mean of a figure over seeds, and its deviation."""
    deviation = {f"{figure}_sd": round(stdev(values), digits)} if len(values) > 1 else {}
    return {figure: round(mean(values), digits), **deviation}


def measure_and_record(
    name: str,
    cells: Sequence[Cell],
    options: argparse.Namespace,
    seeds: Sequence[int],
    figures_of: Callable[[str, Sequence[Mapping[str, Any]]], Mapping[str, float]],
) -> int:
    """Measure the cells that are not ready, and record what is known after each; return the exit code.

    `figures_of` returns the figures of a part from what is known of its seeds. Figures of other parts are kept.
    """
    failed: dict[str, str] = {}

    def summarise() -> dict[str, float]:
        before = Detailed() if options.tiny else recorded(name, options.results)
        figures, details = dict(before.figures), dict(before.details)
        for part, found in known_by_part(cells).items():
            figures |= figures_of(part, found)
            details[part] = found
        if not options.tiny:
            save(name, Detailed(figures, details, dict(failed)), options.results, seeds)
        return figures

    measure_cells(cells, options, failed, summarise)
    return show(summarise(), failed)


def run_program(
    parser: argparse.ArgumentParser,
    parts: Sequence[str],
    cell: Callable[[str, int, argparse.Namespace], Cell],
    run: Callable[[argparse.Namespace, Sequence[str], Sequence[int]], int],
    check: Callable[[argparse.Namespace, Sequence[str]], str | None] = lambda options, parts: None,
) -> NoReturn:
    """Measure the one cell that `--cell` names, or call `run` with the parts and seeds; end with its exit code.

    `check` returns what is wrong with the options for these parts.
    """
    options = parser.parse_args()
    chosen = choose_names(parser, "--parts", options.parts, parts)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    wrong = check(options, [options.cell] if options.cell else chosen)
    if wrong:
        parser.error(wrong)
    try:
        if options.cell:
            cell(options.cell, seeds[0], options).run()
            sys.exit(0)
        signal.signal(signal.SIGTERM, _stop)
        sys.exit(run(options, chosen, seeds))
    except HeedfulError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def show(figures: Mapping[str, float], failed: Mapping[str, str]) -> int:
    """Print what was found and what failed; return the exit code."""
    for key, figure in figures.items():
        print(f"{key:32}{figure:12.4f}")
    for name, why in failed.items():
        print(f"{name} failed: {why}")
    return 1 if failed else 0


def _stop(signal_number: int, _: object) -> NoReturn:
    """End by an exception, so that what was started is ended too."""
    sys.exit(128 + signal_number)
