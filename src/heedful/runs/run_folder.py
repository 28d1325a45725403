"""The folder of a run: who trains in it, what it holds, and how a run begins in it.

Whatever moment a run ends at, its folder is in one of these states:

    nothing, or files that are not ours     a run begins
    last.json names no checkpoint           a run began and saved nothing: it begins again
    there is a checkpoint                   a run resumes from it
    a model, and no last.json               a finished, averaged or imported model: never trained over
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from filelock import FileLock, Timeout

from heedful.base.errors import WRITING_FAULTS, UserError, by_caller, machine_faults, user_faults
from heedful.base.files import make_folder, read_bytes, refuse_special_file, remove_folder, remove_leftovers
from heedful.config.reading.load import flat, recipe_to_json
from heedful.config.reading.toml import shown
from heedful.config.recipe import Recipe
from heedful.data.corpora.in_memory import hash_of_rows
from heedful.models.bundle import ADAPTER, CONFIG, WEIGHTS, base_of, own_network_of, read_recipe
from heedful.models.own_parts import handed_over
from heedful.models.weights import tensors_from_bytes
from heedful.runs.fine_tuning import adapt
from heedful.runs.run import CHECKPOINTS, MEAN, SINGLE
from heedful.training.checkpoints import Position, begin_checkpoints, has_only_begun, last_checkpoint

LOCK: Final = ".lock"  # held by the process that trains; the system releases it when the process ends, however it ends

# Keys that may differ in a resumed run: where and how long it runs, what it reports, how it translates.
_MODELS: Final = (WEIGHTS, ADAPTER)  # what a finished run has one of
_WRITTEN: Final = (".safetensors", ".json", ".md")  # how files of a run end that training writes, and no log
_FREE_KEYS: Final = (
    "data.folder",
    "train.steps",
    "train.epochs",
    "train.device",
    "train.compile",
    "train.capture",
    "train.log_every",
    "train.instruments",
    "train.not_finite",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.report",
    "train.average",
    "train.validation.patience",
    "decode",
    "evaluate",
)


class RunLock:
    """The right to train into a folder, which one process has at a time.

    A folder that is there is locked when the block begins; a new one is created, and locked, by `take`, so that a run
    that is refused leaves no folder behind.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._lock = FileLock(run / LOCK, thread_local=False)

    def __enter__(self) -> Self:
        if self._run.is_dir():
            self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def take(self) -> bool:
        """Lock the folder, and create it if it is not there; return whether this process did not have it already."""
        if self._lock.is_locked:
            return False
        with machine_faults(self._run), user_faults(self._run, WRITING_FAULTS):
            make_folder(self._run)
            _refuse_links_outside(self._run)
            for path in self._run.iterdir():  # logs may be pipes, which are left out; what is written would wait
                if path.suffix in _WRITTEN and not path.is_symlink():
                    refuse_special_file(path)
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise UserError(
                    f"{self._run} is in use: another process is training there. Wait for its end, or choose another "
                    f"{by_caller('--out', 'folder')}."
                ) from error
        return True


def _refuse_links_outside(run: Path) -> None:
    """Refuse links to files elsewhere, which training would change: a run's folder may have been downloaded.

    `checkpoints` may be a link, to a larger disk, and so may a checkpoint, which is never written to again.
    """
    saved = run / CHECKPOINTS
    homes = {Path(os.path.realpath(folder)) for folder in (run, saved)}
    own = (path for path in run.iterdir() if path != saved)
    for path in (*own, *(path for path in saved.glob("*") if not path.is_dir())):
        target = Path(os.path.realpath(path))
        if path.is_symlink() and not homes & {*target.parents}:
            raise UserError(
                f"{path} is a link to {target}, which is outside of the run's folder, and training would change it: "
                "remove the link, or put a copy in its place."
            )


def find_checkpoint(run: Path, recipe: Recipe, resume: bool) -> Path | None:
    """Return the checkpoint to resume from; refuse to overwrite a model, or to resume a run with another recipe."""
    checkpoint = last_checkpoint(run / CHECKPOINTS)
    begun, another = has_only_begun(run / CHECKPOINTS), by_caller("--out", "folder")
    folders = [run] if begun else [run, run / SINGLE, run / MEAN]
    models = [folder / name for folder in folders for name in _MODELS]
    if checkpoint is None and not any(model.exists() for model in models):
        return None
    if checkpoint is None and not begun:
        raise UserError(f"{run} already holds a model, but no checkpoint to resume from: choose another {another}.")
    if not resume:
        again = "start it again" if begun else "continue it"
        how = by_caller("--resume", "`resume=True`")
        raise UserError(f"{run} already holds a run: add {how} to {again}, or choose another {another}.")
    _refuse_other_recipe(run, recipe)
    return checkpoint


