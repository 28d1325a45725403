"""Sums over the rows of a matrix, as in the gradients of biases, in one pass over memory (Triton, CUDA).

    db = sum over rows dy
    dh = dy where y > 0, else 0,   db = sum over rows dh,   for y = max(0, h)      Nair & Hinton 2010
    dh = dy gelu'(h),              db = sum over rows dh,   for y = gelu(h)        Hendrycks & Gimpel 2016

    gelu(h) = h Phi(h),   gelu' = Phi + h phi
    its form with a tanh: h s,   s = sigmoid(2 c (h + a h^3)),   gelu' = s + 2 c h s (1 - s) (1 + 3 a h^2),
    c = sqrt(2 / pi),   a = 0.044715

The first pass reads dy (and y or h) once and writes dh once: each program loops over a chunk of the rows in a block of
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

_PLAIN, _RELU, _GELU_TANH, _GELU = range(4)  # what the gradient passes through before it is summed


def column_sums(dy_NF: Float[Tensor, "N F"]) -> Float[Tensor, "F"]:
    """Return the sum of each column in float32."""
    # An operator takes about 20 microseconds per call, more than the kernels; only compilers need one.
    return (column_sums_operator if torch.compiler.is_compiling() else _launch_sums)(dy_NF)


def relu_gradient_and_column_sums(
    dy_NF: Float[Tensor, "N F"], y_NF: Float[Tensor, "N F"]
) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F"]]:
    """Return the gradient before a ReLU with output y, in the dtype of dy, and the sums of its columns."""
    return (relu_gradient_operator if torch.compiler.is_compiling() else _launch_gradient)(dy_NF, y_NF)


def gelu_gradient_and_column_sums(
    dy_NF: Float[Tensor, "N F"], h_NF: Float[Tensor, "N F"], tanh: bool
) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F"], Float[Tensor, "N F"]]:
    """Return the gradient before a GELU with input h, in the dtype of dy, the sums of its columns, and gelu(h).

    gelu(h) is written on the way, so that the forward pass need not keep it.
    """
    return (gelu_gradient_operator if torch.compiler.is_compiling() else _launch_gelu)(dy_NF, h_NF, tanh)


# --- Triton kernels ---------------------------------------------------------------------------------------------------


@triton.jit
def _sum_chunks(
    dy, y, dh, output, sums, count, width, steps,
    GATE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
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
        if GATE != 0:
            value = tl.load(y + start + place, there, 0.0).to(tl.float32)
            if GATE == 1:
                slope = tl.where(value > 0, slope, 0.0)
            elif GATE == 2:
                square = value * value
                # 2 c (h + a h^3), bounded where the sigmoid is 0 in any case, and the exponential would be infinite
                share = tl.sigmoid(tl.maximum(1.5957691216057308 * (value + 0.044715 * value * square), -80.0))
                slope *= share + 1.5957691216057308 * value * share * (1 - share) * (1 + 0.134145 * square)
                tl.store(output + start + place, (value * share).to(output.dtype.element_ty), there)
            else:
                density = tl.exp(-0.5 * value * value) * 0.3989422804014327  # 1 / sqrt(2 pi)
                share = 0.5 * (1 + tl.erf(value * 0.7071067811865476))
                slope *= share + value * density
                tl.store(output + start + place, (value * share).to(output.dtype.element_ty), there)
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
    return _launch(dy_NF.contiguous(), None, None, _PLAIN)


column_sums_operator = torch.library.custom_op("heedful::column_sums", _launch_sums, mutates_args=())


@column_sums_operator.register_fake
def _shape_of_sums(dy_NF: Tensor) -> Tensor:
    return dy_NF.new_empty(dy_NF.shape[1], dtype=torch.float32)


def _launch_gradient(dy_NF: Tensor, y_NF: Tensor) -> tuple[Tensor, Tensor]:
    dh_NF = dy_NF.new_empty(dy_NF.shape)
    return dh_NF, _launch(dy_NF.contiguous(), y_NF.contiguous(), dh_NF, _RELU)


relu_gradient_operator = torch.library.custom_op("heedful::relu_gradient", _launch_gradient, mutates_args=())


@relu_gradient_operator.register_fake
def _shapes_of_gradient(dy_NF: Tensor, y_NF: Tensor) -> tuple[Tensor, Tensor]:
    return dy_NF.new_empty(dy_NF.shape), dy_NF.new_empty(dy_NF.shape[1], dtype=torch.float32)


def _launch_gelu(dy_NF: Tensor, h_NF: Tensor, tanh: bool) -> tuple[Tensor, Tensor, Tensor]:
    dh_NF, y_NF = dy_NF.new_empty(dy_NF.shape), dy_NF.new_empty(dy_NF.shape)
    sums = _launch(dy_NF.contiguous(), h_NF.contiguous(), dh_NF, _GELU_TANH if tanh else _GELU, y_NF)
    return dh_NF, sums, y_NF


gelu_gradient_operator = torch.library.custom_op("heedful::gelu_gradient", _launch_gelu, mutates_args=())


@gelu_gradient_operator.register_fake
def _shapes_of_gelu_gradient(dy_NF: Tensor, h_NF: Tensor, tanh: bool) -> tuple[Tensor, Tensor, Tensor]:
    sums = dy_NF.new_empty(dy_NF.shape[1], dtype=torch.float32)
    return dy_NF.new_empty(dy_NF.shape), sums, dy_NF.new_empty(dy_NF.shape)


def _launch(
    dy_NF: Tensor, y_NF: Tensor | None, dh_NF: Tensor | None, gate: int, output_NF: Tensor | None = None
) -> Tensor:
    """Run both passes; return the sums."""
    count, width = dy_NF.shape
    rows = _GATED_ROWS if gate else _ROWS
    blocks = triton.cdiv(width, _COLUMNS)
    chunks, steps = _division(triton.cdiv(count, rows), blocks, dy_NF.device)
    sums = dy_NF.new_empty((chunks, width), dtype=torch.float32)
    _sum_chunks[(blocks, chunks)](
        dy_NF, y_NF, dh_NF, output_NF, sums, count, width, steps, GATE=gate, ROWS=rows, COLUMNS=_COLUMNS, num_warps=4
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
