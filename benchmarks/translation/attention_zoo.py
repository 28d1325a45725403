"""All alignments in a recurrent translator and in a Transformer: quality, speed and size on one corpus.

    python -m benchmarks.translation.attention_zoo --data FOLDER [--jobs 8] [--seeds 1,2,3] [--cells A,B] [--merge]
    python -m benchmarks.translation.attention_zoo --tiny

A cell of the table is a family and an alignment, `recurrent-additive` or `transformer-scaled_dot`:

recurrent      a bidirectional GRU of 128 per direction, and a GRU decoder of 256 wired as Bahdanau et al. 2015 have it:
               states are as wide as the memory, so that every alignment can compare them
transformer    width 256, 4 heads, 3 + 3 layers, inner 1024, sinusoidal positions, pre-norm; the alignment is that of
               all heads, in self-attention as well

The data, the vocabulary, the tokens per batch, the averaging of checkpoints and the search are those of the recipe
`multi30k-en-de-lc`, English to German captions; FOLDER holds the files that it names. Everything else is set by
options, the same for all cells of a family: nothing is tuned for an alignment. Each cell is trained, and evaluated on
the recipe's first test set (2016), by the functions that `heedful train` and `heedful evaluate` call, in a process of
its own with one thread.

bleu           the mean over seeds, with the 95% interval of the bootstrap over sentences (and over seeds, where there
               are several); and the difference to the family's own alignment, `additive` or `scaled_dot`
tokens_s       target tokens per second of training, the median over readings: beside --jobs - 1 others, so compare
               within one run only. The Transformer's `scaled_dot` has fused kernels, the others the equation as written

A cell that failed or ran out of time is named, and the others continue. Asked for again, a cell that was ready is not
trained again, and one that was not continues from its last checkpoint.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, NoReturn

import numpy as np
import torch
from benchmarks.shared.detailed_results import Detailed, recorded, save
from benchmarks.translation.attention_cells import CELLS, FULL, OWN, Budget

from heedful.base.errors import HeedfulError
from heedful.base.files import read_json, remove_folder, write_json
from heedful.base.processes import child_environment, run_module
from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import recipe_to_json
from heedful.data.corpora.files import check_files
from heedful.data.corpora.pairs import read_pairs
from heedful.lab.study.side_by_side import Task, run_side_by_side
from heedful.metrics.recorded_results import RESULTS
from heedful.metrics.significance import bootstrap, difference, run_scores
from heedful.metrics.summed_metrics import Floats, SummedMetric, build_metric
from heedful.runs.run import CHECKPOINTS
from heedful.runs.training_run import train
from heedful.tasks.translate.model import Translator

NAME = "attention_zoo"
FOUND = "zoo.json"  # in the folder of a run: what is known about it


# --- training ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A cell with a seed, and its folder."""

    cell: str
    seed: int
    folder: Path

    @classmethod
    def of(cls, cell: str, seed: int, runs: Path) -> "Run":
        return cls(cell, seed, runs / f"{cell}-{seed}")

    @property
    def name(self) -> str:
        return f"{self.cell}, seed {self.seed}"

    def found(self, budget: Budget) -> dict[str, Any] | None:
        """What is known of it, if it is ready and was trained by this recipe."""
        path = self.folder / FOUND
        known = read_json(path) if path.exists() else None
        if not isinstance(known, dict) or known["recipe"] != recipe_to_json(budget.recipe(self.cell, self.seed)):
            return None
        return known

    def task(self, budget: Budget) -> Task:
        """What trains and evaluates it in a process of its own."""
        command = run_module(f"benchmarks.{NAME}", "--cell", self.cell, "--seeds", str(self.seed))
        where = ("--runs", str(self.folder.parent))
        return Task(self.name, [*command, *where, *budget.arguments()], self.folder.with_suffix(".log"))


