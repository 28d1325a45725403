"""The C functions of `kernels.c`, called by ctypes.

Every structure here is the one of the same name there, field by field. Callers keep the tensors alive whose addresses
they pass.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.native.compiler import CannotCompileError, Compiled, compile_kernels

LINEAR, NORM, ATTEND, ROTATE, GATE, STORE, EMBED, NORMALISE, FLOATS = range(9)
STEP, MEMORY, PACKED = range(3)
ACTIVATIONS: Final = {"none": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
BUFFERS: Final = 6
CHUNK: Final = 4096  # columns that one thread normalises at a time
_SMALL: Final = 1 << 20  # scores that one thread ranks faster than others wake up

_INT, _LONG, _FLOAT, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class Op(ctypes.Structure):
    """One operation on rows of buffers."""

    _fields_ = [
        *((name, _INT) for name in ("kind", "in_", "out", "skip", "n", "k", "act", "mode")),
        *((name, _INT) for name in ("heads", "groups", "key", "value", "rotated", "causal", "radius", "free")),
        ("factor", _FLOAT),
        ("eps", _FLOAT),
        *((name, _POINTER) for name in ("w", "scale", "bias", "waves", "keys", "values")),
        ("key_row", _LONG),
        ("value_row", _LONG),
    ]


class Frame(ctypes.Structure):
    """What operations run on: rows, buffers, and where rows are."""

    _fields_ = [
        *((name, _LONG) for name in ("rows", "beams", "room", "bound")),
        ("buffer", _POINTER * BUFFERS),
        ("stride", _LONG * BUFFERS),
        *((name, _POINTER) for name in ("q", "row_scale", "row_sum", "scores", "places")),
        *((name, _POINTER) for name in ("slot", "position", "ancestors", "first", "count", "tokens")),
        *((name, _POINTER) for name in ("greatest", "log_sum", "parts")),
    ]


@dataclass(frozen=True)
class Library:
    """The compiled kernels."""

    compiled: Compiled
    functions: ctypes.CDLL

    def run(self, ops: "ctypes.Array[Op]", frame: Frame) -> None:
        """Run operations one after the other."""
        self.functions.heedful_run(ops, len(ops), ctypes.byref(frame), torch.get_num_threads())

    def normaliser(self, scores_RV: Float[Tensor, "R V"]) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
        """Return the greatest score of each row, and log sum exp of the differences to it."""
        rows, size, stride = _rows_of(scores_RV)
        greatest_R1, log_sum_R1 = scores_RV.new_empty(rows, 1), scores_RV.new_empty(rows, 1)
        parts = scores_RV.new_empty(rows, 2, -(-size // CHUNK))
        places = scores_RV.data_ptr(), rows, size, stride, greatest_R1.data_ptr(), log_sum_R1.data_ptr()
        self.functions.heedful_normalise(*places, parts.data_ptr(), torch.get_num_threads())
        return greatest_R1, log_sum_R1

    def best(self, scores_RV: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
        """Return the `count` best scores of each row and their columns, best first, of equal ones the first."""
        rows, size, stride = _rows_of(scores_RV)
        if not 0 < count <= size:
            raise ValueError(f"{count} of {size} scores are asked for")
        best_RC = scores_RV.new_empty(rows, count)
        ids_RC = torch.empty(rows, count, dtype=torch.int64)
        places = scores_RV.data_ptr(), rows, size, stride, count, best_RC.data_ptr(), ids_RC.data_ptr()
        self.functions.heedful_best(*places, 1 if rows * size < _SMALL else torch.get_num_threads())
        return best_RC, ids_RC


def _rows_of(x_RV: Tensor) -> tuple[int, int, int]:
    """Return the number of rows, their length, and the distance between two."""
    if x_RV.dtype != torch.float32 or x_RV.device.type != "cpu" or x_RV.dim() != 2 or x_RV.stride(1) != 1:
        raise ValueError("kernels read rows of float32 on a CPU")
    return x_RV.shape[0], x_RV.shape[1], x_RV.stride(0)


def open_library(compiled: Compiled) -> Library:
    """Load a compiled library, and declare its functions."""
    try:
        functions = ctypes.CDLL(str(compiled.path))
    except OSError as error:
        raise CannotCompileError(f"the compiled kernels could not be loaded ({error})") from error
    functions.heedful_run.argtypes = [_POINTER, _LONG, _POINTER, _INT]
    functions.heedful_normalise.argtypes = [_POINTER, _LONG, _LONG, _LONG, _POINTER, _POINTER, _POINTER, _INT]
    functions.heedful_best.argtypes = [_POINTER, _LONG, _LONG, _LONG, _LONG, _POINTER, _POINTER, _INT]
    for name in ("run", "normalise", "best"):
        getattr(functions, f"heedful_{name}").restype = None
    functions.heedful_allow_tiles.restype = _INT
    if functions.heedful_allow_tiles():
        raise CannotCompileError("the system does not let processes use AMX: set `HEEDFUL_NATIVE=vnni`")
    return Library(compiled, functions)


@cache
def find_library() -> Library | str:
    """Return the kernels, compiled if need be, or why there are none."""
    try:
        return open_library(compile_kernels())
    except CannotCompileError as error:
        return str(error)


def library() -> Library | None:
    """Return the kernels, if there are any."""
    found = find_library()
    return None if isinstance(found, str) else found
