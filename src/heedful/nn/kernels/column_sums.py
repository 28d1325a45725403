"""Sums over the rows of a matrix, as in the gradients of biases, in one pass over memory (Triton, CUDA).

    db = sum over rows dy
    dh = dy where y > 0, else 0,   db = sum over rows dh,   for y = max(0, h)      Nair & Hinton 2010

The first pass reads dy (and y) once and writes dh once: each program loops over a chunk of the rows in a block of
columns and writes one row of float32 sums. A second, small pass adds the chunks. There are no atomics: every sum has a
fixed order, so that runs are reproducible bit by bit.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from heedful.nn.kernels.sizes import count_multiprocessors

_COLUMNS: Final = 128  # per program: 256 contiguous bytes of a row, 16 per thread
_ROWS: Final = 32  # per step: 32 values per thread, with 64 bytes in flight
_GATED_ROWS: Final = 16  # if two matrices are read: as many bytes in flight, in as few registers
_PROGRAMS: Final = 6  # per multiprocessor: their registers fit together, so that all run at the same time
_ADDED_ROWS: Final = 128  # of the second pass, which has few programs and many registers
_ADDED_COLUMNS: Final = 16


def column_sums(dy_NF: Float[Tensor, "N F"]) -> Float[Tensor, "F"]:
    """Return the sum of each column in float32."""
    # An operator takes about 20 microseconds per call, more than the kernels; only compilers need one.
    return (column_sums_operator if torch.compiler.is_compiling() else _launch_sums)(dy_NF)


def relu_gradient_and_column_sums(
    dy_NF: Float[Tensor, "N F"], y_NF: Float[Tensor, "N F"]
) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F"]]:
    """Return the gradient before a ReLU with output y, in the dtype of dy, and the sums of its columns."""
    return (relu_gradient_operator if torch.compiler.is_compiling() else _launch_gradient)(dy_NF, y_NF)


# --- references in plain PyTorch --------------------------------------------------------------------------------------


def reference_column_sums(dy_NF: Float[Tensor, "N F"]) -> Float[Tensor, "F"]:
    """db = sum over rows dy"""
    return dy_NF.sum(0, dtype=torch.promote_types(dy_NF.dtype, torch.float32))


def reference_relu_gradient_and_column_sums(
    dy_NF: Float[Tensor, "N F"], y_NF: Float[Tensor, "N F"]
) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F"]]:
    """dh = dy where y > 0, else 0; db = sum over rows dh"""
    dh_NF = dy_NF.where(y_NF > 0, 0)
    return dh_NF, reference_column_sums(dh_NF)


# --- Triton kernels ---------------------------------------------------------------------------------------------------


@triton.jit
def _sum_chunks(
    dy, y, dh, sums, count, width, steps,
    GATED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(1)
    row, column = tl.arange(0, ROWS), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    place = row[:, None] * width + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)  # rows are added once, after the loop
    for step in range(steps):
        first = (chunk * steps + step) * ROWS
        start = first.to(tl.int64) * width
        there = (row[:, None] < count - first) & (column[None, :] < width)
        slope = tl.load(dy + start + place, there, 0.0).to(tl.float32)  # 0 outside the matrix
        if GATED:
            value = tl.load(y + start + place, there, 0.0).to(tl.float32)
            slope = tl.where(value > 0, slope, 0.0)
            tl.store(dh + start + place, slope.to(dh.dtype.element_ty), there)
        total += slope
    tl.store(sums + chunk * width + column, tl.sum(total, 0), column < width)


@triton.jit
def _add_chunks(sums, result, chunks, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, chunks, ROWS):
        there = (row[:, None] < chunks - first) & (column[None, :] < width)
        total += tl.load(sums + (first + row[:, None]) * width + column[None, :], there, 0.0)
    tl.store(result + column, tl.sum(total, 0), column < width)


# --- operators for compilers ------------------------------------------------------------------------------------------


def _launch_sums(dy_NF: Tensor) -> Tensor:
    return _launch(dy_NF.contiguous(), None, None, _ROWS)


column_sums_operator = torch.library.custom_op("heedful::column_sums", _launch_sums, mutates_args=())


@column_sums_operator.register_fake
def _shape_of_sums(dy_NF: Tensor) -> Tensor:
    return dy_NF.new_empty(dy_NF.shape[1], dtype=torch.float32)


def _launch_gradient(dy_NF: Tensor, y_NF: Tensor) -> tuple[Tensor, Tensor]:
    dh_NF = dy_NF.new_empty(dy_NF.shape)
    return dh_NF, _launch(dy_NF.contiguous(), y_NF.contiguous(), dh_NF, _GATED_ROWS)


relu_gradient_operator = torch.library.custom_op("heedful::relu_gradient", _launch_gradient, mutates_args=())


@relu_gradient_operator.register_fake
def _shapes_of_gradient(dy_NF: Tensor, y_NF: Tensor) -> tuple[Tensor, Tensor]:
    return dy_NF.new_empty(dy_NF.shape), dy_NF.new_empty(dy_NF.shape[1], dtype=torch.float32)


def _launch(dy_NF: Tensor, y_NF: Tensor | None, dh_NF: Tensor | None, rows: int) -> Tensor:
    """Run both passes; return the sums."""
    count, width = dy_NF.shape
    blocks = triton.cdiv(width, _COLUMNS)
    chunks, steps = _division(triton.cdiv(count, rows), blocks, dy_NF.device)
    sums = dy_NF.new_empty((chunks, width), dtype=torch.float32)
    _sum_chunks[(blocks, chunks)](
        dy_NF, y_NF, dh_NF, sums, count, width, steps, GATED=y_NF is not None, ROWS=rows, COLUMNS=_COLUMNS, num_warps=4
    )
    result = dy_NF.new_empty(width, dtype=torch.float32)
    _add_chunks[(triton.cdiv(width, _ADDED_COLUMNS),)](
        sums, result, chunks, width, ROWS=_ADDED_ROWS, COLUMNS=_ADDED_COLUMNS, num_warps=4
    )
    return result


def _division(steps: int, blocks: int, device: torch.device) -> tuple[int, int]:
    """Return into how many chunks the steps of a block of columns are divided, and the number of steps per chunk."""
    most = max(1, _PROGRAMS * count_multiprocessors(device) // blocks)
    each = triton.cdiv(max(1, steps), most)
    return triton.cdiv(max(1, steps), each), each
