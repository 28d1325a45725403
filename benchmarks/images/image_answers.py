"""Questions about images of scenes by the recipe that ships with Heedful, with images and without.

    python -m benchmarks.images.image_answers [--seeds 1,2,3] [--jobs 3]
    python -m benchmarks.images.image_answers --tiny

The test scenes have pairs of shape and colour that no training scene has. The images are drawn once, before the first
seed; each seed is trained and evaluated in a process of its own, `--jobs` of them side by side.

Records answers.json:
    accuracy                  on the questions about test scenes, mean over seeds; `accuracy_sd`
    accuracy_seen             on questions about validation scenes, whose pairs are all trained on
    accuracy_unseen           on those about test scenes that name or are answered by a pair that is not
    accuracy_no_image       of the same models on the test questions, all images blank
    accuracy_most_frequent    of the most frequent training answer to each kind of question
In `details`: the values of each seed, also by kind of question, with minutes and speed. --tiny takes a few scenes and
steps on a CPU, to see that it works, and records nothing.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any, Final

import numpy as np
from benchmarks.shared import cells

from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.data.builtin.scenes import HELD_OUT
from heedful.data.builtin.scenes_drawing import BACKGROUND
from heedful.data.corpora.images import AskedImage, ImageQuestion, read_asked_images
from heedful.metrics.recorded_results import machine
from heedful.runs.training_run import train
from heedful.tasks.classify.evaluation import ImageAnswerEvaluation
from heedful.tasks.classify.image_models import ImageAnswerer
from heedful.tasks.loading import find_task

NAME: Final = "image_answers"
RESULT: Final = "answers"
PARTS: Final = ("scenes",)
FIGURES: Final = ("accuracy", "accuracy_seen", "accuracy_unseen", "accuracy_no_image", "accuracy_most_frequent")
SMALL: Final = "width = 16, heads = 2, layers = 1, inner = 16"
TINY: Final = (
    'data.train={ builtin = "scenes", questions = 4, count = 60 }',
    'data.valid={ builtin = "scenes", questions = 4, part = "valid", count = 20 }',
    'data.test={ builtin = "scenes", questions = 4, part = "test", count = 20 }',
    "data.batch_tokens=1500",
    'model.encoder={ family = "convolutional", stages = 3, depth = 1, width = 16, positions = "sinusoidal" }',
    f'model.question={{ family = "transformer", norm = "pre", {SMALL} }}',
    "train.steps=4", "train.device=cpu", "train.precision=float32", "train.log_every=1", "train.validation.every=4",
    "train.checkpoint_every=4", "train.schedule.warmup=1",
)  # fmt: skip


def recipe_of(seed: int, options: argparse.Namespace) -> Recipe:
    """Read the recipe with what the command line sets."""
    return load_recipe("scenes-answers", [f"train.seed={seed}", *(TINY if options.tiny else ()), *options.set])


class Cell(cells.Cell):
    """A seed."""

    program = f"images.{NAME}"
    passed = ()

    def measure(self) -> dict[str, Any]:
        """Train and evaluate."""
        recipe = recipe_of(self.seed, self.options)
        train(recipe, self.folder / "run", resume=True)
        model = ImageAnswerer.load(self.folder / "run")
        asked = {split: _asked(recipe, split) for split in ("test", "valid")}
        blank = [replace(each, image=replace(each.image, source=_blank())) for each in asked["test"]]
        test, valid, without = (model.evaluate_rows(each) for each in (asked["test"], asked["valid"], blank))
        unseen = [asks_unseen(question) for question in test.questions]
        usual = most_frequent(_asked(recipe, "train"))
        guessed = [usual.get(question.kind) == question.answer for question in test.questions]
        return {
            "accuracy": test.result.accuracy,
            "accuracy_seen": valid.result.accuracy,
            "accuracy_unseen": _share(_right(test), unseen),
            "accuracy_no_image": without.result.accuracy,
            "accuracy_most_frequent": _share(guessed),
            "questions": test.result.texts,
            "questions_unseen": sum(unseen),
            "kinds": _by_kind(test),
            "kinds_seen": _by_kind(valid),
            "kinds_no_image": _by_kind(without),
            **describe_training(self.folder / "run"),
            "machine": machine(),
        }


def _asked(recipe: Recipe, split: str) -> list[AskedImage]:
    corpora = getattr(recipe.data, split)
    return [asked for corpus in corpora for asked in read_asked_images(corpus, recipe.data.folder)]


def _blank() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full((64, 64, 3), BACKGROUND, np.uint8)


def asks_unseen(question: ImageQuestion) -> bool:
    """Whether a question names a pair that is not trained on, or makes one together with its answer."""
    words = {*question.question.split(), question.answer}
    asks = question.kind in ("colour", "shape", "size", "presence", "place", "neighbour")
    named = any(f"{colour} {shape} " in question.question for shape, colour in HELD_OUT)
    made = question.kind in ("colour", "shape") and any({shape, colour} <= words for shape, colour in HELD_OUT)
    return asks and (named or made)


def most_frequent(asked: Sequence[AskedImage]) -> dict[str, str]:
    """Return the most frequent answer to each kind of question."""
    counts: dict[str, Counter[str]] = {}
    for question in (question for each in asked for question in each.questions):
        counts.setdefault(question.kind, Counter())[question.answer] += 1
    return {kind: counter.most_common(1)[0][0] for kind, counter in counts.items()}


def _right(scored: ImageAnswerEvaluation) -> list[bool]:
    return [asked.answer == found.label for asked, found in zip(scored.questions, scored.found, strict=True)]


def _share(right: Sequence[bool], of: Sequence[bool] | None = None) -> float:
    chosen = [one for one, taken in zip(right, of or [True] * len(right), strict=True) if taken]
    return mean(chosen) if chosen else 0.0


def _by_kind(scored: ImageAnswerEvaluation) -> dict[str, float]:
    return {kind: round(right / count, 4) for kind, (right, count) in scored.by_kind().items()}


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figures of a part."""
    figures: dict[str, float] = {}
    for figure in FIGURES:
        figures |= cells.mean_over_seeds(figure, [one[figure] for one in found])
    return figures


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Draw the images, then train and evaluate every seed that is not known yet; return an exit code."""
    asked = [Cell(part, seed, options) for part in parts for seed in seeds]
    if any(cell.found() is None for cell in asked):
        recipe = recipe_of(seeds[0], options)
        find_task(recipe).prepare(recipe, None, lambda message: print(message, flush=True))
    return cells.measure_and_record(RESULT, asked, options, seeds, figures_of)


if __name__ == "__main__":
    cells.run_program(cells.make_parser(__doc__, NAME, PARTS), PARTS, Cell, run)
