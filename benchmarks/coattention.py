"""Is this German caption that of this English one? Co-attention against one sequence with segments.

    python -m benchmarks.coattention --data FOLDER [--cells A,B] [--seeds 1,2,3] [--jobs 9] [--merge]
    python -m benchmarks.coattention --data FOLDER --prepare      writes the pairs, trains nothing
    python -m benchmarks.coattention --tiny                       tiny models on built-in sentences; records nothing

FOLDER holds Multi30k's files (train, val, test_2016_flickr, test_2017_flickr).(en, de).gz. Half of the pairs are right.
Of the wrong ones, those to be told apart are `similar`: English and German captions that share most words with the
right ones, drawn as `benchmarks/caption_pairs.py` says, so that either side alone tells nothing. Training has as many
`random` wrong pairs besides. All cells are recipes/multi30k-pairs.toml (data, vocabulary, encoder, steps) but for:

segments       one sequence `<s> text </s> second </s>` with a vector for each segment, and the state of `<s>`, as BERT
segments_mean  the same with the mean of all states
parallel       each text by itself, joined by parallel co-attention (Lu et al. 2016)
alternating    each text by itself, joined by alternating co-attention

Records coattention.json: of each cell `accuracy_CELL` on the similar pairs of both tests, the mean over seeds, with
its deviation (`_sd`) and its 95% interval (`_low`, `_high`) by the bootstrap over captions that swap, four pairs
together, and over seeds; `accuracy_random_CELL` on the random ones; and `difference_CELL` to segments on the same
captions, with its interval. Each cell with a seed trains in a process of its own, --jobs of them at a time; what is
ready is not trained again.
"""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final, NoReturn

import numpy as np
from benchmarks.caption_pairs import ROWS, Caption, read_captions, write_pairs
from benchmarks.detailed_results import Detailed, recorded, save
from benchmarks.side_by_side import Task, run_side_by_side
from numpy.typing import NDArray

from heedful.cli.reports.scores import describe_training
from heedful.config.corpora.pairs import BuiltinCorpus
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.texts import read_texts
from heedful.errors import HeedfulError
from heedful.files import read_json, write_json
from heedful.metrics.recorded_results import RESULTS
from heedful.runs.training_run import train
from heedful.tasks.classify.evaluation import evaluate_classifier
from heedful.tasks.loading import load

NAME = "coattention"
FOUND = "found.json"  # in the folder of a run: what is known of it
DRAWING: Final = 1  # the seed of the wrong pairs, the same for all cells and seeds
DREW: Final = "similarities.json"  # written last into the folder of the pairs
SPLITS: Final = {"train": ["train"], "val": ["val"], "test": ["test_2016_flickr", "test_2017_flickr"]}
CELLS: Final[Mapping[str, tuple[str, ...]]] = {  # what is set otherwise than in the recipe
    "segments": ("model.join=sequence", "model.encoder.segments=2", "data.max_length=128"),
    "segments_mean": ("model.join=sequence", "model.encoder.segments=2", "data.max_length=128", "model.pool=mean"),
    "parallel": (),
    "alternating": ("model.join=alternating",),
}
TINY: Final = (
    "model.encoder.width=16", "model.encoder.heads=2", "model.encoder.layers=1", "model.encoder.inner=32",
    "tokenizer.size=400", "data.batch_tokens=1024", "train.steps=20", "train.schedule.warmup=5", "train.average.last=2",
    "train.checkpoint_every=10", "train.validation.every=20", "train.device=cpu",
)  # fmt: skip
TINY_CAPTIONS: Final = {"train": 120, "valid": 30, "test": 30}

Right = NDArray[np.float64]  # seeds x swaps x rows of a swap: 1 where the answer is right


# --- the pairs --------------------------------------------------------------------------------------------------------


def captions_of(options: argparse.Namespace) -> dict[str, list[list[Caption]]]:
    """The captions of each split, part by part."""
    if not options.tiny:
        return {split: [read_captions(options.data, part) for part in parts] for split, parts in SPLITS.items()}
    builtin = {"builtin": "english-spanish"}
    corpora = {
        part: BuiltinCorpus.model_validate({**builtin, "part": part, "count": n}) for part, n in TINY_CAPTIONS.items()
    }
    return {part.replace("valid", "val"): [list(read_pairs(corpus))] for part, corpus in corpora.items()}


