"""Defaults of regressors of images: a small convolutional network, for as many images as fit into hours."""

from collections.abc import Iterator
from typing import Any, Final

from heedful.config.model.pooled import ImageRegressorModel
from heedful.config.task_rules import Tables
from heedful.data.corpora.images import read_images
from heedful.defaults.facts import Row
from heedful.defaults.rules import Case, Rule, TaskDefaults

_STAGES: Final = 3
_TOGETHER: Final = 64  # images of a batch
_LARGEST: Final = 128  # pixels on a side: larger images are resized
_EPOCHS, _LEAST_UPDATES, _MOST_UPDATES = 30, 1_000, 20_000


class ImageCase(Case):
    """A regressor of images."""

    @property
    def side(self) -> float:
        """Pixels on a side of an image, about, as the model reads it."""
        height = self.value("data.images.height") or self.value("data.images.width")
        return float(height or (self.facts.size / self.facts.rows) ** 0.5)

    @property
    def convolutions(self) -> bool:
        """Whether a convolutional network is chosen: no key describes another one."""
        return not self.facts.more and not self.sets("model.encoder")

    @property
    def stages(self) -> int:
        """Stages of the network, each of which halves an image: fewer for tiny images."""
        return max(1, min(_STAGES, int(self.side / 2).bit_length() - 1))

    @property
    def patches(self) -> int:
        """Patches of an image, about."""
        return max(1, round(self.side / 2**self.stages)) ** 2


def _resized(case: ImageCase) -> bool:
    return not case.sets("data.images") and case.side > _LARGEST


def _updates(case: ImageCase) -> int:
    return min(_MOST_UPDATES, max(_LEAST_UPDATES, int(round(_EPOCHS * case.facts.rows / _TOGETHER, -1))))


def _optimizer(case: ImageCase) -> dict[str, Any]:
    return {"kind": "adamw", "weight_decay": 0.05}


def _rows(recipe: Tables) -> Iterator[Row]:
    """Yield the size of the first image of each corpus for all of them: to read every file would take minutes."""
    for corpus in recipe.data.train:
        size = 0
        for image in read_images(corpus, recipe.data.folder):
            if not size:
                height, width, _ = image.pixels(3).shape
                size = height * width
            yield Row(size)


IMAGES: Final = TaskDefaults(
    models=(ImageRegressorModel,),
    noun="images",
    rows=_rows,
    case=ImageCase,
    rules=(
        Rule("data.images.height", _resized, lambda case: _LARGEST),
        Rule(
            "model.encoder",
            lambda case: case.convolutions,
            lambda case: {"family": "convolutional", "width": 128, "stages": case.stages, "depth": 2},
        ),
        Rule("data.batch_tokens", lambda case: case.convolutions, lambda case: _TOGETHER * case.patches),
        Rule("train.steps", lambda case: case.convolutions and case.open_ended, _updates),
        Rule("train.optimizer", lambda case: case.convolutions, _optimizer),
        Rule("train.clip_norm", lambda case: case.convolutions, lambda case: 1.0),
        Rule(
            "train.schedule",
            lambda case: case.convolutions,
            lambda case: {"kind": "cosine", "lr": 0.002, "warmup": case.warmup},
        ),
    ),
)
