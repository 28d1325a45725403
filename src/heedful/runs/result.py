"""What `heedful.train` returns: a run with its history, its best score and its model."""

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from heedful.base.arguments import check_path
from heedful.config.recipe import Recipe
from heedful.models.bundle import read_recipe
from heedful.models.own_parts import GivenTokenizer, NetworkBuilder
from heedful.runs.progress import recorded_metrics
from heedful.runs.run import CHECKPOINTS, higher_is_better
from heedful.tasks.loading import AnyLoadedModel, load
from heedful.tasks.shared.task import Task
from heedful.training.checkpoints import losses_break_ties
from heedful.training.trainer import is_better


class Run(PathLike[str]):
    """A training run, read from its folder; it can be used wherever a path can.

    `heedful.Run("runs/mine")` is also how to look at a run that another program trained.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        task: Task | None = None,
        *,
        network: NetworkBuilder | None = None,
        tokenizer: GivenTokenizer | None = None,
    ) -> None:
        self.folder = check_path("folder", folder)
        self._task, self._network, self._tokenizer = task, network, tokenizer

    def __fspath__(self) -> str:
        return str(self.folder)

    def __str__(self) -> str:
        return str(self.folder)

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def __repr__(self) -> str:
        score = "" if self.best_score is None else f", best {self.metric} {self.best_score:.4g}"
        best = f"{score} at step {self.best_step:,}" if self.best_step else ""
        return f"<Run {self.folder}: {self.steps:,} of {self.recipe.train.steps:,} steps{best}>"

    @cached_property
    def recipe(self) -> Recipe:
        """Recipe of the run, with all defaults."""
        return read_recipe(self.folder, None if self._task is None else self._task.rules)

    @cached_property
    def model(self) -> AnyLoadedModel:
        """Best model of the run, or the mean of its checkpoints where that is better; loaded when it is first used."""
        loaded: AnyLoadedModel = load(self.folder, task=self._task, network=self._network, tokenizer=self._tokenizer)
        return loaded

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Metrics that were logged while training, in order: step, epoch, loss, perplexity, learning_rate, ..."""
        return recorded_metrics(self.folder, "train")

    @cached_property
    def validations(self) -> list[dict[str, Any]]:
        """Scores of all validations in order: step, and a value for each metric."""
        return recorded_metrics(self.folder, "valid")

    @property
    def steps(self) -> int:
        """Number of the last step that was logged or validated."""
        return max((int(entry["step"]) for entry in (*self.history, *self.validations)), default=0)

    @property
    def metric(self) -> str:
        """Metric that decides which model is best: `train.validation.metric` of the recipe."""
        return self.recipe.train.validation.metric

    @property
    def best_score(self) -> float | None:
        """Score of the best single model; None if nothing was validated."""
        return self._best[0]

    @property
    def best_step(self) -> int | None:
        """Step of the best single model; None if nothing was validated."""
        return self._best[1]

    @cached_property
    def _best(self) -> tuple[float | None, int | None]:
        best: tuple[float | None, int | None] = None, None
        by_loss, best_loss = losses_break_ties(self.folder / CHECKPOINTS), None
        for entry in self.validations:
            score, loss = entry.get(self.metric), entry.get("loss") if by_loss else None
            if score is not None and is_better(score, best[0], higher_is_better(self.recipe), loss, best_loss):
                best, best_loss = (float(score), int(entry["step"])), loss
        return best
