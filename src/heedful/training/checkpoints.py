"""Checkpoints: weights, optimizer state and position, written as a whole and verified when read.

    checkpoints/step-00001000/model.safetensors optimizer.safetensors position.json manifest.json
                              objective.safetensors      only if the objective carries a state from batch to batch
    checkpoints/last.json     {"folder": "step-00001000"}, written last; {"folder": null} in a run that has begun and
                              has not saved yet

A checkpoint is used only if all of its files have the hashes of its manifest. If the last one is damaged, a run resumes
from the one before: two are kept by default.

Other files and folders there are the user's, and stay: copies such as step-00001000-copy, links, notes.

No random state is saved: generators are seeded from the position (see `seeding`).
"""

import errno
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from heedful.base.errors import MachineError, UserError
from heedful.base.files import (
    json_bytes,
    read_bytes,
    remove_folder,
    remove_leftovers,
    write_folder,
    write_json,
)
from heedful.base.notes import note
from heedful.models.weights import tensors_from_bytes, weights_from_bytes, weights_to_bytes
from heedful.training.not_finite import is_state
from heedful.training.objectives import Objective, StatefulObjective
from heedful.training.optimizers.state import check_optimizer_state, load_optimizer_state, optimizer_state

_FILES: Final = ("model.safetensors", "optimizer.safetensors", "position.json")
_OBJECTIVE: Final = "objective.safetensors"

_REQUIRED_KEYS: Final = ("step", "epoch", "micro_batch")
_LARGEST: Final = 2**53  # what a whole number in JSON may be
_NAME: Final = re.compile(r"step-(?:\d{8}|[1-9]\d{8,})")  # as we write it


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _is_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= _LARGEST)


def _is_duration(value: object) -> bool:
    return _is_number(value) and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]  # a number


# What the values of position.json must be, in words and as a test. Its keys never change: runs resume from checkpoints
# of earlier versions.
_COUNT: Final = ("a whole number from 0", _is_count)
_SCORE: Final = ("a number or null", lambda value: value is None or _is_number(value))
_POSITION_VALUES: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "step": _COUNT,
    "epoch": _COUNT,
    "micro_batch": _COUNT,
    "target_tokens": _COUNT,
    "best_step": ("a whole number from 0 or null", lambda value: value is None or _is_count(value)),
    "best_score": _SCORE,
    "worse_since": _COUNT,
    "score": _SCORE,
    "regular": ("true or false", lambda value: isinstance(value, bool)),
    "seconds": ("a number from 0", _is_duration),
    "facts": ("an object", lambda value: isinstance(value, dict)),
    "best_loss": _SCORE,
    "meter": ("an object", lambda value: isinstance(value, dict)),
    "not_finite": ("an object that Heedful wrote", is_state),
}
_POSITION_KEYS: Final = {"tokens" if key == "target_tokens" else key: key for key in _POSITION_VALUES}  # by field


class DamagedCheckpointError(UserError):
    """A checkpoint whose files are not what was written: `what` says which one, and how it is damaged."""

    def __init__(self, what: str, way_out: str) -> None:
        super().__init__(f"{what}: {way_out}")
        self.what = what


@dataclass
class Position:
    """How far training has come, in plain numbers."""

    step: int = 0  # updates completed
    epoch: int = 0
    micro_batch: int = 0  # completed in this epoch
    tokens: int = 0  # trained on so far, as the objective counts them
    best_step: int | None = None
    best_score: float | None = None
    worse_since: int = 0  # validations since the best one
    score: float | None = None  # of the validation at this step, if there was one
    regular: bool = field(default=True, compare=False)  # False if it was saved between two regular steps
    seconds: float = field(default=0.0, compare=False)  # of training, including validation and saving
    facts: dict[str, Any] = field(default_factory=dict)  # what must not change if a resumed run is to be exact
    best_loss: float | None = None  # validation loss of the best model, which decides between equal scores
    meter: dict[str, Any] = field(default_factory=dict, compare=False)  # sums since metrics were logged: see `Meter`
    not_finite: dict[str, Any] = field(default_factory=dict)  # updates that were not applied: see `NotFiniteUpdates`

    def to_json(self) -> dict[str, Any]:
        """Return the content of position.json, for most runs without `not_finite`: earlier versions do not know it."""
        written = {key: getattr(self, name) for name, key in _POSITION_KEYS.items()}
        return written if self.not_finite else {key: value for key, value in written.items() if key != "not_finite"}

    @classmethod
    def from_json(cls, content: object, file: Path) -> "Position":
        """Read the content of position.json; keys that an earlier version did not write get their defaults."""
        damaged = f"the checkpoint is damaged, {way_out_of_resuming(file.parent)}"
        if not isinstance(content, dict):
            raise DamagedCheckpointError(f"{file} does not hold a JSON object", damaged)
        if missing := [key for key in _REQUIRED_KEYS if key not in content]:
            raise DamagedCheckpointError(f"{file} does not have the key `{missing[0]}`", damaged)
        for key, (words, holds) in _POSITION_VALUES.items():
            if key in content and not holds(content[key]):
                text = json.dumps(content[key])
                short = text if len(text) <= 40 else f"{text[:40]}..."
                raise DamagedCheckpointError(f"{file}: `{key}` is {short}, but must be {words}", damaged)
        if unknown := content.keys() - set(_POSITION_KEYS.values()):
            raise UserError(
                f"{file} has the key `{min(unknown)[:40]}`, which this version of Heedful does not know: resume with "
                "the version that wrote it, or a later one."
            )
        return cls(**{name: content[key] for name, key in _POSITION_KEYS.items() if key in content})


