"""The recipe that sets nothing but its data, with little data, against what a careful user would have.

    python -m benchmarks.texts.defaults --data DATA [--parts texts_500,pairs_2000] [--seeds 1,2,3] [--jobs 4]
    python -m benchmarks.texts.defaults --data DATA --tiny

DATA holds the folders `imdb` (train.tsv.gz, test.tsv.gz: label, rating, review) and `tatoeba` (spa-eng.zip). A seed
draws the training texts or pairs, and is that of training.

texts_N   N reviews: the accuracy of the default classifier over that of logistic regression on tf-idf of words, or of
          words and pairs of words, its penalty and its features chosen by cross-validation, on the same test reviews
pairs_N   N pairs: BLEU of the default translator over that of the best of TUNED, chosen on validation pairs; each of
          the five recipes is trained in a process of its own, all of them side by side

Records defaults.json: `ratio_500`, `ratio_2000`, `ratio_7000`, `ratio_pairs_2000` and `ratio_pairs_10000` (means over
seeds); in `details` the scores of each seed. --tiny takes a few texts and steps, to see that it works, and records
nothing. The parts of texts need no GPU.
"""

import argparse
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.shared import cells
from benchmarks.texts.tfidf import cross_validated_accuracy

import heedful
from heedful.base.errors import UserError
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.lab.study.side_by_side import Task
from heedful.metrics.recorded_results import machine

NAME: Final = "defaults"
PARTS: Final = ("texts_500", "texts_2000", "texts_7000", "pairs_2000", "pairs_10000")
TEST_TEXTS: Final = 5_000
HELD_PAIRS: Final = 1_000  # for validation, and as many for the test
TUNED: Final[Mapping[str, Mapping[str, Any]]] = {  # recipes of which the best on validation is the tuned one
    f"{layers} layers, dropout {dropout}, {size} pieces": {
        "tokenizer": {"kind": "byte_bpe", "size": size},
        "model": {
            "width": 128, "heads": 4, "layers": layers, "inner": 256, "norm": "pre", "dropout": dropout,
        },
        "train": {
            "steps": 3000, "clip_norm": 1.0, "schedule": {"kind": "inverse_sqrt", "lr": 0.004, "warmup": 400},
            "validation": {"every": 300, "metric": "bleu", "max_sentences": 300},
        },
    }
    for layers, dropout, size in ((2, 0.3, 1000), (2, 0.4, 2000), (4, 0.3, 2000), (4, 0.4, 4000))
}  # fmt: skip

DEFAULT: Final = "default"

Rows = list[tuple[str, str]]


class Cell(cells.Cell):
    """A part with a seed."""

    program = f"texts.{NAME}"

    def measure(self) -> dict[str, Any]:
        """Train by default, and what it is compared with."""
        found = self._texts() if self.part.startswith("texts_") else self._pairs()
        return {**found, "ratio": found["score"] / max(found["other"], 1e-9), "machine": machine()}

    def _texts(self) -> dict[str, Any]:
        size, tested = (60, 50) if self.options.tiny else (size_of(self.part), TEST_TEXTS)
        train, test = reviews(self.options.data, self.seed, size, tested)
        recipe = {"model": {"family": "classifier"}, "train": settings_of(self)}
        run = heedful.train(recipe, self.folder / "run", self.options.set, train=train, quiet=True)
        model: Any = run.model
        score = model.evaluate(test).result.accuracy
        return {"score": score, "other": cross_validated_accuracy(train, test)}

    def _pairs(self) -> dict[str, Any]:
        names = [DEFAULT, *TUNED][: 2 if self.options.tiny else None]
        made = {name: Translator(self.part, self.seed, by_recipe(self.options, name)) for name in names}
        failed: dict[str, str] = {}
        cells.measure_cells(made.values(), by_recipe(self.options, None, jobs=len(names)), failed, lambda: None)
        if failed:
            raise UserError("; ".join(f"{name}: {why}" for name, why in failed.items()))
        known = {name: cell.found() or {} for name, cell in made.items()}
        scores = {name: (one["valid"], one["test"]) for name, one in known.items()}
        best = max((name for name in scores if name != DEFAULT), key=lambda name: scores[name][0])
        return {"score": scores[DEFAULT][1], "other": scores[best][1], "tuned": best, "scores": scores}


