"""Answers to questions about the built-in reports, on combinations of words that training never showed.

    python -m benchmarks.spans [--parts answers,no_answer] [--seeds 1,2,3] [--jobs 6]
    python -m benchmarks.spans --tiny      a tiny model on a few reports; records nothing

answers     recipes/reports-answers.toml: every question has an answer
no_answer   the same with a fifth of all questions unanswerable, and a model that may find no answer

Each part with a seed trains in a process of its own, by the functions behind `heedful train` and `heedful evaluate`,
--jobs of them at a time; what is ready is not trained again. The 2,000 test questions are about reports in which every
event has a pair of name, thing and place that no training report has.

Records spans.json: `exact_match` and `f1`, means over seeds, with their deviations (`_sd`) and the lowest seed
(`_least`); of the second part `exact_match_no_answer`, `f1_no_answer` and `unanswerable_right`, the share of
unanswerable questions that are left without an answer; in `details` every seed, with its training time.
"""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final, NoReturn

from benchmarks.detailed_results import Detailed, save
from benchmarks.side_by_side import Task, run_side_by_side

from heedful.cli.reports.scores import describe_training
from heedful.config.reading.load import load_recipe
from heedful.errors import HeedfulError
from heedful.files import read_json, write_json
from heedful.metrics.recorded_results import RESULTS
from heedful.runs.training_run import train
from heedful.tasks.evaluate import evaluate

NAME: Final = "spans"
FOUND: Final = "found.json"  # in the folder of a run: what is known of it
PARTS: Final[Mapping[str, tuple[str, ...]]] = {  # what is set otherwise than in the recipe
    "answers": (),
    "no_answer": (
        "model.no_answer=true",
        *(f"data.{split}.unanswerable=0.2" for split in ("train", "valid", "test")),
    ),
}
TINY: Final = (
    "data.train.count=300", "data.valid.count=30", "data.test.count=60", "data.batch_tokens=2048",
    "model.encoder.width=32", "model.encoder.layers=1", "model.encoder.inner=64", "train.steps=20",
    "train.schedule.warmup=5", "train.validation.every=20", "train.device=cpu", "train.threads=1",
)  # fmt: skip
SCORES: Final = ("exact_match", "f1", "unanswerable_right")


@dataclass(frozen=True)
class Run:
    """A part with a seed, and its folder."""

    part: str
    seed: int
    options: argparse.Namespace

    @property
    def folder(self) -> Path:
        runs: Path = self.options.runs
        return runs / f"{self.part}-{self.seed}{'-tiny' if self.options.tiny else ''}"

    @property
    def settings(self) -> list[str]:
        """Return what is set otherwise than in the recipe."""
        tiny = TINY if self.options.tiny else ()
        return [*PARTS[self.part], *tiny, *self.options.set, f"train.seed={self.seed}"]

    def found(self) -> dict[str, Any] | None:
        """Return what is known of the run; None before it is ready."""
        path = self.folder / FOUND
        known = read_json(path) if path.exists() else None
        return known if isinstance(known, dict) and known["settings"] == self.settings else None

    def task(self) -> Task:
        """Return what trains and evaluates it in a process of its own."""
        command = [sys.executable, "-m", f"benchmarks.{NAME}", "--part", self.part, "--seeds", str(self.seed)]
        where = ["--runs", str(self.options.runs), *(["--tiny"] if self.options.tiny else [])]
        sets = [word for setting in self.options.set for word in ("--set", setting)]
        return Task(f"{self.part}, seed {self.seed}", [*command, *where, *sets], self.folder.with_suffix(".log"))

    def train_and_evaluate(self) -> None:
        """Train, answer the test questions, and write down what is known."""
        train(load_recipe("reports-answers", self.settings), self.folder, resume=True)
        (evaluation,) = evaluate(self.folder).values()
        scores = evaluation.to_json()
        known = {"settings": self.settings, "training": describe_training(self.folder)}
        write_json(self.folder / FOUND, {**known, "scores": {name: scores[name] for name in SCORES}})


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return what is recorded of a part: means, deviations and the lowest seed of each score that it has."""
    ending = "" if part == "answers" else f"_{part}"
    figures: dict[str, float] = {}
    for name in SCORES:
        values = [one["scores"][name] for one in found]
        if None in values:
            continue
        key = name if name == "unanswerable_right" else name + ending
        figures |= {key: mean(values), f"{key}_least": min(values)}
        figures |= {f"{key}_sd": stdev(values)} if len(values) > 1 else {}
    return figures


def take(
    options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int], failed: Mapping[str, str]
) -> Detailed:
    """Collect what is ready, and record it unless the models are tiny."""
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    for part in parts:
        ready = {seed: known for seed in seeds if (known := Run(part, seed, options).found()) is not None}
        if ready:
            figures |= figures_of(part, list(ready.values()))
            details[part] = {
                str(seed): {**known["scores"], **(known["training"] or {})} for seed, known in ready.items()
            }
    found = Detailed(figures, details, failed)
    if figures and not options.tiny:
        save(NAME, found, options.results, seeds)
    return found


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate what is not ready yet; return the exit code."""
    failed: dict[str, str] = {}

    def ready(task: Task, failure: str | None) -> None:
        print(f"{task.name}: {failure or 'ready'}", flush=True)
        if failure is not None:
            failed[task.name] = failure
        take(options, parts, seeds, failed)

    asked = [Run(part, seed, options) for part in parts for seed in seeds]
    run_side_by_side([one.task() for one in asked if one.found() is None], options.jobs, options.limit, ready)
    for key, figure in take(options, parts, seeds, failed).figures.items():
        print(f"{key:32}{figure:8.4f}")
    return 1 if failed else 0


def arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--part", choices=PARTS, help="train and evaluate this one here and now, with the first seed")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--set", action="append", default=[], help="of every part, as `heedful train` has it")
    parser.add_argument("--jobs", type=int, default=1, help="runs that train side by side")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="of one part with one seed")
    parser.add_argument("--runs", type=Path, default=Path("runs") / NAME, help="the folder of run folders")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on a few reports; records nothing")
    return parser, parser.parse_args()


def stop(signal_number: int, _: object) -> NoReturn:
    """End by an exception, so that what was started is ended too."""
    sys.exit(128 + signal_number)


def main() -> None:
    """Run the program."""
    parser, options = arguments()
    parts, seeds = options.parts.split(","), [int(seed) for seed in options.seeds.split(",")]
    unknown = next((part for part in parts if part not in PARTS), None)
    if unknown:
        parser.error(f"--parts: `{unknown}` is not one of {', '.join(PARTS)}")
    try:
        if options.part:
            Run(options.part, seeds[0], options).train_and_evaluate()
            return
        signal.signal(signal.SIGTERM, stop)
        sys.exit(run(options, parts, seeds))
    except HeedfulError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