def train_and_evaluate(run: Run, budget: Budget) -> None:
    """Train one cell, translate the test set, and write down what is known."""
    torch.set_num_threads(1)
    recipe = budget.recipe(run.cell, run.seed)
    train(recipe, run.folder, resume=True)
    model = Translator.load(run.folder, device=budget.device)
    corpus = recipe.data.test[0]
    judged = model.evaluate_rows(list(read_pairs(corpus, recipe.data.folder)), name=corpus.title)
    known = {
        "recipe": recipe_to_json(recipe),
        "parameters": sum(parameter.numel() for parameter in model.network.parameters()),
        "training": describe_training(run.folder),
        "bleu": judged.bleu.score,
        "signature": judged.bleu.signature,
        "perplexity": judged.perplexity,
        "decoded_tokens_s": judged.tokens_per_second,
        "translations": judged.translations,
        "references": judged.references,
    }
    write_json(run.folder / FOUND, known)
    remove_folder(run.folder / CHECKPOINTS)  # ten of them, in dozens of runs


# --- what is found ----------------------------------------------------------------------------------------------------


class Table:
    """Scores of all cells that are ready, against the same references."""

    def __init__(self, budget: Budget, jobs: int) -> None:
        self.budget, self.jobs = budget, jobs
        self.cells: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, Floats] = {}

    def add(self, cell: str, runs: Sequence[dict[str, Any]]) -> None:
        """Take a cell's runs, one per seed."""
        metric = self._measure(runs[0]["references"])
        counts = np.stack([metric.counts(run["translations"]) for run in runs])
        self._counts[cell] = counts
        interval = bootstrap(metric.scores, np.zeros_like(counts), counts)  # beside one that says nothing, and scores 0
        self.cells[cell] = {
            "seeds": [run["recipe"]["train"]["seed"] for run in runs],
            "bleu": float(run_scores(metric.scores, counts).mean()),
            "bleu_low": interval.low,
            "bleu_high": interval.high,
            "bleu_by_seed": run_scores(metric.scores, counts).tolist(),
            "signature": runs[0]["signature"],
            "parameters": runs[0]["parameters"],
            "perplexity": mean(run["perplexity"] for run in runs),
            "tokens_s": mean(run["training"]["tokens_s"] for run in runs),
            "minutes": mean(run["training"]["minutes"] for run in runs),
            "decoded_tokens_s": mean(run["decoded_tokens_s"] for run in runs),
            "steps": self.budget.steps,
            "dropout": self.budget.dropout,
            "jobs": self.jobs,
        }
        own = f"{cell.split('-')[0]}-{OWN[cell.split('-')[0]]}"
        for other in self.cells if cell == own else [cell]:
            self._compare(other, own, metric)

    def _compare(self, cell: str, own: str, metric: SummedMetric) -> None:
        """Add the difference to the family's own alignment, where both are known."""
        if cell == own or own not in self._counts or cell.split("-")[0] != own.split("-")[0]:
            return
        a, b = self._counts[own], self._counts[cell]
        drawn = bootstrap(metric.scores, a, b)
        self.cells[cell] |= {
            "difference": difference(metric.scores, a, b),
            "difference_low": drawn.low,
            "difference_high": drawn.high,
        }

    def _measure(self, references: Sequence[str]) -> SummedMetric:
        recipe = self.budget.base
        return build_metric("bleu", references, recipe.evaluate.bleu_tokenize, recipe.data.lowercase)

    def figures(self) -> dict[str, float]:
        keys = ("bleu", "bleu_low", "bleu_high", "difference", "tokens_s", "parameters")
        return {f"{cell}_{key}": row[key] for cell, row in self.cells.items() for key in keys if key in row}

    def show(self) -> None:
        titles = f"{'BLEU':>8}{'95%':>16}{'difference':>12}{'95%':>16}{'tokens/s':>12}{'parameters':>12}{'minutes':>9}"
        print(f"\n{'':32}{titles}")
        for cell in [cell for cell in CELLS if cell in self.cells]:
            row = self.cells[cell]
            compared = f"{'':>12}{'':>16}"
            if "difference" in row:
                interval = f"[{row['difference_low']:.1f}, {row['difference_high']:.1f}]"
                compared = f"{row['difference']:>+12.2f}{interval:>16}"
            interval = f"[{row['bleu_low']:.1f}, {row['bleu_high']:.1f}]"
            rest = f"{row['tokens_s']:>12,.0f}{row['parameters']:>12,}{row['minutes']:>9.1f}"
            print(f"{cell:32}{row['bleu']:>8.2f}{interval:>16}{compared}{rest}")


