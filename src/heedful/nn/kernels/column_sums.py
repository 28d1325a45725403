"""Sums over the rows of a matrix, the gradients of biases, each in one pass over memory (Triton, CUDA).

    db = sum over rows dy
    dh = dy where y > 0, else 0,   db = sum over rows dh,   for y = max(0, h)      Nair & Hinton 2010

The first pass reads dy (and y) once and writes dh once: each program walks a chunk of the rows in a block of columns
and leaves one row of float32 sums. A second, tiny one adds up the chunks. No atomics: every sum has one order, so that
a run repeats bit for bit.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from heedful.nn.kernels.sizes import count_multiprocessors

_COLUMNS: Final = 128  # of one program: 256 bytes of a row side by side, 16 of them a thread
_ROWS: Final = 32  # of one step: 32 values a thread, 64 bytes of it on their way
_GATED_ROWS: Final = 16  # where two matrices are read, so that as many bytes are on their way in as few registers
_PROGRAMS: Final = 6  # of one multiprocessor: their registers fit it together, so that none is left to run alone
_ADDED_ROWS: Final = 128  # of the second pass, which is short of programs and not of registers
_ADDED_COLUMNS: Final = 16


def column_sums(dy_NF: Float[Tensor, "N F"]) -> Float[Tensor, "F"]:
    """Return the sum of each column in float32."""
    # An operator costs the host some 20 microseconds a call, more than the kernels; only compilers need one.
    return (columns_summed if torch.compiler.is_compiling() else _launch_sums)(dy_NF)


def relu_gradient_and_column_sums(
    dy_NF: Float[Tensor, "N F"], y_NF: Float[Tensor, "N F"]
) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F"]]:
    """Return the gradient in front of a ReLU that put y out, in the type of dy, and the sums of its columns."""
    return (relu_differentiated if torch.compiler.is_compiling() else _launch_gradient)(dy_NF, y_NF)


# --- plain references -------------------------------------------------------------------------------------------------


def reference_column_sums(dy_NF: Float[Tensor, "N F"]) -> Float[Tensor, "F"]:
    """db = sum over rows dy"""
    return dy_NF.sum(0, dtype=torch.promote_types(dy_NF.dtype, torch.float32))


def reference_relu_gradient_and_column_sums(
    dy_NF: Float[Tensor, "N F"], y_NF: Float[Tensor, "N F"]
) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F"]]:
    """dh = dy where y > 0, else 0; db = sum over rows dh"""
    dh_NF = dy_NF.where(y_NF > 0, 0)
    return dh_NF, reference_column_sums(dh_NF)


# --- what Triton compiles ---------------------------------------------------------------------------------------------


@triton.jit
def _sum_chunks(
    dy, y, dh, sums, count, width, steps,
    GATED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(1)
    row, column = tl.arange(0, ROWS), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    place = row[:, None] * width + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)  # rows are added up once, behind the loop
    for step in range(steps):
        first = (chunk * steps + step) * ROWS
        start = first.to(tl.int64) * width
        there = (row[:, None] < count - first) & (column[None, :] < width)
        slope = tl.load(dy + start + place, there, 0.0).to(tl.float32)  # 0 where there is no value: it adds nothing
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


# --- operators that compilers know ------------------------------------------------------------------------------------


def _launch_sums(dy_NF: Tensor) -> Tensor:
    return _launch(dy_NF.contiguous(), None, None, _ROWS)


columns_summed = torch.library.custom_op("heedful::column_sums", _launch_sums, mutates_args=())


@columns_summed.register_fake
def _shape_of_sums(dy_NF: Tensor) -> Tensor:
    return dy_NF.new_empty(dy_NF.shape[1], dtype=torch.float32)


def _launch_gradient(dy_NF: Tensor, y_NF: Tensor) -> tuple[Tensor, Tensor]:
    dh_NF = dy_NF.new_empty(dy_NF.shape)
    return dh_NF, _launch(dy_NF.contiguous(), y_NF.contiguous(), dh_NF, _GATED_ROWS)


relu_differentiated = torch.library.custom_op("heedful::relu_gradient", _launch_gradient, mutates_args=())


@relu_differentiated.register_fake
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
    """Into how many chunks to divide the steps down a block of columns, and how many steps one chunk takes."""
    most = max(1, _PROGRAMS * count_multiprocessors(device) // blocks)
    each = triton.cdiv(max(1, steps), most)
    return triton.cdiv(max(1, steps), each), each