def prepare(options: argparse.Namespace) -> dict[str, float]:
    """Write the pairs where they are not there yet; return how similar swapped captions are."""
    drew = pairs_folder(options) / DREW
    if not drew.exists():
        print("drawing wrong pairs", flush=True)
        write_json(drew, write_pairs(captions_of(options), drew.parent, DRAWING))
    known = read_json(drew)
    assert isinstance(known, dict)
    return known


def pairs_folder(options: argparse.Namespace) -> Path:
    runs: Path = options.runs
    return runs / ("pairs-tiny" if options.tiny else "pairs")


# --- training ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A cell with a seed, and its folder."""

    cell: str
    seed: int
    options: argparse.Namespace

    @property
    def folder(self) -> Path:
        runs: Path = self.options.runs
        return runs / f"{self.cell}-{self.seed}{'-tiny' if self.options.tiny else ''}"

    def found(self) -> dict[str, Any] | None:
        path = self.folder / FOUND
        known = read_json(path) if path.exists() else None
        return known if isinstance(known, dict) and known["settings"] == self._settings() else None

    def task(self) -> Task:
        """What trains and evaluates it in a process of its own."""
        command = [sys.executable, "-m", f"benchmarks.{NAME}", "--cell", self.cell, "--seeds", str(self.seed)]
        where = ["--runs", str(self.options.runs), *(["--tiny"] if self.options.tiny else [])]
        sets = [word for setting in self.options.set for word in ("--set", setting)]
        return Task(f"{self.cell}, seed {self.seed}", [*command, *where, *sets], self.folder.with_suffix(".log"))

    def train_and_evaluate(self) -> None:
        """Train, classify both kinds of test pairs, and write down what is known."""
        settings = self._settings()
        where = f"data.folder={pairs_folder(self.options)}"
        train(load_recipe("multi30k-pairs", [*settings, where]), self.folder, resume=True)
        classifier: Any = load(self.folder)
        right = {}
        for kind, corpus in zip(("similar", "random"), classifier.recipe.data.test, strict=True):
            texts = list(read_texts(corpus, classifier.recipe.data.folder))
            judged = evaluate_classifier(classifier, texts).result
            right[kind] = "".join("1" if one else "0" for one in (judged.true == judged.said).all(axis=1))
        parameters = sum(parameter.numel() for parameter in classifier.network.parameters())
        known = {"settings": settings, "parameters": parameters, "training": describe_training(self.folder)}
        write_json(self.folder / FOUND, {**known, "right": right})

    def _settings(self) -> list[str]:
        tiny = TINY if self.options.tiny else ()
        return [*CELLS[self.cell], *tiny, *self.options.set, f"train.seed={self.seed}", "train.threads=1"]


# --- what is found ----------------------------------------------------------------------------------------------------


def right_of(runs: Sequence[dict[str, Any]], kind: str = "similar") -> Right:
    marks = [[letter == "1" for letter in run["right"][kind]] for run in runs]
    return np.array(marks, dtype=np.float64).reshape(len(runs), -1, ROWS)


