"""Images, labels and numbers in arrays: idx files, as MNIST has them, and .npz files. Nothing in them can run code."""

import gzip
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite, prod
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from heedful.base.errors import UserError, counted, machine_faults, suggestion, user_faults
from heedful.base.files import refuse_special_file
from heedful.data.images.decoding import Pixels
from heedful.data.zip_files import open_zip

_BYTES: Final = 0x08  # the only type of idx files that images and labels have: one byte without a sign
_MOST_AXES: Final = 4
_PARTS: Final = 1 << 24  # bytes that are read at once
_MOST_PACKED: Final = 1032  # bytes that one packed byte can become, by the format of archives


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file, plain or packed (.gz): an array of bytes."""
    with _reading(path), _opened(path) as file:
        head = file.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or not 1 <= head[3] <= _MOST_AXES:
            raise UserError(f"{path} is not an idx file: such a file starts with two zero bytes, a type and the axes.")
        if head[2] != _BYTES:
            raise UserError(f"{path} is an idx file of the type 0x{head[2]:02x}, but must hold bytes (0x08).")
        shape = struct.unpack(f">{head[3]}I", file.read(4 * head[3]))
        size = prod(shape)
        values = bytearray()  # one buffer that grows, as a header may promise any number
        for part in _parts(file, size + 1):
            values += part
    if len(values) != size:
        found = f"{len(values):,}" if len(values) < size else "more"
        raise UserError(f"{path} holds {found} bytes, but its header promises {size:,}: copy or download it again.")
    return np.frombuffer(values, np.uint8).reshape(shape)


def read_npz(path: Path, name: str) -> NDArray[Any]:
    """Read an array by its name from a file of NumPy (.npz); objects of Python are refused."""
    with _reading(path), open_zip(path) as archive:
        names = [member.removesuffix(".npy") for member in archive.namelist()]
        if name not in names:
            raise UserError(f"{path} has no array `{name}`.{suggestion(name, names)}")
        info = archive.getinfo(f"{name}.npy" if f"{name}.npy" in archive.namelist() else name)
        with archive.open(info) as member:
            shape, dtype = _npy_header(member, f"{path}: `{name}`")
        promised = dtype.itemsize * prod(shape)  # before memory is taken for it
        if promised > info.file_size or info.file_size > _MOST_PACKED * (info.compress_size + 1):
            raise UserError(f"{path}: `{name}` holds less than its header promises: copy or download it again.")
        with archive.open(info) as member:
            return npy.read_array(member, allow_pickle=False)


def as_images(values: NDArray[Any], name: str, one: str = "") -> Pixels:
    """Return an array of images as images x height x width x channels.

    `one` is the shape that messages ask for where the array is a single image with an axis of images before it.
    """
    if values.dtype != np.uint8:
        scaled = values.dtype.kind == "f" and values.size and 0 <= values.min() <= values.max() <= 1
        how = "(255 * values).round().astype('uint8')" if scaled else "values.astype('uint8')"
        raise UserError(
            f"{name} holds {values.dtype}, but pixels must be bytes from 0 to 255 (uint8): convert them with `{how}`."
        )
    if values.ndim == 3:
        values = values[..., None]
    if values.ndim != 4 or values.shape[3] not in (1, 3) or 0 in values.shape[1:]:
        shape = " x ".join(map(str, values.shape[bool(one) :])) or "a single number"
        must_be = one or "images x height x width, or images x height x width x 3"
        raise UserError(f"{name} has the shape {shape}, but must be {must_be}.")
    return values


def as_labels(values: NDArray[Any], images: int, name: str) -> list[str]:
    """Return an array of labels as names: whole numbers or texts, one per image."""
    if values.ndim != 1 or values.dtype.kind not in "iuUb":
        raise UserError(f"{name} must be labels, one whole number or text per image, not {values.dtype} of "
                        f"{values.ndim} axes.")  # fmt: skip
    _check_length(values, images, f"{name} has {counted(len(values), 'label')}")
    return [str(label) for label in values.tolist()]


def as_numbers(values: NDArray[Any], images: int, name: str) -> list[float]:
    """Return an array of numbers, one finite number per image."""
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise UserError(f"{name} must be numbers, one per image, not {values.dtype} of {values.ndim} axes.")
    _check_length(values, images, f"{name} has {counted(len(values), 'number')}")
    found: list[float] = values.astype(np.float64).tolist()
    for image, number in enumerate(found, start=1):
        if not isfinite(number):
            raise UserError(f"{name} is {number} for image {image:,}, but must be a finite number.")
    return found


def _check_length(values: NDArray[Any], images: int, has: str) -> None:
    if len(values) != images:
        raise UserError(f"{has}, but there are {images:,} images: each needs one.")


def _npy_header(member: IO[bytes], name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(member)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise UserError(f"{name} is an array of NumPy's format {version[0]}.{version[1]}: save it with `numpy.savez`.")
    try:
        shape, _, dtype = readers[version](member)
    except tokenize.TokenError as error:  # its header is read as Python's literals
        raise ValueError("its header is damaged") from error
    if dtype.hasobject:
        raise UserError(f"{name} holds objects of Python, which could run code: save numbers or texts instead.")
    return shape, dtype


def _parts(file: IO[bytes], most: int) -> Iterator[bytes]:
    """Yield what a file holds, at most so many bytes, in parts: a header may promise any number."""
    while most > 0 and (part := file.read(min(most, _PARTS))):
        yield part
        most -= len(part)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    refuse_special_file(path)
    with path.open("rb") as plain:
        if plain.read(2) == b"\x1f\x8b":
            with gzip.open(path, "rb") as unpacked:
                yield cast("IO[bytes]", unpacked)
        else:
            plain.seek(0)
            yield plain


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what a missing, damaged or different file raises into one line."""
    with machine_faults(path), user_faults(path):
        try:
            yield
        except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, ValueError, struct.error,
                NotImplementedError, RuntimeError) as error:  # fmt: skip
            reason = " ".join(str(error).split()) or "it ends early"
            raise UserError(f"{path} cannot be read ({reason}): copy or download it again.") from error
