"""Checkpoints: weights, optimizer and position, written whole, verified when read, the pointer moved last.

    checkpoints/step-00001000/model.safetensors optimizer.safetensors position.json manifest.json
    checkpoints/last.json       {"folder": "step-00001000"}

Nothing random is saved: generators are seeded from the position (see `seeding`).
"""

import hashlib
import json
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.files import json_bytes, read_bytes, read_json, remove_folder, write_folder, write_json
from heedful.models.weights import tensors_from_bytes, weights_from_bytes, weights_to_bytes

_FILES: Final = ("model.safetensors", "optimizer.safetensors", "position.json")


@dataclass
class Position:
    """Where training stands, in plain numbers."""

    step: int = 0  # updates done
    epoch: int = 0
    micro_batch: int = 0  # of the epoch, done
    target_tokens: int = 0  # seen in all
    best_step: int | None = None
    best_score: float | None = None
    worse_since: int = 0  # validations since the best
    score: float | None = None  # of the validation at this very step
    regular: bool = field(default=True, compare=False)  # False where it was saved between two regular steps
    seconds: float = field(default=0.0, compare=False)  # of training, validations and savings included
    facts: dict[str, Any] = field(default_factory=dict)  # what must be the same for a resumed run to be exact


@dataclass(frozen=True)
class Retention:
    """Which checkpoints stay: the last so many, and the best so many of those that were validated when saved.

    One between two regular steps was saved as its run was stopped, or ended there. It goes when the next is saved, so
    that a resumed run keeps, and averages, the checkpoints of a run that was never disturbed.
    """

    last: int = 1
    best: int = 0
    higher_is_better: bool = False
    every: int = 1  # the distance of regular steps


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, position: Position, retention: Retention
) -> Path:
    """Write a checkpoint, move the pointer to it, and remove those that are no longer to be kept."""
    position.regular = position.step % retention.every == 0
    files = {
        "model.safetensors": weights_to_bytes(model),
        "optimizer.safetensors": save_tensors(_optimizer_tensors(optimizer)),
        "position.json": json_bytes(asdict(position)),
    }
    files["manifest.json"] = json_bytes({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})
    for leftover in folder.glob(".step-*"):  # of a run that was killed while it saved
        shutil.rmtree(leftover, ignore_errors=True)
    path = folder / f"step-{position.step:08d}"
    write_folder(path, files)
    write_json(folder / "last.json", {"folder": path.name})
    for old in folder.glob("step-*"):
        if old != path and not _is_regular(old):
            remove_folder(old)
    kept = {*last_checkpoints(folder, retention.last), path}
    if retention.best:
        room = retention.best + (not position.regular)  # such a one is to go again: it must push nothing out
        kept.update(best_checkpoints(folder, room, retention.higher_is_better))
    for old in folder.glob("step-*"):
        if old not in kept:
            remove_folder(old)
    return path


def step_of(path: Path) -> int:
    """The step that a checkpoint is of."""
    return int(path.name.removeprefix("step-"))


def last_checkpoints(folder: Path, count: int) -> list[Path]:
    """The last so many, or all where there are fewer, oldest first."""
    return sorted(folder.glob("step-*"))[-count:]


def best_checkpoints(folder: Path, count: int, higher_is_better: bool) -> list[Path]:
    """The best so many of those that were validated when saved, best first; of equals the later."""
    scored = [
        (score, path) for path in sorted(folder.glob("step-*"), reverse=True) if (score := _score(path)) is not None
    ]
    return [path for _, path in sorted(scored, key=lambda entry: entry[0], reverse=higher_is_better)][:count]


def seconds_trained(folder: Path) -> float | None:
    """How long a run had trained when it was last saved; None where nothing tells."""
    path = last_checkpoint(folder)
    position = read_json(path / "position.json") if path and (path / "position.json").exists() else None
    seconds = position.get("seconds") if isinstance(position, dict) else None
    return seconds if isinstance(seconds, float) else None


def checkpoint_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint, verified."""
    name = "model.safetensors"
    way_out = f"delete {path} to average without it."
    return tensors_from_bytes(_verified(path / name, _manifest(path, way_out), way_out), path / name)


def last_checkpoint(folder: Path) -> Path | None:
    """The checkpoint the pointer names, or None where nothing was saved yet."""
    pointer = folder / "last.json"
    if not pointer.exists():
        return None
    value = read_json(pointer)
    name = value.get("folder") if isinstance(value, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"step-\d+", name):
        raise UserError(f"{pointer} names no checkpoint: the file is damaged. Delete the run folder or restore it.")
    return folder / name


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Position:
    """Read a checkpoint into a model and its optimizer, after every byte has been verified."""
    way_out = _way_out_of_resuming(path)
    manifest = _manifest(path, way_out)
    files = {name: _verified(path / name, manifest, way_out) for name in manifest}
    weights_from_bytes(model, files["model.safetensors"], path / "model.safetensors")
    _load_optimizer(optimizer, load_tensors(files["optimizer.safetensors"]))
    return Position(**json.loads(files["position.json"]))


def _way_out_of_resuming(path: Path) -> str:
    """What to do where this checkpoint cannot be read: go on from the newest other one, where one was kept."""
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
    if not isinstance(manifest, dict) or manifest.keys() != set(_FILES):
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
    """As it was when it was saved: the distance of regular steps may change when a run goes on."""
    position = read_json(path / "position.json")
    return not isinstance(position, dict) or position.get("regular") is not False


def _score(path: Path) -> float | None:
    position = read_json(path / "position.json")
    score = position.get("score") if isinstance(position, dict) else None
    return score if isinstance(score, float) else None


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": tensor.detach().cpu().contiguous()
        for index, tensors in state.items()
        for name, tensor in tensors.items()
    }


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