def interval(right: Right, other: Right | None = None, draws: int = 2000) -> tuple[float, float]:
    """The 95% interval of the accuracy, or of its difference to another's on the same captions."""
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(draws):
        swaps = random.integers(0, right.shape[1], right.shape[1])
        means = []
        for one in [right] if other is None else [right, other]:
            seeds = random.integers(0, len(one), len(one))
            means.append(one.mean(axis=2)[np.ix_(seeds, swaps)].mean())
        drawn.append(means[0] - (means[1] if other is not None else 0))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def figures_of(cell: str, runs: Sequence[dict[str, Any]], segments: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What is recorded of a cell; the difference where segments are known too."""
    right = right_of(runs)
    by_seed = right.mean(axis=(1, 2)).tolist()
    low, high = interval(right)
    found = {
        f"accuracy_{cell}": mean(by_seed),
        f"accuracy_{cell}_low": low,
        f"accuracy_{cell}_high": high,
        f"accuracy_random_{cell}": float(right_of(runs, "random").mean()),
    }
    if len(by_seed) > 1:
        found[f"accuracy_{cell}_sd"] = stdev(by_seed)
    if not cell.startswith("segments") and segments:
        other = right_of(segments)
        low, high = interval(right, other)
        found |= {
            f"difference_{cell}": mean(by_seed) - float(other.mean()),
            f"difference_{cell}_low": low,
            f"difference_{cell}_high": high,
        }
    return found


def details_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "by_seed": right_of(runs).mean(axis=(1, 2)).tolist(),
        "parameters": runs[0]["parameters"],
        "minutes": [run["training"].get("minutes") for run in runs],
        "settings": runs[0]["settings"][:-2],
    }


class Board:
    """All cells that are ready, recorded after each."""

    def __init__(self, options: argparse.Namespace, seeds: Sequence[int], similarities: Mapping[str, float]) -> None:
        self.options, self.seeds, self.similarities = options, seeds, similarities
        self.before = recorded(NAME, options.results) if options.merge and not options.tiny else Detailed()
        self.failed: dict[str, str] = {}
        self.figures: dict[str, float] = {}
        self.details: dict[str, Any] = {}

    def take(self) -> None:
        """Score every cell by those of its seeds that are ready, and record."""
        ready = {
            cell: [known for seed in self.seeds if (known := Run(cell, seed, self.options).found())] for cell in CELLS
        }
        for cell, runs in ready.items():
            if runs:
                self.figures |= figures_of(cell, runs, ready["segments"])
                self.details[cell] = details_of(runs)
        if self.figures and not self.options.tiny:
            figures, details = {**self.before.figures, **self.figures}, {**self.before.details, **self.details}
            details["similarity_of_swapped_captions"] = dict(self.similarities)
            save(NAME, Detailed(figures, details, self.failed), self.options.results, self.seeds)

    def show(self) -> None:
        for key, figure in self.figures.items():
            print(f"{key:32}{figure:8.4f}")
        for name, why in self.failed.items():
            print(f"{name} failed: {why}")


# --- the program ------------------------------------------------------------------------------------------------------


def arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="Multi30k's files")
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--cell", choices=CELLS, help="train and evaluate this one here and now, with the first seed")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--set", action="append", default=[], help="of every cell, as `heedful train` has it")
    parser.add_argument("--prepare", action="store_true", help="write the pairs, and train nothing")
    parser.add_argument("--jobs", type=int, default=1, help="cells that train side by side")
    parser.add_argument("--limit", type=float, default=1800, metavar="SECONDS", help="of one cell with one seed")
    parser.add_argument("--runs", type=Path, default=Path("runs") / NAME, help="the folder of pairs and run folders")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded of other cells")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder to record in")
    parser.add_argument("--tiny", action="store_true", help="tiny models on built-in sentences; records nothing")
    return parser, parser.parse_args()


def stop(signal_number: int, _: object) -> NoReturn:
    """End by an exception, so that what was started is ended too."""
    sys.exit(128 + signal_number)


def run(options: argparse.Namespace, cells: Sequence[str], seeds: Sequence[int]) -> int:
    board = Board(options, seeds, prepare(options))
    if options.prepare:
        print(f"{pairs_folder(options)}: " + ", ".join(f"{k} {v:.3f}" for k, v in board.similarities.items()))
        return 0

    def ready(task: Task, failure: str | None) -> None:
        print(f"{task.name}: {failure or 'ready'}", flush=True)
        if failure is not None:
            board.failed[task.name] = failure
        board.take()

    board.take()
    asked = [Run(cell, seed, options) for seed in seeds for cell in cells]
    tasks = [one.task() for one in asked if one.found() is None]
    run_side_by_side(tasks, options.jobs, options.limit, ready, {"OMP_NUM_THREADS": "1"})
    board.show()
    return 1 if board.failed else 0


def main() -> None:
    parser, options = arguments()
    cells, seeds = options.cells.split(","), [int(seed) for seed in options.seeds.split(",")]
    unknown = next((cell for cell in cells if cell not in CELLS), None)
    if unknown:
        parser.error(f"--cells: `{unknown}` is not one of {', '.join(CELLS)}")
    if not (options.tiny or options.data or options.cell):
        parser.error("--data: say where Multi30k's files are, or try the program out with --tiny")
    try:
        if options.cell:
            Run(options.cell, seeds[0], options).train_and_evaluate()
            return
        signal.signal(signal.SIGTERM, stop)
        sys.exit(run(options, cells, seeds))
    except HeedfulError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
