"""Checkpoints: weights, optimizer state and position, written as a whole and verified when read.

    checkpoints/step-00001000/model.safetensors optimizer.safetensors position.json manifest.json
                              objective.safetensors      only if the objective carries a state from batch to batch
    checkpoints/last.json     {"folder": "step-00001000"}, written last

No random state is saved: generators are seeded from the position (see `seeding`).
"""

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.files import json_bytes, read_bytes, read_json, remove_folder, write_folder, write_json
from heedful.models.weights import tensors_from_bytes, weights_from_bytes, weights_to_bytes
from heedful.training.objectives import Objective, StatefulObjective

_FILES: Final = ("model.safetensors", "optimizer.safetensors", "position.json")
_OBJECTIVE: Final = "objective.safetensors"

# The keys of position.json by field. They never change: runs resume from checkpoints of earlier versions.
_POSITION_KEYS: Final[Mapping[str, str]] = {
    "step": "step",
    "epoch": "epoch",
    "micro_batch": "micro_batch",
    "tokens": "target_tokens",
    "best_step": "best_step",
    "best_score": "best_score",
    "worse_since": "worse_since",
    "score": "score",
    "regular": "regular",
    "seconds": "seconds",
    "facts": "facts",
}
_REQUIRED_KEYS: Final = ("step", "epoch", "micro_batch")


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

    def to_json(self) -> dict[str, Any]:
        """Return the content of position.json."""
        return {key: getattr(self, name) for name, key in _POSITION_KEYS.items()}

    @classmethod
    def from_json(cls, content: object, file: Path) -> "Position":
        """Read the content of position.json; keys that an earlier version did not write get their defaults."""
        if not isinstance(content, dict):
            raise UserError(f"{file} does not hold a JSON object: the checkpoint is damaged.")
        if missing := [key for key in _REQUIRED_KEYS if key not in content]:
            raise UserError(f"{file} does not have the key `{missing[0]}`: the checkpoint is damaged.")
        if unknown := content.keys() - set(_POSITION_KEYS.values()):
            raise UserError(
                f"{file} has the key `{min(unknown)}`, which this version of Heedful does not know: resume with the "
                "version that wrote it, or a later one."
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
        "optimizer.safetensors": save_tensors(_optimizer_tensors(model, optimizer)),
        "position.json": json_bytes(position.to_json()),
    }
    if isinstance(objective, StatefulObjective) and (carried := objective.state_dict()):
        files[_OBJECTIVE] = save_tensors({name: _to_cpu(tensor) for name, tensor in carried.items()})
    files["manifest.json"] = json_bytes({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})
    for leftover in folder.glob(".step-*"):  # from a run that was killed while saving
        shutil.rmtree(leftover, ignore_errors=True)
    path = folder / f"step-{position.step:08d}"
    write_folder(path, files)
    write_json(folder / "last.json", {"folder": path.name})
    for old in folder.glob("step-*"):
        if old != path and not _is_regular(old):
            remove_folder(old)
    kept = {*last_checkpoints(folder, retention.last), path}
    if retention.best:
        room = retention.best + (not position.regular)  # an irregular one is temporary: it must not displace another
        kept.update(best_checkpoints(folder, room, retention.higher_is_better))
    for old in folder.glob("step-*"):
        if old not in kept:
            remove_folder(old)
    return path


def step_of(path: Path) -> int:
    """Return the step at which a checkpoint was saved."""
    return int(path.name.removeprefix("step-"))


