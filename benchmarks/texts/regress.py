"""Regressors whose recipe sets nothing but its data, against ridge regression.

    python -m benchmarks.texts.regress --data DATA [--parts texts_500,pairs] [--seeds 1,2,3,4,5] [--jobs 4]
    python -m benchmarks.texts.regress --data DATA --tiny

DATA holds the folders `imdb` (train.tsv.gz, test.tsv.gz: label, rating, review), `multi30k` (train, en and de) and
`tatoeba` (spa-eng.zip). A seed draws the training rows, and is that of training; test rows are always the same.

texts_N   N reviews and their ratings from 1 to 10
pairs     10,000 pairs of English sentences, half from Multi30k and half from Tatoeba, and how similar their
          translations are (`similarity`): 1 for Tatoeba's paraphrases, which have the same one. Others share a rare
          word, or are drawn at random. No test sentence, nor its translation, is in training
images    5,000 generated scenes of three to five shapes, and the price of each: a table of prices by shape, times size

Spearman's rho of each default regressor is divided by that of ridge regression with features and penalty chosen by
cross-validation: on tf-idf of words, or of words and pairs of words, of pairs of texts also of those that both have;
on all pixels of images. Records regress.json: `ratio_500`, `ratio_2000`, `ratio_20000`, `ratio_pairs`, `ratio_images`
(means over seeds); in `details` both correlations of each seed. --tiny takes a few rows and steps, to see that it
works, and records nothing.
"""

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from benchmarks.shared import cells
from benchmarks.texts.defaults import figures_of, reviews
from benchmarks.texts.tfidf import ridge_predictions
from numpy.typing import NDArray
from PIL import Image

import heedful
from heedful.data.builtin.scenes import SHAPES, SIZES, Scene, scenes
from heedful.data.builtin.scenes_drawing import draw_scene
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.metrics.recorded_results import machine

NAME: Final = "regress"
PARTS: Final = ("texts_500", "texts_2000", "texts_20000", "pairs", "images")
TEST_TEXTS: Final = 5_000
PAIRS, TEST_PAIRS = 10_000, 2_000
IMAGES, TEST_IMAGES = 5_000, 2_000
SIDE: Final = 48  # pixels of an image, each way
PENALTIES: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # shares of the mean square of an image's pixels
FOLDS: Final = 3
PRICES: Final = {shape: price for price, shape in enumerate(SHAPES, start=1)}
SCALES: Final = {size: scale for scale, size in enumerate(SIZES, start=1)}

Rows = list[tuple[Any, float]]


class Cell(cells.Cell):
    """A part with a seed."""

    program = f"texts.{NAME}"

    def measure(self) -> dict[str, Any]:
        """Train by default, and predict the numbers of test rows; the same by ridge regression."""
        train, test = self._rows()
        family = "image_regressor" if self.part == "images" else "regressor"
        tiny = {"steps": 3, "device": "cpu", "precision": "float32"} if self.options.tiny else {}
        recipe = {"model": {"family": family}, "train": {"seed": self.seed, **tiny}}
        given: Any = [(*row, number) for row, number in train] if self.part == "pairs" else train
        if self.part == "images":
            recipe["data"], given = {"train": saved(train, self.folder / "images")}, None
        run = heedful.train(recipe, self.folder / "run", self.options.set, train=given, quiet=True)
        model: Any = run.model
        asked, true = [row for row, _ in test], [number for _, number in test]
        if self.part == "pairs":
            predicted = model.regress([first for first, _ in asked], [second for _, second in asked])
        else:
            predicted = model.regress(asked)
        line = (ridge_of_pixels if self.part == "images" else ridge_predictions)(train, test)
        score, other = spearman(predicted, true), spearman(line, true)
        return {"score": score, "other": other, "ratio": score / max(other, 1e-9), "machine": machine()}

    def _rows(self) -> tuple[Rows, Rows]:
        data, tiny = self.options.data, self.options.tiny
        if self.part == "images":
            return (priced("train", self.seed, 40 if tiny else IMAGES), priced("valid", 0, 20 if tiny else TEST_IMAGES))
        if self.part == "pairs":
            return similar_pairs(data, self.seed, *((60, 30) if tiny else (PAIRS, TEST_PAIRS)))
        return ratings(data, self.seed, *((60, 50) if tiny else (int(self.part.partition("_")[2]), TEST_TEXTS)))


# --- ratings of reviews -----------------------------------------------------------------------------------------------


def ratings(data: Path, seed: int, size: int, test: int) -> tuple[Rows, Rows]:
    """Return training reviews that the seed draws, and test reviews that are always the same, with their ratings."""
    train, tested = ([(text, float(rating)) for text, rating in rows] for rows in reviews(data, seed, size, test, 1))
    return train, tested


# --- similarity of sentences ------------------------------------------------------------------------------------------


