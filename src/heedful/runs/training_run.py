"""Training of a model from a recipe into a run folder, from the start or from the last checkpoint."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from heedful.config.reading.load import flat, load_recipe, recipe_to_json
from heedful.config.reading.toml import shown
from heedful.config.recipe import Recipe
from heedful.errors import UserError
from heedful.files import find_leftovers, refuse_file_in_the_way
from heedful.models.bundle import CONFIG, WEIGHTS, read_description, write_description
from heedful.runs.fine_tuning import adapt
from heedful.runs.job import Job, first_job, set_up
from heedful.runs.progress import RunProgress
from heedful.runs.run import CHECKPOINTS, RunObserver
from heedful.tasks.protocol import Task
from heedful.training.checkpoints import last_checkpoint

# Keys that may differ in a resumed run: where and how long it runs, what it reports, how it translates.
_FREE_KEYS: Final = (
    "data.folder",
    "train.steps",
    "train.device",
    "train.compile",
    "train.capture",
    "train.log_every",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.average",
    "train.validation.patience",
    "decode",
    "evaluate",
)


def train(
    recipe: Recipe | str | Path,
    out: str | Path,
    overrides: Sequence[str] = (),
    resume: bool = False,
    console: Console | None = None,
    task: Task | None = None,
) -> Path:
    """Train a model and return its run folder, which `heedful.load` reads.

    With `resume`, continue from the run folder's last checkpoint, bit-identical to an uninterrupted run. `task` is one
    of your own, if what the model is trained for is not one of Heedful's tasks.
    """
    run = Path(out)
    if isinstance(recipe, Recipe) and overrides:
        raise TypeError("overrides change a recipe that is read from a file; give the changed Recipe instead")
    rules = None if task is None else task.rules
    resolved = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, overrides, rules)
    if resolved.train.start_from and resume and (run / CONFIG).exists():
        resolved = adapt(
            resolved, read_description(run, rules)[0]
        )  # keys that the recipe leaves to the start are in the run's own recipe
    checkpoint = _checkpoint_to_resume(run, resolved, resume)
    with RunProgress(console) as progress:
        set_up(resolved)
        if checkpoint:
            job = Job.prepare(resolved, read_description(run, rules)[1], progress, task)
            position = job.resume(checkpoint, progress)
            progress.say(f"Resuming {run} from step {position.step:,}, epoch {position.epoch + 1:,}")
        else:
            job = first_job(resolved, progress, task)
            position = job.begin()
        running = RunObserver(job, run, progress)
        if resume and not checkpoint:
            progress.say(f"{run} has no checkpoint: training starts from the beginning.")
        _clear(run)
        write_description(run, job.recipe, job.vocabularies)  # a resumed run may differ in `steps` or [decode]
        progress.begin(run, position.step)
        progress.say(job.description())
        running.to_the_end(position)
    return run


def _clear(run: Path) -> None:
    """Remove the partial files of a run that was killed while writing."""
    for folder in (run, run / CHECKPOINTS):
        for leftover in find_leftovers(folder):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def _checkpoint_to_resume(run: Path, recipe: Recipe, resume: bool) -> Path | None:
    """Return the checkpoint to resume from; refuse to overwrite a run, or to resume it with another recipe."""
    refuse_file_in_the_way(run)
    checkpoint = last_checkpoint(run / CHECKPOINTS)
    if checkpoint is None and (run / WEIGHTS).exists():
        raise UserError(f"{run} already holds a model, but no checkpoint to resume from: choose another --out.")
    if checkpoint and not resume:
        raise UserError(f"{run} already holds a run: add --resume to continue it, or choose another --out.")
    if checkpoint is None:
        return None
    old, new = map(_keys, (read_description(run, recipe.given_rules)[0], recipe))
    changed = sorted(
        key for key in old.keys() | new.keys() if old.get(key) != new.get(key) and not _within(key, _FREE_KEYS)
    )
    if changed:
        key = changed[0]
        raise UserError(
            f"{run} was trained with `{key}` = {shown(old.get(key))}, but the recipe says {shown(new.get(key))}"
            + (f" (and {len(changed) - 1} more keys differ)" if len(changed) > 1 else "")
            + ": resume with the same recipe, or train into another folder."
        )
    return checkpoint


def _keys(recipe: Recipe) -> dict[str, object]:
    """Return the values of a recipe by their paths, with the label smoothing that its task provides."""
    return {**flat(recipe_to_json(recipe)), "train.label_smoothing": recipe.label_smoothing}


def _within(key: str, keys: Sequence[str]) -> bool:
    return any(key == other or key.startswith(other + ".") for other in keys)
