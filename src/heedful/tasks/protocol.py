"""What a run asks of the thing that its model is trained for: translating, classifying, or filling masks."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import torch

from heedful.config import tasks
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import StaticShape
from heedful.data.epochs.loader import TrainingFeed
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.tasks.classify.task import ClassifyTask
from heedful.tasks.fill.task import FillTask
from heedful.tasks.translate.task import TranslateTask
from heedful.training.objectives import Objective

Judging = Callable[[], Mapping[str, float]]


class Task(Protocol):
    """From a recipe to its data, its objective, its batches and its judge."""

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; vocabularies and classes that are given are kept."""
        ...

    def objective(self, recipe: Recipe, prepared: Prepared) -> Objective[Any]:
        """What training minimises."""
        ...

    def feed(self, recipe: Recipe, prepared: Prepared) -> TrainingFeed[Any]:
        """Return the training batches, ragged: `placed` gives them the form that a device wants."""
        ...

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """The one shape of a GPU's batches, where attention runs straight on it."""
        ...

    def judge(self, bundle: Bundle[Any], prepared: Prepared) -> Judging:
        """What scores the model in training; the recipe's metric comes first."""
        ...

    def tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """The tokens of an epoch, as speed counts them."""
        ...


TASKS: Final[Mapping[tasks.Task, Task]] = {
    "translate": TranslateTask(),
    "classify": ClassifyTask(),
    "fill": FillTask(),
}