def begin_run(run: Path) -> None:
    """Prepare a folder for a run that starts from the beginning; whenever this ends, it can be called again."""
    begin_checkpoints(run / CHECKPOINTS)  # first: what is removed and written from here on is known to be a beginning
    with machine_faults(run):
        for name in (*_MODELS, CONFIG):  # the config last: it says what the weights are
            (run / name).unlink(missing_ok=True)


def clear_begun(run: Path) -> None:
    """Empty the folder of a run that ended before its first checkpoint; refuse one in which a process trains.

    The lock stays: a process that waits for it must not get another one.
    """
    with RunLock(run), machine_faults(run):
        if not run.is_dir() or last_checkpoint(run / CHECKPOINTS) is not None:
            return
        for path in [path for path in run.iterdir() if path.name != LOCK]:
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            else:
                path.unlink()


def clear(run: Path) -> None:
    """Remove the partial files of a run that was killed while writing."""
    for folder in (run, run / CHECKPOINTS):
        remove_leftovers(folder)


def forget_lost_model(run: Path, position: Position, steps: int, say: Callable[[str], None]) -> None:
    """Let the next validated model be the best, if the one that a checkpoint calls the best is missing or damaged."""
    name = WEIGHTS if base_of(run) is None else ADAPTER
    file = next((path for path in (run / SINGLE / name, run / name) if path.exists()), run / name)
    if position.best_step is None:
        return
    try:
        tensors_from_bytes(read_bytes(file), file)
    except UserError as error:
        damage = "is damaged" if file.exists() else "is missing"
        if position.step >= steps:
            call = f'heedful.average(["{run}"], ..., last=1)'
            command = by_caller(f"heedful average {run} --last 1 --out ...", call)
            raise UserError(
                f"{file} {damage}, and there is nothing left to train: restore it from a copy, or make a model of the "
                f"last checkpoint with `{command}`."
            ) from error
        say(
            f"{file} {damage}: the best model so far, of step {position.best_step:,}, is lost; the next one replaces it"
        )
        position.best_step = position.best_score = position.best_loss = None
        position.worse_since = 0


def resumed_recipe(run: Path, recipe: Recipe) -> Recipe:
    """Return the recipe of a run that is resumed: keys that it leaves to `start_from` are in the run's own recipe.

    So is the [tokenizer] table that it leaves to a teacher.
    """
    if recipe.train.start_from:
        return adapt(recipe, read_recipe(run, recipe.given_rules))
    if recipe.train.distill is not None and "tokenizer" not in recipe.model_fields_set:
        return recipe.with_tokenizer(read_recipe(run, recipe.given_rules).tokenizer)
    return recipe


def _refuse_other_recipe(run: Path, recipe: Recipe) -> None:
    own, given = own_network_of(run), handed_over().network_name
    if (own is None) != (given is None):
        with_ = "without a network of its own: leave it out" if own is None else f"with `network={own}`: pass it again"
        raise UserError(f"{run} was trained {with_}, or train into another folder.")
    old, new = map(_keys, (read_recipe(run, recipe.given_rules), resumed_recipe(run, recipe)))
    changed = sorted(
        key
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key) and not any(f"{key}.".startswith(f"{free}.") for free in _FREE_KEYS)
    )
    if changed:
        key = changed[0]
        raise UserError(
            f"{run} was trained with `{key}` = {shown(old.get(key))}, but the recipe says {shown(new.get(key))}"
            + (f" (and {len(changed) - 1} more keys differ)" if len(changed) > 1 else "")
            + ": resume with the same recipe, or train into another folder."
        )


def _keys(recipe: Recipe) -> dict[str, object]:
    """Return the values of a recipe by their paths, with the label smoothing that its task provides.

    Corpora that were given in memory are known by their hash, not by where the cache was at the time.
    """
    values = {key: hash_of_rows(value) or value for key, value in flat(recipe_to_json(recipe)).items()}
    metric = recipe.train.validation.metric
    if metric in recipe.rules.own_metrics:
        values["train.validation.metric"] = f"{metric} ({recipe.rules.metrics[metric]} is better)"
    return {**values, "train.label_smoothing": recipe.label_smoothing}