@dataclass(frozen=True)
class Retention:
    """Which checkpoints are kept: the `last` ones, and the `best` ones among those validated when they were saved.

    A checkpoint between two regular steps was saved because the run was stopped or ended there. It is removed when the
    next one is saved, so that a resumed run keeps, and averages, the same checkpoints as an uninterrupted run.
    """

    last: int = 1
    best: int = 0
    higher_is_better: bool = False
    every: int = 1  # steps between two regular checkpoints


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    retention: Retention,
    objective: Objective[Any] | None = None,
) -> Path:
    """Write a checkpoint, point `last.json` to it, and remove the checkpoints that need not be kept any longer."""
    position.regular = position.step % retention.every == 0
    files = {
        "model.safetensors": weights_to_bytes(model),
        "optimizer.safetensors": save_tensors(optimizer_state(model, optimizer)),
        "position.json": json_bytes(position.to_json()),
    }
    if isinstance(objective, StatefulObjective) and (carried := objective.state_dict()):
        files[_OBJECTIVE] = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in carried.items()})
    files["manifest.json"] = json_bytes({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})
    remove_leftovers(folder)  # of a run that was killed while saving
    path = folder / f"step-{position.step:08d}"
    if path.is_symlink():
        path.unlink()  # what it points to is the user's, and stays
    write_folder(path, files)
    write_json(folder / "last.json", {"folder": path.name})
    for old in _own_checkpoints(folder):
        # Later ones are of a run that went back to an earlier checkpoint: keeping them would cost one of its own.
        if step_of(old) > position.step or (old != path and _is_temporary(old)):
            remove_folder(old)
    own = _own_checkpoints(folder)
    kept = {*own[-retention.last :], path}
    if retention.best:
        room = retention.best + (not position.regular)  # an irregular one is temporary: it must not displace another
        kept.update(_best(own, room, retention.higher_is_better))
    for old in own:
        if old not in kept:
            remove_folder(old)
    return path


def _is_temporary(path: Path) -> bool:
    """Whether a checkpoint was saved between two regular steps, as it records, or is damaged so that nobody knows.

    A resumed run may save regular checkpoints at other steps, so that the step does not tell.
    """
    try:
        position = _parsed(_verified(path / "position.json", _manifest(path, ""), ""))
    except DamagedCheckpointError:
        return True  # a run that falls back on the one before must not lose that one for it
    return isinstance(position, dict) and position.get("regular") is False


def begin_checkpoints(folder: Path) -> None:
    """Note that a run begins here which has saved nothing yet."""
    write_json(folder / "last.json", {"folder": None})


def has_only_begun(folder: Path) -> bool:
    """Whether a run began with these checkpoints and ended before it saved the first one."""
    return (folder / "last.json").exists() and last_checkpoint(folder) is None


def step_of(path: Path) -> int:
    """Return the step at which a checkpoint was saved."""
    return int(path.name.removeprefix("step-"))


def last_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the last `count` checkpoints, or all of them if there are fewer, oldest first."""
    return _checkpoints(folder)[-count:]


def best_checkpoints(folder: Path, count: int, higher_is_better: bool) -> list[Path]:
    """Return the `count` best of the checkpoints with a validation score, best first; of equal ones the later first."""
    return _best(_checkpoints(folder), count, higher_is_better)


def _checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints, oldest first: folders that have our names and a manifest, or links to such folders."""
    named = [path for path in folder.glob("step-*") if _NAME.fullmatch(path.name)]
    return sorted((path for path in named if (path / "manifest.json").is_file()), key=step_of)


def _own_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints that may be removed, oldest first: links are the user's."""
    return [path for path in _checkpoints(folder) if not path.is_symlink()]


def _best(checkpoints: Sequence[Path], count: int, higher_is_better: bool) -> list[Path]:
    scores = {path: _recorded(path).get("score") for path in reversed(checkpoints)}
    scored = [(score, path) for path, score in scores.items() if isinstance(score, float)]
    return [path for _, path in sorted(scored, key=lambda entry: entry[0], reverse=higher_is_better)][:count]


def losses_break_ties(folder: Path) -> bool:
    """Whether the loss decides which of equal scores is the best, as it did not in runs of earlier versions."""
    return all("best_loss" in _recorded(path) for path in last_checkpoints(folder, 1))


def seconds_trained(folder: Path) -> float | None:
    """Return how long a run had trained at its last checkpoint, or None if that is not recorded."""
    try:
        path = last_checkpoint(folder)
    except UserError:  # it tells nothing of the model
        return None
    seconds = _recorded(path).get("seconds") if path else None
    return seconds if isinstance(seconds, float) else None