def last_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the last `count` checkpoints, or all of them if there are fewer, oldest first."""
    return sorted(folder.glob("step-*"))[-count:]


def best_checkpoints(folder: Path, count: int, higher_is_better: bool) -> list[Path]:
    """Return the `count` best of the checkpoints with a validation score, best first; of equal ones the later first."""
    scored = [
        (score, path) for path in sorted(folder.glob("step-*"), reverse=True) if (score := _score(path)) is not None
    ]
    return [path for _, path in sorted(scored, key=lambda entry: entry[0], reverse=higher_is_better)][:count]


def seconds_trained(folder: Path) -> float | None:
    """Return how long a run had trained at its last checkpoint, or None if that is not recorded."""
    path = last_checkpoint(folder)
    position = read_json(path / "position.json") if path and (path / "position.json").exists() else None
    seconds = position.get("seconds") if isinstance(position, dict) else None
    return seconds if isinstance(seconds, float) else None


def checkpoint_weights(path: Path) -> dict[str, Tensor]:
    """Read and verify the weights of a checkpoint."""
    name = "model.safetensors"
    way_out = f"delete {path} to average without it."
    return tensors_from_bytes(_verified(path / name, _manifest(path, way_out), way_out), path / name)


def last_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint that `last.json` names, or None if nothing has been saved yet."""
    pointer = folder / "last.json"
    if not pointer.exists():
        return None
    value = read_json(pointer)
    name = value.get("folder") if isinstance(value, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"step-\d+", name):
        raise UserError(
            f"{pointer} does not name a checkpoint: the file is damaged. Restore it, or delete the run folder."
        )
    return folder / name


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, objective: Objective[Any] | None = None
) -> Position:
    """Load a checkpoint into a model, its optimizer and its objective, after verifying every file."""
    way_out = _way_out_of_resuming(path)
    manifest = _manifest(path, way_out)
    files = {name: _verified(path / name, manifest, way_out) for name in manifest}
    position = Position.from_json(json.loads(files["position.json"]), path / "position.json")
    weights_from_bytes(model, files["model.safetensors"], path / "model.safetensors")
    _load_optimizer(model, optimizer, load_tensors(files["optimizer.safetensors"]), path / "optimizer.safetensors")
    if isinstance(objective, StatefulObjective):
        objective.load_state_dict(load_tensors(files[_OBJECTIVE]) if _OBJECTIVE in files else {})
    return position


def _way_out_of_resuming(path: Path) -> str:
    """Say what to do if this checkpoint cannot be read: resume from the newest other one, if there is one."""
    others = [other for other in last_checkpoints(path.parent, 2) if other != path]
    if not others:
        return "train again into another folder."
    pointer = json.dumps({"folder": others[-1].name})
    return f"delete {path}, write {pointer} into {path.parent / 'last.json'} and resume from there."


def _manifest(path: Path, way_out: str) -> dict[str, str]:
    file = path / "manifest.json"
    _refuse_missing(file, way_out)
    try:
        manifest = json.loads(read_bytes(file))
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.keys() - {_OBJECTIVE} != set(_FILES):
        raise UserError(f"{file} is damaged: {way_out}")
    return manifest


def _verified(file: Path, manifest: dict[str, str], way_out: str) -> bytes:
    _refuse_missing(file, way_out)
    data = read_bytes(file)
    if hashlib.sha256(data).hexdigest() != manifest[file.name]:
        raise UserError(f"{file} is damaged (its sha256 is not the manifest's): {way_out}")
    return data


def _refuse_missing(file: Path, way_out: str) -> None:
    if not file.exists():
        raise UserError(f"{file} is missing: {way_out}")


def _is_regular(path: Path) -> bool:
    """Return what was recorded when it was saved: a resumed run may save regular checkpoints at other steps."""
    position = read_json(path / "position.json")
    return not isinstance(position, dict) or position.get("regular") is not False


def _score(path: Path) -> float | None:
    position = read_json(path / "position.json")
    score = position.get("score") if isinstance(position, dict) else None
    return score if isinstance(score, float) else None


# --- optimizer state, by parameter name -------------------------------------------------------------------------------


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer state as `parameter name.state name`, such as `decoder.output.bias.exp_avg`."""
    names, state = _names_in_order(model, optimizer), optimizer.state_dict()["state"]
    return {
        f"{names[index]}.{part}": _to_cpu(tensor)
        for index, tensors in state.items()
        for part, tensor in tensors.items()
    }


def _load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], file: Path) -> None:
    """Load optimizer state by parameter name, or by number from files that earlier versions wrote.

    Those number the parameters in the order of the optimizer's groups.
    """
    indices = {name: index for index, name in enumerate(_names_in_order(model, optimizer))}
    owners = {key.rpartition(".")[0] for key in tensors}
    if all(owner.isdecimal() and owner not in indices for owner in owners):
        indices = {str(index): index for index in range(len(indices))}
    if unknown := owners - indices.keys():
        raise UserError(
            f"{file} has the state of `{min(unknown)}`, which is not a parameter of this model: resume with the recipe "
            "and the version of Heedful that wrote it."
        )
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        owner, _, part = key.rpartition(".")
        state.setdefault(indices[owner], {})[part] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _names_in_order(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Return the name of each parameter in the order in which the optimizer numbers them."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [names[cast(nn.Parameter, parameter)] for group in optimizer.param_groups for parameter in group["params"]]


def _to_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()
