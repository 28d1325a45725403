"""A model's weights as safetensors bytes: inert, checked by a hash of the values, shared matrices stored once."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from heedful.errors import UserError

_HEADER_SIZE = 8  # bytes of the length of a safetensors header


def weights_to_bytes(model: nn.Module) -> bytes:
    """Serialize the parameters by name; the header holds their sha256."""
    tensors = {name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters()}
    # One entry only: the order of several is arbitrary, and equal weights would not be equal bytes.
    return save_tensors(tensors, metadata={"sha256": _digest(tensors)})


def weights_from_bytes(model: nn.Module, data: bytes, where: Path) -> None:
    """Read parameters into a model, or raise what is wrong with the file and leave the model as it was."""
    tensors = tensors_from_bytes(data, where)
    expected, found = shapes_of(dict(model.named_parameters())), shapes_of(tensors)
    name = first_difference(expected, found)
    if name:
        raise UserError(
            f"{where} does not fit its config.json: `{name}` is {found.get(name, 'missing')} there, but must be "
            f"{expected.get(name, 'absent')}."
        )
    set_weights(model, tensors)


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy parameters of the same names and shapes into a model."""
    for name, parameter in model.named_parameters():
        parameter.data.copy_(tensors[name])


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter by name."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def first_difference(ours: Mapping[str, tuple[int, ...]], theirs: Mapping[str, tuple[int, ...]]) -> str | None:
    """Return the first parameter that is missing on one side or has another shape; None if there is none."""
    return next((name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)), None)


def tensors_from_bytes(data: bytes, where: Path) -> dict[str, Tensor]:
    """Read parameters by name, or raise what is wrong with the file."""
    try:
        tensors = load_tensors(data)
        header = json.loads(data[_HEADER_SIZE : _HEADER_SIZE + int.from_bytes(data[:_HEADER_SIZE], "little")])
    except (SafetensorError, ValueError) as error:
        raise UserError(f"{where} is damaged ({error}): restore it from a copy or train again.") from error
    stated = header.get("__metadata__", {}).get("sha256")
    if stated is not None and stated != _digest(tensors):
        raise UserError(
            f"{where} is damaged (its sha256 is not the stated one): restore it from a copy or train again."
        )
    return tensors


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype}".encode())
        digest.update(tensors[name].flatten().view(torch.uint8).numpy().data)  # numpy has no bfloat16
    return digest.hexdigest()


def mean_weights(models: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each weight, in its own type; sums are float64, and one model is in memory at a time."""
    sums: dict[str, Tensor] = {}
    types: dict[str, torch.dtype] = {}
    count = 0
    for weights in models:
        count += 1
        for name, tensor in weights.items():
            types[name] = tensor.dtype
            sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
    return {name: (total / count).to(types[name]) for name, total in sums.items()}
