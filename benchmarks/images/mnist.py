"""Handwritten digits by the recipe that ships with Heedful, by convolutions, with fewer images, and fine-tuned.

    python -m benchmarks.images.mnist --data MNIST [--parts A,B] [--seeds 1,2,3] [--jobs 7]
    python -m benchmarks.images.mnist --data MNIST --tiny

MNIST holds the four idx files of its publisher, packed. Scores are those of the 10,000 test images; the last 5,000
training images choose the checkpoint. Each part with each seed is trained and evaluated in a process of its own,
`--jobs` of them side by side.

vit         recipes/mnist.toml: a Vision Transformer with a convolutional stem
cnn         a convolutional network in its place, with the same augmentation
*_600       with 600 of the training images
*_6000      with 6,000 of them
finetuned   the Vision Transformer trained with images of 14 x 14 pixels, then tuned with 28 x 28

Records mnist.json: `accuracy`, `accuracy_cnn`, `accuracy_600`, `accuracy_6000`, `accuracy_cnn_600`, `accuracy_cnn_6000`
and `accuracy_finetuned` (means over seeds); in `details` the values of each seed, with minutes and speed. --tiny takes
a few images and steps on a CPU, to see that it works, and records nothing.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.shared import cells

from heedful.cli.verbs.evaluate import describe_training
from heedful.config.reading.load import load_recipe
from heedful.metrics.recorded_results import machine
from heedful.runs.training_run import train
from heedful.tasks.evaluate import evaluate

NAME: Final = "mnist"
FIGURES: Final[Mapping[str, str]] = {  # the figure of each part
    "vit": "accuracy",
    "cnn": "accuracy_cnn",
    "vit_600": "accuracy_600",
    "vit_6000": "accuracy_6000",
    "cnn_600": "accuracy_cnn_600",
    "cnn_6000": "accuracy_cnn_6000",
    "finetuned": "accuracy_finetuned",
}
PARTS: Final = tuple(FIGURES)
CNN: Final = (
    'model.encoder={ family = "convolutional", channels = 1, width = 256, stages = 3, depth = 2 }',
    "data.batch_tokens=8192",
)
FILES: Final = 'idx = "train-images-idx3-ubyte.gz", labels = "train-labels-idx1-ubyte.gz", lines = "1-55000"'
# Fewer images in smaller batches, so that there are some thousand updates all the same: batches of 64 and of 128.
EPOCHS: Final[Mapping[int, int]] = {600: 300, 6000: 80}
IMAGES: Final[Mapping[int, int]] = {600: 64, 6000: 128}
SMALL: Final = ("data.images={ height = 14 }", "model.encoder.patch=2")  # 7 x 7 patches, as many as the positions
TUNED: Final = (
    "model.encoder.patch=2", "train.epochs=10", 'train.schedule={ kind = "cosine", lr = 0.0003, warmup = 300 }',
)  # fmt: skip
TINY: Final = (
    "train.epochs=1", "train.device=cpu", "train.precision=float32", "train.log_every=1", "train.validation.every=3",
    "train.checkpoint_every=3", "train.schedule.warmup=1", "train.validation.max_sentences=20",
)  # fmt: skip
TINY_IMAGES: Final = 40
TINY_VIT: Final = (
    "model.encoder.width=16",
    "model.encoder.heads=2",
    "model.encoder.layers=1",
    "model.encoder.inner=16",
)
TINY_CNN: Final = ("model.encoder.width=16",)


class Cell(cells.Cell):
    """A part with a seed."""

    program = f"images.{NAME}"

    def measure(self) -> dict[str, Any]:
        """Train and evaluate."""
        network, _, count = self.part.partition("_")
        if network == "finetuned":
            small = self._train("small", SMALL)
            made = self._train("run", [*TUNED, f"train.start_from={small}"])
        else:
            made = self._train("run", [*(CNN if network == "cnn" else ()), *_fewer(network, int(count or 0))])
        (scored,) = evaluate(made).values()
        scores = {score.name: score.value for score in scored.scores()}
        return {**scores, **describe_training(made), "machine": machine()}

    def _train(self, name: str, settings: Sequence[str]) -> Path:
        given = [f"data.folder={self.options.data}", f"train.seed={self.seed}", *settings]
        if self.options.tiny:
            given += [*TINY, *(TINY_CNN if self.part.startswith("cnn") else TINY_VIT)]
            given.append(f"data.train={{ {FILES}, sample = {TINY_IMAGES} }}")
            given.append('data.test={ idx = "t10k-images-idx3-ubyte.gz", labels = "t10k-labels-idx1-ubyte.gz", '
                         'lines = "1-50" }')  # fmt: skip
        run = self.folder / name
        train(load_recipe("mnist", [*given, *self.options.set]), run, resume=True)
        return run


def _fewer(network: str, count: int) -> list[str]:
    """Return the settings for a number of training images; none for all of them."""
    if not count:
        return []
    tokens = 16 if network == "cnn" else 50  # of an image
    return [
        f"data.train={{ {FILES}, sample = {count} }}",
        f"data.batch_tokens={tokens * IMAGES[count]}",
        f"train.epochs={EPOCHS[count]}",
    ]


def figures_of(part: str, found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figure of a part."""
    return cells.mean_over_seeds(FIGURES[part], [one["accuracy"] for one in found])


def run(options: argparse.Namespace, parts: Sequence[str], seeds: Sequence[int]) -> int:
    """Train and evaluate every cell that is not known yet; return an exit code."""
    asked = [Cell(part, seed, options) for part in parts for seed in seeds]
    return cells.measure_and_record(NAME, asked, options, seeds, figures_of)


if __name__ == "__main__":
    parser = cells.make_parser(__doc__, NAME, PARTS)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="MNIST's files")
    cells.run_program(parser, PARTS, Cell, run)