def checkpoint_weights(path: Path) -> dict[str, Tensor]:
    """Read and verify the weights of a checkpoint."""
    return tensors_from_bytes(_verified_weights(path), path / _FILES[0])


def damage_of_weights(path: Path) -> str | None:
    """Return what is wrong with the weights of a checkpoint; None if they are sound."""
    try:
        _verified_weights(path)
    except DamagedCheckpointError as error:
        return error.what
    return None


def _verified_weights(path: Path) -> bytes:
    way_out = f"delete {path} to average without it."
    return _verified(path / _FILES[0], _manifest(path, way_out), way_out)


def last_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint to resume from: the one that `last.json` names, or None if nothing has been saved yet.

    A run that was killed before it wrote `last.json`, but after the checkpoint, has saved it. Where `last.json` is
    damaged, it is the newest one.
    """
    pointer = folder / "last.json"
    value = _parsed(read_bytes(pointer)) if pointer.exists() else {"folder": None}
    name = value.get("folder", "") if isinstance(value, dict) else ""
    newest = next(iter(last_checkpoints(folder, 1)), None)
    if name is None:
        return newest
    if isinstance(name, str) and _NAME.fullmatch(name):
        return folder / name
    if newest is None:
        raise UserError(
            f"{pointer} does not name a checkpoint: the file is damaged. Restore it, or delete the run folder."
        )
    note(f"{pointer} is damaged, as it does not name a checkpoint: {newest.name} is the newest one.")
    return newest


def checkpoints_instead_of(path: Path) -> list[Path]:
    """Return what a run can fall back on if a checkpoint is damaged: those before it, the newest first, then others."""
    others = [other for other in reversed(_checkpoints(path.parent)) if other != path]
    return sorted(others, key=lambda other: step_of(other) > step_of(path))


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, objective: Objective[Any] | None = None
) -> Position:
    """Load a checkpoint into a model, its optimizer and its objective, after verifying every file."""
    way_out = way_out_of_resuming(path)
    manifest = _manifest(path, way_out)
    files = {name: _verified(path / name, manifest, way_out) for name in manifest}
    position = Position.from_json(_parsed(files["position.json"]), path / "position.json")
    state = tensors_from_bytes(files["optimizer.safetensors"], path / "optimizer.safetensors")
    check_optimizer_state(model, optimizer, state, path / "optimizer.safetensors", way_out)
    carried = tensors_from_bytes(files[_OBJECTIVE], path / _OBJECTIVE) if _OBJECTIVE in files else {}
    weights_from_bytes(model, files["model.safetensors"], path / "model.safetensors")
    load_optimizer_state(model, optimizer, state)
    if isinstance(objective, StatefulObjective):
        try:
            objective.load_state_dict(carried)
        except (KeyError, ValueError, TypeError) as error:
            raise UserError(f"{path / _OBJECTIVE} is not the state of this objective ({error}): {way_out}") from error
    return position


def way_out_of_resuming(path: Path) -> str:
    """Say what to do if this checkpoint cannot be used: resume from the newest other one, if there is one."""
    others = [other for other in last_checkpoints(path.parent, 2) if other != path]
    if not others:
        return "train again into another folder."
    pointer = json.dumps({"folder": others[-1].name})
    return f"delete {path}, write {pointer} into {path.parent / 'last.json'} and resume from there."


def _parsed(data: bytes) -> object:
    """Return a JSON value; None, which no file of ours holds, if it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _manifest(path: Path, way_out: str) -> dict[str, str]:
    file = path / "manifest.json"
    manifest = _parsed(_content(file, way_out))
    if not isinstance(manifest, dict) or manifest.keys() - {_OBJECTIVE} != set(_FILES):
        raise DamagedCheckpointError(f"{file} is damaged", way_out)
    return manifest


def _verified(file: Path, manifest: dict[str, str], way_out: str) -> bytes:
    data = _content(file, way_out)
    if hashlib.sha256(data).hexdigest() != manifest[file.name]:
        raise DamagedCheckpointError(f"{file} is damaged (its sha256 is not the manifest's)", way_out)
    return data


def _content(file: Path, way_out: str) -> bytes:
    """Read a file of a checkpoint; what cannot be read is damaged, unless that is for want of a permission."""
    if not file.exists():
        raise DamagedCheckpointError(f"{file} is missing", way_out)
    try:
        return read_bytes(file)
    except (UserError, MachineError) as error:
        if isinstance(error, MachineError) and getattr(error.__cause__, "errno", None) != errno.EIO:
            raise
        raise DamagedCheckpointError(str(error).rstrip("."), way_out) from error


def _recorded(path: Path) -> Mapping[str, object]:
    """Return the content of position.json; empty if it is missing or damaged, which matters when it is resumed from."""
    file = path / "position.json"
    position = _parsed(read_bytes(file)) if file.is_file() else None
    return position if isinstance(position, dict) else {}
