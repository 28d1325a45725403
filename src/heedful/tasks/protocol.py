"""What a task is asked: by a run, by `heedful.load`, and by the command line.

The torch-free half of a task is its `rules` (`config.tasks`). A task from outside Heedful is passed to `heedful.train`
and `heedful.load`; the others are in `tasks.table`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch

from heedful.config.corpora import AnyCorpus
from heedful.config.recipe import Recipe
from heedful.config.rules.task_rules import TaskRules
from heedful.data.batch_layout import StaticShape
from heedful.data.epochs.loader import TrainingFeed
from heedful.data.prepare.prepared import Prepared
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.metrics.scores import Score
from heedful.models.bundle import Bundle
from heedful.tasks.shared.loaded_model import LoadedModel
from heedful.tasks.shared.placement import Placement
from heedful.training.objectives import Objective

Validator = Callable[[], Mapping[str, float]]  # all scores; the first decides which model is best
# Shows the progress of some work ("translating") over a number of items; the function is told how many were finished.
ShowProgress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def show_nothing(work: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Progress that nobody sees."""
    return nullcontext(lambda finished: None)


class Evaluation(Protocol):
    """The scores of a model on one corpus, in every form that is asked for."""

    def scores(self) -> Sequence[Score]:
        """Figures to show, to record and to average over models."""
        ...

    def remarks(self) -> Sequence[str]:
        """Lines that a person reads after the scores."""
        ...

    def to_json(self) -> Mapping[str, object]:
        """Everything, as JSON values."""
        ...

    def outputs(self) -> Iterator[str]:
        """What the model said, one line per text."""
        ...


class Task(Protocol):
    """From a recipe to its data, objective, batches and validation; from a bundle to a model in use and its scores."""

    @property
    def rules(self) -> TaskRules:
        """What recipes of the task may say, and what its models are called."""
        ...

    def prepare(self, recipe: Recipe, given: Vocabularies | None, say: Callable[[str], None]) -> Prepared:
        """Read the data; vocabularies and classes that are given are kept."""
        ...

    def objective(self, recipe: Recipe, prepared: Prepared) -> Objective[Any]:
        """Make what training minimises."""
        ...

    def feed(self, recipe: Recipe, prepared: Prepared) -> TrainingFeed[Any]:
        """Make the training batches, ragged: `placed` gives them the form that a device wants."""
        ...

    def static_shape(self, recipe: Recipe, precision: torch.dtype) -> StaticShape | None:
        """The one shape of a GPU's batches, where attention needs no padding; None where batches stay ragged."""
        ...

    def validator(self, bundle: Bundle[Any], prepared: Prepared) -> Validator:
        """Make what scores the model during training; the recipe's metric comes first."""
        ...

    def epoch_tokens(self, recipe: Recipe, prepared: Prepared) -> float:
        """Count the tokens of an epoch, as speed counts them."""
        ...

    def load(self, folder: Path, placement: Placement, ensemble: Sequence[Path] = ()) -> LoadedModel[Any]:
        """Read a bundle as a model to use; an ensemble is for tasks that search."""
        ...

    def usage(self, recipe: Recipe, folder: Path) -> tuple[str, str]:
        """How to use such a model: a command, and a call in Python on `model`."""
        ...

    def evaluate(
        self,
        model: Any,
        corpus: AnyCorpus,
        folder: str = "",
        options: Mapping[str, Any] | None = None,
        show: ShowProgress = show_nothing,
    ) -> Evaluation:
        """Score a loaded model on a corpus whose files are in `folder`; `options` are of the search."""
        ...