class Zoo:
    """The whole benchmark: runs what is not ready, and records after every run."""

    def __init__(self, budget: Budget, seeds: Sequence[int], runs: Path, jobs: int, results: Path | None) -> None:
        self.budget, self.seeds, self.runs, self.results = budget, seeds, runs, results
        self.table = Table(budget, jobs)
        self.jobs = jobs
        self.before = Detailed()  # kept where nothing new is known
        self.failed: dict[str, str] = {}

    def run(self, cells: Sequence[str], limit_seconds: float) -> None:
        owns = [f"{family}-{alignment}" for family, alignment in OWN.items()]
        for cell in dict.fromkeys((*owns, *cells)):  # a cell that is not asked for is only compared with
            self._take(cell)
        wanted = [Run.of(cell, seed, self.runs) for cell in cells for seed in self.seeds]
        asked = {run.name: run for run in wanted if run.found(self.budget) is None}

        def ready(task: Task, failure: str | None) -> None:
            if failure is None:
                self._take(asked[task.name].cell)
            else:
                self.failed[task.name] = failure
            print(f"{task.name}: {failure or 'ready'}", flush=True)
            self._save(cells)

        tasks = [run.task(self.budget) for run in asked.values()]
        run_side_by_side(
            tasks, self.jobs, limit_seconds, ready, {**child_environment("benchmarks"), "OMP_NUM_THREADS": "1"}
        )
        self._save(cells)

    def _take(self, cell: str) -> None:
        """Score a cell by those of its seeds that are ready."""
        found = [Run.of(cell, seed, self.runs).found(self.budget) for seed in self.seeds]
        known = [one for one in found if one is not None]
        if known:
            self.table.add(cell, known)

    def _save(self, cells: Sequence[str]) -> None:
        if self.results is None:
            return
        tried = {Run.of(cell, seed, self.runs).name for cell in cells for seed in self.seeds}
        failed = {name: why for name, why in self.before.failed.items() if name not in tried}
        found = Detailed(
            {**self.before.figures, **self.table.figures()},
            {**self.before.details, **self.table.cells},
            failed | self.failed,
        )
        save(NAME, found, self.results, self.seeds)


# --- the program ------------------------------------------------------------------------------------------------------


def arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the recipe's files are")
    parser.add_argument("--cells", default=",".join(CELLS), help="some of the table, such as recurrent-additive")
    parser.add_argument(
        "--cell", choices=CELLS, metavar="CELL", help="train and evaluate this one here and now, with the first seed"
    )
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--steps", type=int, help=f"updates; by default {FULL.steps:,}")
    parser.add_argument("--batch-tokens", type=int, help="by default the recipe's")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--recurrent-rate", type=float, default=0.002, help="the highest learning rate")
    parser.add_argument("--transformer-rate", type=float, default=0.003)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1, help="cells that train side by side")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="of one cell with one seed")
    parser.add_argument("--runs", type=Path, default=Path("runs") / NAME, help="the folder of the run folders")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded of other cells")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny models on built-in sentences; records nothing")
    return parser, parser.parse_args()


def stop(signal_number: int, _: object) -> NoReturn:
    """End by an exception, so that what was started is ended too."""
    sys.exit(128 + signal_number)


def main() -> None:
    parser, options = arguments()
    if not (options.tiny or options.data):
        parser.error("--data: say where Multi30k's files are, or try the program out with --tiny")
    budget, seeds = Budget.of(options), [int(seed) for seed in options.seeds.split(",")]
    try:
        if options.cell:
            train_and_evaluate(Run.of(options.cell, seeds[0], options.runs), budget)
            return
        cells = [cell for cell in options.cells.split(",") if cell]
        unknown = next((cell for cell in cells if cell not in CELLS), None)
        if unknown:
            parser.error(f"--cells: `{unknown}` is not one of {', '.join(CELLS)}")
        for corpus in (*budget.base.data.train, *budget.base.data.valid, *budget.base.data.test):
            check_files(corpus, budget.data)
        zoo = Zoo(budget, seeds, options.runs, options.jobs, None if options.tiny else options.results)
        if options.merge and not options.tiny:
            zoo.before = recorded(NAME, options.results)
        signal.signal(signal.SIGTERM, stop)
        zoo.run(cells, options.limit)
    except HeedfulError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    zoo.table.show()
    for name, why in zoo.failed.items():
        print(f"{name} failed: {why}")
    sys.exit(1 if zoo.failed else 0)


if __name__ == "__main__":
    main()
