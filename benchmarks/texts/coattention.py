"""Is this German caption that of this English one? Co-attention against one sequence with segments.

    python -m benchmarks.texts.coattention --data FOLDER [--parts A,B] [--seeds 1,2,3] [--jobs 9] [--merge]
    python -m benchmarks.texts.coattention --data FOLDER --prepare      writes the pairs, trains nothing
    python -m benchmarks.texts.coattention --tiny                     tiny models on built-in sentences; records nothing

FOLDER holds Multi30k's files (train, val, test_2016_flickr, test_2017_flickr).(en, de).gz. Half of the pairs are right.
Of the wrong ones, those to be told apart are `similar`: English and German captions that share most words with the
right ones, drawn as `benchmarks/texts/caption_pairs.py` says, so that either side alone tells nothing. Training has as
many `random` wrong pairs besides. All cells are recipes/multi30k-pairs.toml (data, vocabulary, encoder, steps) but for:

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final

import numpy as np
from benchmarks.shared.cells import Cell, known_by_part, make_parser, measure_cells, run_program, show
from benchmarks.shared.detailed_results import Detailed, recorded, save
from benchmarks.texts.caption_pairs import ROWS, Caption, read_captions, write_pairs
from numpy.typing import NDArray

from heedful.base.files import read_json, write_json
from heedful.cli.verbs.evaluate import describe_training
from heedful.config.corpora.containers import Builtin
from heedful.config.reading.load import load_recipe
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.texts import read_texts
from heedful.runs.training_run import train
from heedful.tasks.loading import load

NAME = "coattention"
DRAWING: Final = 1  # the seed of the wrong pairs, the same for all cells and seeds
DREW: Final = "similarities.json"  # written last into the folder of the pairs
SPLITS: Final = {"train": ["train"], "val": ["val"], "test": ["test_2016_flickr", "test_2017_flickr"]}
PARTS: Final[Mapping[str, tuple[str, ...]]] = {  # what is set otherwise than in the recipe
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
    corpora = {part: Builtin.model_validate({**builtin, "part": part, "count": n}) for part, n in TINY_CAPTIONS.items()}
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


class Run(Cell):
    """A way to join two texts, with a seed."""

    program = f"texts.{NAME}"
    passed = ()

    @property
    def settings(self) -> list[str]:
        """What is set otherwise than in the recipe."""
        tiny = TINY if self.options.tiny else ()
        return [*PARTS[self.part], *tiny, *self.options.set, f"train.seed={self.seed}", "train.threads=1"]

    def measure(self) -> dict[str, Any]:
        """Train, and classify both kinds of test pairs."""
        where = f"data.folder={pairs_folder(self.options)}"
        train(load_recipe("multi30k-pairs", [*self.settings, where]), self.folder, resume=True)
        classifier: Any = load(self.folder)
        right = {}
        for kind, corpus in zip(("similar", "random"), classifier.recipe.data.test, strict=True):
            texts = list(read_texts(corpus, classifier.recipe.data.folder))
            judged = classifier.evaluate_rows(texts).result
            right[kind] = "".join("1" if one else "0" for one in (judged.true == judged.said).all(axis=1))
        parameters = sum(parameter.numel() for parameter in classifier.network.parameters())
        return {"parameters": parameters, "training": describe_training(self.folder), "right": right}


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


def take(
    options: argparse.Namespace, asked: Sequence[Run], seeds: Sequence[int], failed: Mapping[str, str]
) -> dict[str, float]:
    """Score every part by those of its seeds that are ready, and record unless the models are tiny."""
    known = known_by_part(asked)
    found = {part: figures_of(part, runs, known.get("segments", [])) for part, runs in known.items()}
    figures = {key: figure for one in found.values() for key, figure in one.items()}
    if figures and not options.tiny:
        before = recorded(NAME, options.results) if options.merge else Detailed()
        details = {**before.details, **{part: details_of(runs) for part, runs in known.items()}}
        details["similarity_of_swapped_captions"] = prepare(options)
        save(NAME, Detailed({**before.figures, **figures}, details, failed), options.results, seeds)
    return figures


# --- the program ------------------------------------------------------------------------------------------------------


def check(options: argparse.Namespace, parts: Sequence[str]) -> str | None:
    """Return what is wrong with the options."""
    if not (options.tiny or options.data or options.cell):
        return "--data: say where Multi30k's files are, or try the program out with --tiny"
    return None


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate what is not ready yet; return the exit code."""
    similarities = prepare(options)
    if options.prepare:
        print(f"{pairs_folder(options)}: " + ", ".join(f"{k} {v:.3f}" for k, v in similarities.items()))
        return 0
    failed: dict[str, str] = {}
    asked = [Run(part, seed, options) for seed in seeds for part in parts]
    measure_cells(asked, options, failed, lambda: take(options, asked, seeds, failed))
    return show(take(options, asked, seeds, failed), failed)


if __name__ == "__main__":
    parser = make_parser(__doc__, NAME, tuple(PARTS))
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="Multi30k's files")
    parser.add_argument("--prepare", action="store_true", help="write the pairs, and train nothing")
    parser.add_argument("--merge", action="store_true", help="keep what is recorded of other parts")
    run_program(parser, tuple(PARTS), Run, run, check)
