"""Captions of scenes by the recipes that ship with Heedful: a Transformer, recurrent attention, and hard attention.

    python -m benchmarks.images.captions [--parts A,B] [--seeds 1,2,3] [--jobs 9]
    python -m benchmarks.images.captions --tiny

It needs no data: scenes come from the generator. Each part with each seed is trained and evaluated in a process of its
own, `--jobs` of them side by side; the scenes are drawn once, before the first. Captions are the most likely words, one
after the other (greedy search).

transformer   recipes/scenes-captions.toml
recurrent     recipes/scenes-captions-recurrent.toml, with soft attention
hard          that model trained further with hard attention by REINFORCE; from scratch one run of three learned

Records captions.json, means over seeds: `exact_match`, the share of captions that are exactly right, of images with
pairs of shape and colour that never occur in training, and `exact_match_seen`, of images without; both by the
Transformer. `exact_match_recurrent` and `exact_match_hard` are of unseen pairs. `pointing` is the share of the words
"small red star" in exact captions of the Transformer whose attended patch, the one with the greatest weight in the
first layer of two, has some of that shape in it; `pointing_recurrent` and `pointing_hard` are of the other two. In
`details` the values of each seed, with minutes and speed. --tiny takes a few images and steps on a CPU, to see that
it works, and records nothing.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.shared import cells

from heedful.cli.verbs.evaluate import describe_training
from heedful.config.model.mixed import CaptionerModel
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.data.builtin.scenes import Scene
from heedful.data.builtin.scenes_drawing import coverage
from heedful.data.corpora.images import read_captioned
from heedful.metrics.recorded_results import machine
from heedful.runs.training_run import train
from heedful.tasks.caption.caption import Caption
from heedful.tasks.caption.data import prepare_captions
from heedful.tasks.caption.model import Captioner

NAME: Final = "captions"
RECURRENT: Final = "scenes-captions-recurrent"
PARTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {  # the recipe of each part, and what is set otherwise
    "transformer": ("scenes-captions", ()),
    "recurrent": (RECURRENT, ()),
    "hard": (RECURRENT, ("model.decoder.choice=reinforce", "train.steps=1000", "train.schedule.lr=0.0005")),
}
STARTS: Final[Mapping[str, str]] = {"hard": "recurrent"}  # parts that begin with the model of another
FIGURES: Final[Mapping[str, Mapping[str, str]]] = {  # for each part the figure of each of its values
    "transformer": {"unseen": "exact_match", "seen": "exact_match_seen", "pointing": "pointing"},
    "recurrent": {
        "unseen": "exact_match_recurrent",
        "seen": "exact_match_recurrent_seen",
        "pointing": "pointing_recurrent",
    },
    "hard": {"unseen": "exact_match_hard", "seen": "exact_match_hard_seen", "pointing": "pointing_hard"},
}
TINY: Final = (
    "train.steps=3", "train.device=cpu", "train.precision=float32", "train.log_every=1", "train.validation.every=3",
    "train.checkpoint_every=3", "train.schedule.warmup=1", "data.batch_tokens=1024", "model.encoder.width=16",
    "model.decoder.width=16", 'data.train={ builtin = "scenes", count = 40 }',
    'data.valid={ builtin = "scenes", part = "valid", count = 5 }',
    'data.test=[{ builtin = "scenes", part = "valid", count = 5, name = "seen" }, '
    '{ builtin = "scenes", part = "test", count = 5, name = "unseen" }]',
)  # fmt: skip
SIDE: Final = 64  # pixels of a scene


class Cell(cells.Cell):
    """A part with a seed."""

    program = f"images.{NAME}"
    passed = ()

    def recipe(self) -> Recipe:
        """Return the recipe of the part, with the seed."""
        name, settings = PARTS[self.part]
        start = [f"train.start_from={self.start.run_folder.absolute()}"] if self.start else []
        tiny = TINY if self.options.tiny else ()
        return load_recipe(name, [f"train.seed={self.seed}", *settings, *start, *tiny, *self.options.set])

    @property
    def start(self) -> "Cell | None":
        """The cell whose model this one begins with."""
        return Cell(STARTS[self.part], self.seed, self.options) if self.part in STARTS else None

    @property
    def run_folder(self) -> Path:
        """The folder of the trained captioner."""
        return self.folder / "run"

    def train(self) -> None:
        """Train, after the model that this one begins with where it is not there yet."""
        if self.start is not None and self.start.found() is None:
            self.start.train()
        train(self.recipe(), self.run_folder, resume=True)

    def measure(self) -> dict[str, Any]:
        """Train, describe the images of both test sets, and compare."""
        self.train()
        scores = score(self.run_folder, self.recipe(), "cpu" if self.options.tiny else "auto")
        return {**scores, **describe_training(self.run_folder), "machine": machine()}


def score(run: Path, recipe: Recipe, device: str) -> dict[str, float]:
    """Return the share of exact captions of each test set, and how often the decoder looked where its words point."""
    model, patch = Captioner.load(run, device), model_of(recipe, CaptionerModel).encoder.patch
    found: dict[str, float] = {}
    hits: list[bool] = []
    for corpus in recipe.data.test:
        rows = list(read_captioned(corpus))
        scored = model.evaluate_rows(rows, name=corpus.title, beam=1, aligned=True)
        found[corpus.name] = scored.exact_match
        for row, caption in zip(rows, scored.best, strict=True):
            assert isinstance(row.image.source, Scene)
            hits += pointed(row.image.source, caption, patch)
    return {**found, "pointing": sum(hits) / len(hits) if hits else 0.0, "pointed": len(hits)}


def pointed(scene: Scene, caption: Caption, patch: int) -> list[bool]:
    """Return for each word of a thing, in an exact caption, whether the patch that it attended to shows the thing."""
    if caption.text != scene.sentence or caption.patches is None:
        return []
    covers = [coverage(thing, SIDE) for thing in scene.things]
    hits = []
    for number, at in zip(scene.named(), caption.patches, strict=True):
        if number is not None:
            rows, columns = (slice(place * patch, (place + 1) * patch) for place in at or (0, 0))
            hits.append(at is not None and bool(covers[number][rows, columns].max() > 0))
    return hits


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figures of a part."""
    figures: dict[str, float] = {}
    for value, figure in FIGURES[part].items():
        figures |= cells.mean_over_seeds(figure, [one[value] for one in found])
    return figures


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate every cell that is not known yet; return an exit code."""
    asked = [Cell(part, seed, options) for part in parts for seed in seeds]
    for recipe in {str(PARTS[cell.part][0]): cell.recipe() for cell in asked if cell.found() is None}.values():
        prepare_captions(recipe, print)  # drawn once, and not by every process
    return cells.measure_and_record(NAME, asked, options, seeds, figures_of)


if __name__ == "__main__":
    cells.run_program(cells.make_parser(__doc__, NAME, tuple(PARTS)), tuple(PARTS), Cell, run)