class Translator(cells.Cell):
    """One of the recipes that a part of pairs compares, with a seed."""

    program = f"texts.{NAME}"
    passed = ("data", "recipe")

    @property
    def folder(self) -> Path:
        return super().folder / re.sub("[^a-z0-9]+", "-", self.options.recipe)

    def task(self) -> Task:
        return replace(super().task(), name=self.options.recipe)

    def measure(self) -> dict[str, Any]:
        """Train it, and return its BLEU on validation and test pairs."""
        size, held = (60, 20) if self.options.tiny else (size_of(self.part), HELD_PAIRS)
        train, valid, test = pairs(self.options.data, self.seed, size, held)
        recipe = TUNED.get(self.options.recipe, {})
        table = {**recipe, "train": {**recipe.get("train", {}), **settings_of(self)}}
        run = heedful.train(table, self.folder / "run", self.options.set, True, train=train, valid=valid, quiet=True)
        model: Any = run.model
        return {"valid": _bleu(model, valid), "test": _bleu(model, test)}


def size_of(part: str) -> int:
    """Return how many training texts or pairs a part has."""
    return int(part.partition("_")[2])


def settings_of(cell: cells.Cell) -> dict[str, Any]:
    """Return what is set in [train] beside what a recipe says."""
    tiny = {"steps": 3, "device": "cpu", "precision": "float32"} if cell.options.tiny else {}
    return {"seed": cell.seed, **tiny}


def by_recipe(options: argparse.Namespace, recipe: str | None, **others: Any) -> argparse.Namespace:
    """Return the options with another recipe."""
    return argparse.Namespace(**{**vars(options), "recipe": recipe, **others})


def _bleu(model: Any, rows: Rows) -> float:
    return next(float(score.value) for score in model.evaluate(rows).scores() if score.name == "bleu")


def reviews(data: Path, seed: int, size: int, test: int, column: int = 0) -> tuple[Rows, Rows]:
    """Return training reviews that the seed draws, and test reviews that are always the same.

    Each has its label, or what else is in a column.
    """

    def read(name: str, drawn_by: int) -> Rows:
        rows = [line.split("\t") for line in read_lines(locate(name, str(data / "imdb")))]
        random.Random(drawn_by).shuffle(rows)
        return [(row[2], row[column]) for row in rows]

    return read("train.tsv.gz", seed)[:size], read("test.tsv.gz", 0)[:test]


def pairs(data: Path, seed: int, size: int, held: int) -> tuple[Rows, Rows, Rows]:
    """Return pairs for training, validation and test: no English sentence is in two of them."""
    rows: dict[str, str] = {}
    for line in read_lines(locate("spa-eng.zip:spa-eng/spa.txt", str(data / "tatoeba"))):
        english, spanish, *_ = line.split("\t")
        rows.setdefault(english, spanish)
    order = sorted(rows)
    random.Random(0).shuffle(order)
    kept = order[2 * held :]
    random.Random(seed).shuffle(kept)
    parts = (kept[:size], order[:held], order[held : 2 * held])
    train, valid, test = ([(english, rows[english]) for english in part] for part in parts)
    return train, valid, test


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figure of a part."""
    return cells.mean_over_seeds(f"ratio_{part.removeprefix('texts_')}", [one["ratio"] for one in found])


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Measure every cell that is not known yet; return an exit code."""
    asked = [Cell(part, seed, options) for part in parts for seed in seeds]
    return cells.measure_and_record(NAME, asked, options, seeds, figures_of)


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, PARTS)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="the folder of `imdb` and `tatoeba`")
    parser.add_argument(
        "--recipe", choices=(DEFAULT, *TUNED), help="with --cell, of a part of pairs: this recipe alone"
    )

    def chosen(part: str, seed: int, options: argparse.Namespace) -> cells.Cell:
        return (Translator if options.recipe else Cell)(part, seed, options)

    cells.run_program(parser, PARTS, chosen, run)
