"""Checkpoints: weights, optimizer and position, written whole, verified when read, the pointer moved last.

    checkpoints/step-00001000/model.safetensors optimizer.safetensors position.json manifest.json
    checkpoints/last.json       {"folder": "step-00001000"}

Nothing random is saved: generators are seeded from the position (see `seeding`).
"""

import hashlib
import json
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
from heedful.models.weights import weights_from_bytes, weights_to_bytes

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
    facts: dict[str, Any] = field(default_factory=dict)  # what must be the same for a resumed run to be exact


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, position: Position, keep: int
) -> Path:
    """Write a checkpoint, move the pointer to it, and remove the oldest beyond `keep`."""
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
    for old in sorted(folder.glob("step-*"))[:-keep]:
        if old != path:
            remove_folder(old)
    return path


def last_checkpoint(folder: Path) -> Path | None:
    """The checkpoint the pointer names, or None where nothing was saved yet."""
    pointer = folder / "last.json"
    if not pointer.exists():
        return None
    value = read_json(pointer)
    if not isinstance(value, dict) or not isinstance(value.get("folder"), str):
        raise UserError(f"{pointer} names no checkpoint: the file is damaged. Delete the run folder or restore it.")
    return folder / value["folder"]


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Position:
    """Read a checkpoint into a model and its optimizer, after every byte has been verified."""
    manifest = read_json(path / "manifest.json")
    if not isinstance(manifest, dict) or manifest.keys() != set(_FILES):
        raise UserError(f"{path}/manifest.json is damaged: resume from another checkpoint or train again.")
    files: dict[str, bytes] = {}
    for name, digest in manifest.items():
        files[name] = read_bytes(path / name)
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise UserError(
                f"{path / name} is damaged (its sha256 is not the manifest's): "
                "resume from another checkpoint or train again."
            )
    weights_from_bytes(model, files["model.safetensors"], path / "model.safetensors")
    _load_optimizer(optimizer, load_tensors(files["optimizer.safetensors"]))
    return Position(**json.loads(files["position.json"]))


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
