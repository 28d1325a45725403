"""The file of weights of CTranslate2: named arrays, and names that are aliases of others.

    version: uint32    name of the kind of model: string    its revision: uint32
    number of arrays: uint32, and for each, in the order of their names
        name: string    rank: uint8    sizes: uint32 each    type: uint8    bytes: uint32    values
    number of aliases: uint32, and for each
        name: string    name of the array: string

A string is its length, with the zero byte that ends it, as uint16, and its bytes. Everything is little-endian. An alias
of an array in int8 is one of its scales too.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

import torch
from torch import Tensor

_VERSION: Final = 6  # of the file
_TYPES: Final = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)  # by their number
_MOST: Final = 127.0  # the largest value in int8
_SCALED: Final = "_scale"  # ends the name of the scales of an array in int8


def write_arrays(path: Path, kind: str, revision: int, arrays: Mapping[str, Tensor], precision: str) -> None:
    """Write arrays: matrices of linear maps and embeddings in `precision`; what is given twice is stored once."""
    stored, aliases = _without_copies(arrays)
    stored = _converted(stored, precision)
    with path.open("wb") as file:
        file.write(struct.pack("<I", _VERSION))
        _write_text(file, kind)
        file.write(struct.pack("<II", revision, len(stored)))
        for name, array in sorted(stored.items()):
            _write_array(file, name, array)
        file.write(struct.pack("<I", len(aliases)))
        for name, other in sorted(aliases.items()):
            _write_text(file, name)
            _write_text(file, other)


def _without_copies(arrays: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the arrays, and the names of those that are the same tensor as one of them."""
    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, array in sorted(arrays.items()):
        same = array.data_ptr(), tuple(array.shape)
        if array.dim() and same in first:
            aliases[name] = first[same]
        else:
            stored[name] = array
            first[same] = name
    return stored, aliases


def _converted(arrays: Mapping[str, Tensor], precision: str) -> dict[str, Tensor]:
    """Return arrays in a precision. Scalars, which are settings, stay what they are."""
    found: dict[str, Tensor] = {}
    for name, array in arrays.items():
        if not array.dim() or not array.is_floating_point():
            found[name] = array
        elif precision == "int8" and name.endswith("/weight"):
            found[name], found[name + _SCALED] = _in_int8(array.float())
        else:
            found[name] = array.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
    return found


def _in_int8(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return integers and what each row of them is to be divided by."""
    largest = matrix.abs().amax(dim=1)
    scales = _MOST / largest.masked_fill(largest == 0, _MOST)
    return (matrix * scales.unsqueeze(1)).round().to(torch.int8), scales


def _write_array(file: BinaryIO, name: str, array: Tensor) -> None:
    _write_text(file, name)
    values = array.detach().cpu().contiguous()
    file.write(struct.pack(f"<B{values.dim()}I", values.dim(), *values.shape))
    file.write(struct.pack("<BI", _TYPES.index(values.dtype), values.numel() * values.element_size()))
    file.write(values.flatten().view(torch.uint8).numpy().tobytes())


def _write_text(file: BinaryIO, text: str) -> None:
    coded = text.encode()
    file.write(struct.pack("<H", len(coded) + 1) + coded + b"\0")
