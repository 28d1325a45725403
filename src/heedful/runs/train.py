"""`heedful.train`: trains a model from a recipe in any form, and returns the `Run`."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any

from rich.console import Console

from heedful.base.arguments import check_path
from heedful.base.errors import UserError
from heedful.config.corpora.roles import ROLES
from heedful.config.reading.load import RecipeSource, find_recipe_rules, load_recipe
from heedful.config.recipe import Recipe
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.in_memory import refuse_lost_rows, spool
from heedful.doctor.at_start import warnings_at_start
from heedful.metrics.own_metrics import GivenMetrics, check_metrics
from heedful.models.bundle import read_recipe
from heedful.models.own_parts import GivenTokenizer, NetworkBuilder, OwnParts
from heedful.runs import training_run
from heedful.runs.callbacks import Callback
from heedful.runs.progress import recorded_metrics
from heedful.runs.run import CHECKPOINTS, higher_is_better
from heedful.runs.training_run import recipe_of_run
from heedful.tasks.loading import load
from heedful.tasks.shared.loaded_model import LoadedModel
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
    def model(self) -> LoadedModel[Any]:
        """Best model of the run, or the mean of its checkpoints where that is better; loaded when it is first used."""
        loaded: LoadedModel[Any] = load(self.folder, task=self._task, network=self._network, tokenizer=self._tokenizer)
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


def train(
    recipe: Recipe | Mapping[str, Any] | str | PathLike[str],
    out: str | PathLike[str],
    overrides: Sequence[str] | Mapping[str, Any] = (),
    resume: bool = False,
    console: Console | None = None,
    task: Task | None = None,
    *,
    train: object = None,
    valid: object = None,
    test: object = None,
    network: NetworkBuilder | None = None,
    tokenizer: GivenTokenizer | None = None,
    metrics: GivenMetrics | None = None,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> Run:
    """Train a model into the folder `out`, and return the run: its history, best score and model.

    recipe: A TOML file, the name of a shipped recipe, a dictionary of the same form, or a `heedful.Recipe`.
    overrides: Keys of the recipe to change: {"train.steps": 1000}, or ["train.steps=1000"].
    resume: Continue from the last checkpoint in the folder, bit-identical to a run that was never interrupted.
    console: Where progress is shown, if not on standard error or in the notebook.
    task: A task of your own, if the model is trained for something that is not one of Heedful's tasks.
    train, valid, test: Corpora in memory, instead of those of the recipe: a list of (source, target) or (text, label)
        pairs, of dictionaries, or of texts; a dictionary of columns; a frame of pandas or polars; a `datasets` data
        set. Columns are `source` and `target`, or `text`, `label` and optionally `second`. Without `valid`, some rows
        are held out as validation data, unless it is `[]`.
    network: A function of your own, `network(recipe, vocabularies)`, that returns the module to train instead of the
        one that [model] describes. Such a model is loaded with it too: `heedful.load(out, network=...)`.
    tokenizer: A tokenizer of your own instead of a trained one: a `tokenizers.Tokenizer`, an object with the methods of
        `heedful.TextTokenizer`, or for each vocabulary one by name: {"source": ..., "target": ...}.
    metrics: Functions of your own by name that score validations, and that `train.validation.metric` can name: see
        `heedful.Metric`.
    callbacks: Objects that are called while the model trains, and that can stop it: see `heedful.Callback`.
    quiet: Show nothing, not even what looks wrong in the data of a new run.
    """
    folder = check_path("out", out)
    rules = None if task is None else task.rules
    given = {"train": train, "valid": valid, "test": test}
    needed = find_recipe_rules(recipe, overrides, rules)
    own_metrics = check_metrics(metrics, needed)
    if own_metrics:
        rules = needed.with_metrics({name: metric.better for name, metric in own_metrics.items()})
    _check_before_data(recipe, overrides, rules, needed, [split for split, rows in given.items() if rows is not None])
    corpora: dict[str, object] = {
        split: [] if split == "valid" and isinstance(rows, list | tuple) and not rows else spool(rows, needed, split)
        for split, rows in given.items()
        if rows is not None
    }
    as_it_is = isinstance(recipe, Recipe) and not (overrides or corpora or own_metrics)
    resolved = recipe if isinstance(recipe, Recipe) and as_it_is else load_recipe(recipe, overrides, rules, corpora)
    refuse_lost_rows(resolved.data)
    resolved = recipe_of_run(folder, resolved, resume)
    shown = Console(file=StringIO(), quiet=True) if quiet else console
    named = str(recipe) if isinstance(recipe, str | PathLike) and not (overrides or corpora) else None
    trained = training_run.train(
        resolved,
        folder,
        resume=resume,
        console=shown,
        task=task,
        callbacks=callbacks,
        metrics=own_metrics,
        own=OwnParts.of(network, tokenizer),
        warnings=lambda: () if quiet else warnings_at_start(resolved, named),
    )
    return Run(trained, task, network=network, tokenizer=tokenizer)


def _check_before_data(
    recipe: RecipeSource,
    overrides: Sequence[str] | Mapping[str, Any],
    rules: TaskRules | None,
    needed: TaskRules,
    given: Sequence[str],
) -> None:
    """Refuse a wrong recipe before the rows that it is given are read: a corpus of the same roles stands in for them.

    Whether the rows have optional roles, such as a second text, is not known yet.
    """
    form, errors = needed.roles[0], list[UserError]()
    if not given or not set(form.read) <= set(ROLES):
        return
    for roles in (form.needed, form.read):
        stand_in = {"jsonl": "rows", **{role: role for role in roles}}
        try:
            load_recipe(recipe, overrides, rules, dict.fromkeys(given, stand_in))
        except UserError as error:
            errors.append(error)
    if len(errors) == 2:
        raise errors[0]
