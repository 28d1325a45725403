"""Answers to questions about the built-in reports, on combinations of words that training never showed.

    python -m benchmarks.texts.spans [--parts answers,no_answer] [--seeds 1,2,3] [--jobs 6]
    python -m benchmarks.texts.spans --tiny      a tiny model on a few reports; records nothing

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
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any, Final

from benchmarks.shared.cells import Cell, known_by_part, make_parser, measure_cells, run_program, show
from benchmarks.shared.detailed_results import Detailed, save

from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import load_recipe
from heedful.runs.training_run import train
from heedful.tasks.evaluate import evaluate

NAME: Final = "spans"
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


class Run(Cell):
    """A part with a seed."""

    program = f"texts.{NAME}"
    passed = ()

    @property
    def settings(self) -> list[str]:
        """What is set otherwise than in the recipe."""
        tiny = TINY if self.options.tiny else ()
        return [*PARTS[self.part], *tiny, *self.options.set, f"train.seed={self.seed}"]

    def measure(self) -> dict[str, Any]:
        """Train, and answer the test questions."""
        train(load_recipe("reports-answers", self.settings), self.folder, resume=True)
        (evaluation,) = evaluate(self.folder).values()
        scores = evaluation.to_json()
        return {"training": describe_training(self.folder), "scores": {name: scores[name] for name in SCORES}}


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
    options: argparse.Namespace, asked: Sequence[Run], seeds: Sequence[int], failed: Mapping[str, str]
) -> dict[str, float]:
    """Collect what is ready, and record it unless the models are tiny; return the figures."""
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    for part, found in known_by_part(asked).items():
        figures |= figures_of(part, found)
        details[part] = {str(one["seed"]): {**one["scores"], **one["training"]} for one in found}
    if figures and not options.tiny:
        save(NAME, Detailed(figures, details, failed), options.results, seeds)
    return figures


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate what is not ready yet; return the exit code."""
    failed: dict[str, str] = {}
    asked = [Run(part, seed, options) for part in parts for seed in seeds]
    measure_cells(asked, options, failed, lambda: take(options, asked, seeds, failed))
    return show(take(options, asked, seeds, failed), failed)


if __name__ == "__main__":
    run_program(make_parser(__doc__, NAME, tuple(PARTS)), tuple(PARTS), Run, run)
