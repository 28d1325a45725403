"""Finds settings of a run that cannot take effect before it ends."""

from collections.abc import Iterator

from heedful.base.errors import counted
from heedful.config.recipe import Recipe
from heedful.config.train.schedules import ExponentialWarmup, Wait
from heedful.config.train.table import Train
from heedful.doctor.findings import Finding, Severity


def find_schedule_problems(recipe: Recipe, updates: int | None = None) -> Iterator[Finding]:
    """Compare warm-up, validation, patience, checkpoints and averaging with the number of updates.

    `updates` is that of the run; it is known only after the data was read if the recipe sets `train.epochs`.
    """
    train = recipe.train
    if updates is None and train.epochs is not None:
        return
    steps = train.steps if updates is None else updates
    every, patience = train.validation.every, train.validation.patience
    yield from _find_late_warmup(train, steps)
    validations = -(-steps // every)  # the last update is always followed by one
    if recipe.data.valid and every > steps:
        yield _finding(
            "late_validation",
            f"the first of the validations every {every:,} updates comes after the run's {steps:,}",
            "Lower `train.validation.every`: with one validation, at the end, there is no best model to keep.",
            ("train.validation",),
        )
    elif recipe.data.valid and patience is not None and validations <= patience:
        yield _finding(
            "idle_patience",
            f"a patience of {patience:,} cannot stop a run with {counted(validations, 'validation')}",
            "Lower `train.validation.patience` or `train.validation.every`, or raise `train.steps`.",
            ("train.validation.patience",),
        )
    if patience is not None and not recipe.data.valid:
        yield _finding(
            "idle_patience",
            f"`train.validation.patience` is {patience:,}, but there is no `data.valid` to validate on",
            "Name a validation corpus, or leave the patience out.",
            ("train.validation.patience",),
        )
    saved = -(-steps // train.checkpoint_every)
    asked = 0 if train.average is None else train.average.last or train.average.best or 0
    if saved < asked:
        yield _finding(
            "few_checkpoints",
            f"{asked:,} checkpoints are to be averaged, but the run saves {saved:,}",
            "Lower `train.checkpoint_every` or `train.average`.",
            ("train.average",),
        )
    elif train.checkpoint_every > steps:
        yield _finding(
            "late_checkpoint",
            f"the first of the checkpoints every {train.checkpoint_every:,} updates comes after the run's {steps:,}",
            "Lower `train.checkpoint_every`: a run that is killed could not resume.",
            ("train.checkpoint_every",),
            "note",
        )


def _find_late_warmup(train: Train, steps: int) -> Iterator[Finding]:
    key, warmup = "schedule.warmup", train.schedule.warmup
    effect = "the learning rate never reaches its maximum"
    if train.warmup is not None:
        key, warmup = "warmup.steps", getattr(train.warmup, "steps", 0)
        if isinstance(train.warmup, Wait):
            effect = "no weight changes before the warm-up ends"
        elif isinstance(train.warmup, ExponentialWarmup):
            effect = "the learning rate stays below two thirds of its maximum"  # 1 - 1/e of it
    if warmup >= steps:
        yield _finding(
            "warmup",
            f"the warm-up takes {warmup:,} updates, but the run has {steps:,}",
            f"Lower `train.{key}` or raise `train.steps`: {effect}.",
            ("train.schedule", "train.warmup", "train.steps", "train.epochs"),
        )


def _finding(kind: str, what: str, advice: str, keys: tuple[str, ...], severity: Severity = "warning") -> Finding:
    return Finding(severity, kind, "run", what, advice, keys=keys)