def similar_pairs(data: Path, seed: int, size: int, test: int) -> tuple[Rows, Rows]:
    """Return pairs of English sentences with the similarity of their translations, half from each source."""
    sources = (_multi30k(data), _tatoeba(data))
    halves = [_split(source) for source in sources]
    train, tested = (
        [
            row
            for number, half in enumerate(halves)
            for row in _drawn(half[part], count // 2, random.Random(f"{number} {drawn_by}"))
        ]
        for part, count, drawn_by in (("train", size, seed), ("test", test, 0))
    )
    random.Random(seed).shuffle(train)
    return train, tested


def _multi30k(data: Path) -> list[tuple[str, str]]:
    english, german = (read_lines(locate(f"train.{side}.gz", str(data / "multi30k"))) for side in ("en", "de"))
    return list(dict(zip(english, german, strict=True)).items())


def _tatoeba(data: Path) -> list[tuple[str, str]]:
    rows = [line.split("\t")[:2] for line in read_lines(locate("spa-eng.zip:spa-eng/spa.txt", str(data / "tatoeba")))]
    return list({english: spanish for english, spanish in rows if len(english.split()) > 3}.items())


def _split(rows: Sequence[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Divide sentences by their translations, one in six for the test."""
    order = sorted({translation for _, translation in rows})
    random.Random(0).shuffle(order)
    held = set(order[: len(order) // 6])
    return {
        "train": [row for row in rows if row[1] not in held],
        "test": [row for row in rows if row[1] in held],
    }


def _drawn(rows: Sequence[tuple[str, str]], count: int, draw: random.Random) -> Rows:
    """Draw pairs: in turns a paraphrase, where there is one, a sentence that shares a rare word, and any other."""
    same: dict[str, list[int]] = defaultdict(list)
    sharing: dict[str, list[int]] = defaultdict(list)
    often = Counter(word for english, _ in rows for word in set(english.lower().split()))
    for number, (english, translation) in enumerate(rows):
        same[translation].append(number)
        for word in set(english.lower().split()):
            if 2 <= often[word] <= len(rows) // 100:
                sharing[word].append(number)
    paraphrased = [number for numbers in same.values() if len(numbers) > 1 for number in numbers]
    found: Rows = []
    while len(found) < count:
        kind = len(found) % 3
        first = draw.choice(paraphrased) if kind == 0 and paraphrased else draw.randrange(len(rows))
        words = [word for word in sorted(set(rows[first][0].lower().split())) if word in sharing]
        others = same[rows[first][1]] if kind == 0 and paraphrased else range(len(rows))
        if kind == 1 or (kind == 0 and not paraphrased):
            others = sharing[draw.choice(words)] if words else others
        second = draw.choice(others)
        if second != first:
            found.append(((rows[first][0], rows[second][0]), similarity(rows[first][1], rows[second][1])))
    return found


def similarity(one: str, other: str) -> float:
    """Return the F1 of letter trigrams that two sentences share: 1 for equal ones."""
    counts = [
        Counter(padded[start : start + 3] for padded in (f"  {text.lower()} ",) for start in range(len(padded) - 2))
        for text in (one, other)
    ]
    return 2 * (counts[0] & counts[1]).total() / (counts[0].total() + counts[1].total())


# --- prices of scenes -------------------------------------------------------------------------------------------------


def priced(part: str, seed: int, count: int) -> Rows:
    """Return images of generated scenes with their prices."""
    return [(draw_scene(scene, SIDE), price(scene)) for scene in scenes(part, count, seed)]


def price(scene: Scene) -> float:
    """Return the sum over things of the price of the shape times the size."""
    return float(sum(PRICES[thing.shape] * SCALES[thing.size] for thing in scene.things))


def saved(rows: Rows, folder: Path) -> dict[str, Any]:
    """Save images and a table of their prices; return the corpus of a recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (pixels, price_of_it) in enumerate(rows):
        Image.fromarray(pixels).save(folder / f"{number}.png")
        lines.append(f"{number}.png\t{price_of_it:g}\n")
    table = folder / "prices.tsv"
    table.write_text("".join(lines), encoding="utf-8")
    return {"tsv": str(table.resolve()), "image": 1, "number": 2}


def ridge_of_pixels(train: Rows, test: Rows) -> list[float]:
    """Return what ridge regression on all pixels predicts, its penalty chosen by cross-validation."""
    x, asked = (
        torch.tensor(np.stack([image for image, _ in rows])).flatten(1).double() / 255 for rows in (train, test)
    )
    true = torch.tensor([number for _, number in train], dtype=torch.float64)
    centre, mean, fold = x.mean(0), true.mean(), torch.arange(len(x)) % FOLDS
    x, asked, true = x - centre, asked - centre, true - mean
    kernel = x @ x.T
    unit = float(kernel.diagonal().mean())

    def solved(rows: torch.Tensor, penalty: float) -> torch.Tensor:
        inside = kernel[rows][:, rows] + len(rows) * penalty * unit / FOLDS * torch.eye(len(rows), dtype=torch.float64)
        return torch.linalg.solve(inside, true[rows])

    def error(penalty: float) -> float:
        total = 0.0
        for number in range(FOLDS):
            known, held = (fold != number).nonzero()[:, 0], (fold == number).nonzero()[:, 0]
            total += float((kernel[held][:, known] @ solved(known, penalty) - true[held]).square().sum())
        return total

    best = min(PENALTIES, key=error)
    return (asked @ x.T @ solved(torch.arange(len(x)), best) + mean).tolist()


# --- figures ----------------------------------------------------------------------------------------------------------


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the correlation of ranks; equal numbers share the mean of their ranks."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(numbers: Sequence[float]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(np.asarray(numbers), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Measure every cell that is not known yet; return an exit code."""
    asked = [Cell(part, seed, options) for part in parts for seed in seeds]
    return cells.measure_and_record(NAME, asked, options, seeds, figures_of)


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, PARTS)
    parser.set_defaults(seeds="1,2,3,4,5")
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="holds imdb, multi30k and tatoeba")
    cells.run_program(parser, PARTS, Cell, run)
