"""A model's weights as safetensors bytes: inert, checked by a hash of the values, shared matrices stored once.

A matrix may be stored in int8: as whole numbers NAME, and NAME.scale in float32, one scale per row. It is read as
float32, row n as NAME[n] * NAME.scale[n].
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.config.model.any import AnyModel, least_parameters
from heedful.config.reading.bundle_config import stated_hash

_HEADER_SIZE: Final = 8  # bytes of the length of a safetensors header
_SMALL: Final = 50_000_000  # parameters of a model that any machine holds
_CONFIG: Final = "config"  # an entry of the header's metadata
_SCALE: Final = ".scale"  # after the name of a matrix in int8
_RESTORE: Final = "restore it from a copy or train again."


def weights_to_bytes(
    model: nn.Module, belongs_to: str | None = None, in_int8: Mapping[str, tuple[Tensor, Tensor]] | None = None
) -> bytes:
    """Serialize the parameters by name; the header holds their sha256, and that of the config they belong to.

    `in_int8` has the matrices that are stored in int8, with their scales.
    """
    tensors = {name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters()}
    for name, (whole_NK, scale_N) in (in_int8 or {}).items():
        tensors |= {name: whole_NK.contiguous(), name + _SCALE: scale_N.contiguous()}
    # One entry only: the order of several is arbitrary, and equal weights would not be equal bytes.
    data = save_tensors(tensors, metadata={"sha256": _digest(tensors)})
    return data if belongs_to is None else state_config(data, belongs_to)


def state_config(data: bytes, belongs_to: str) -> bytes:
    """Return weights that state the hash of the config they belong to, whatever they stated before."""
    start, header = _header(data)
    header["__metadata__"] = {**header.get("__metadata__", {}), _CONFIG: belongs_to}
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    written = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    written += b" " * (-len(written) % _HEADER_SIZE)
    return b"".join((len(written).to_bytes(_HEADER_SIZE, "little"), written, memoryview(data)[start:]))


def config_of(data: bytes) -> str | None:
    """Return the hash of the config that sound weights state they belong to; None if they state none."""
    return _header(data)[1].get("__metadata__", {}).get(_CONFIG)


def _header(data: bytes) -> tuple[int, dict[str, Any]]:
    """Return where the tensors start, and the header before them."""
    start = _HEADER_SIZE + int.from_bytes(data[:_HEADER_SIZE], "little")
    return start, json.loads(data[_HEADER_SIZE:start])


def weights_from_bytes(model: nn.Module, data: bytes, where: Path) -> None:
    """Read parameters into a model, or raise what is wrong with the file and leave the model as it was."""
    tensors = _with_floats(tensors_from_bytes(data, where), where)
    expected, found = shapes_of(dict(model.named_parameters())), shapes_of(tensors)
    name = first_difference(expected, found)
    if name:
        raise UserError(
            f"{where} does not fit its config.json: `{name}` is {found.get(name, 'missing')} there, but must be "
            f"{expected.get(name, 'absent')}."
        )
    whole = sorted(name for name, tensor in tensors.items() if not tensor.is_floating_point())
    if whole:
        kind = str(tensors[whole[0]].dtype).removeprefix("torch.")
        raise UserError(f"{where}: `{whole[0]}` holds {kind}, but weights are floating-point numbers: {_RESTORE}")
    set_weights(model, tensors)


def _with_floats(tensors: Mapping[str, Tensor], where: Path) -> dict[str, Tensor]:
    """Return weights with the matrices that are stored in int8 as float32."""
    scaled = [name for name, tensor in tensors.items() if tensor.dtype == torch.int8 and name + _SCALE in tensors]
    floats = dict(tensors)
    for name in scaled:
        whole_NK, scale_N = tensors[name], floats.pop(name + _SCALE)
        if whole_NK.dim() != 2 or scale_N.shape != whole_NK.shape[:1]:
            raise UserError(
                f"{where}: `{name}` in int8 is {tuple(whole_NK.shape)} and its scales are {tuple(scale_N.shape)}, but "
                f"it must be a matrix with one scale per row: {_RESTORE}"
            )
        if scale_N.dtype != torch.float32:
            kind = str(scale_N.dtype).removeprefix("torch.")
            raise UserError(f"{where}: `{name}{_SCALE}` holds {kind}, but scales of int8 are float32: {_RESTORE}")
        if not (scale_N.isfinite() & (scale_N >= 0)).all():
            raise UserError(
                f"{where}: `{name}{_SCALE}` has negative or infinite scales or values that are not numbers: {_RESTORE}"
            )
        floats[name] = whole_NK.float() * scale_N.unsqueeze(1)
    return floats


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


def refuse_larger_model(model: AnyModel, files: Iterable[Path], config: Path) -> None:
    """Refuse a config that describes more parameters than there are bytes of weights, before anything is built.

    A small model is built, and then compared with the weights tensor by tensor.
    """
    there = sum(file.stat().st_size for file in files)
    least = least_parameters(model)
    if least > max(there, _SMALL):
        raise UserError(
            f"{config} describes a model of at least {least:,} parameters, but its weights have {there:,} bytes: "
            "restore both from a copy of the model."
        )


def tensors_from_bytes(data: bytes, where: Path) -> dict[str, Tensor]:
    """Read parameters by name, or raise what is wrong with the file."""
    try:
        tensors = load_tensors(data)
        _, header = _header(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"{where} is damaged ({error}): {_RESTORE}") from error
    stated = header.get("__metadata__", {}).get("sha256")
    if stated is not None and stated != _digest(tensors):
        raise UserError(f"{where} is damaged (its sha256 is not the stated one): {_RESTORE}")
    return tensors


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype}".encode())
        digest.update(tensors[name].flatten().view(torch.uint8).numpy().data)  # numpy has no bfloat16
    return digest.hexdigest()


def hash_of_weights(model: nn.Module, file: Path) -> str:
    """Return the sha256 by which an adapter knows its base: the one that the weights of a file state, or theirs.

    Files of early versions state none. The weights have been read and checked.
    """
    stated = stated_hash(file)
    return stated or _digest({name: parameter.detach().cpu() for name, parameter in model.named_parameters()})


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
