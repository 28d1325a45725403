"""The loss of the output layer on a GPU, one chunk of tokens at a time, with scores in the dtype of the states.

For each chunk: a matrix product gives the scores z = x W^T + b; a custom kernel reads them, returns the loss of every
row and overwrites them with the gradients g = p - q; then dx = g W, dW += g^T x and db += sum g. All chunks share one
buffer. Scores never exist in float32; the 16-bit ones are written by the product, read and written by the kernel, and
read by the two products.

The forward pass computes the gradients for an upstream gradient of 1; the backward pass multiplies them by the actual
one, which stays a tensor, so that nothing waits for the device. As a PyTorch operator, the loss can be compiled and
captured in CUDA graphs.
"""

from typing import Any, Final

import torch
from torch import Tensor

from heedful.nn.kernels.score_gradients import score_gradients

# Size of a chunk's scores. Larger chunks only take memory; smaller ones are more, and each reads and writes dW once.
# 24,576 tokens by 32,000 words of 16 bits are 6 chunks of 4,096 tokens.
_CHUNK_BYTES: Final = 256 * 2**20
_FEWEST_ROWS: Final = 2048  # per chunk, so that dW += g^T x is bound by arithmetic, however large the vocabulary
_TILE_ROWS: Final = 256  # products work in tiles of this many rows: a chunk that ends inside one wastes the rest of it
# Counted in scores: the kernel needs rows that start at multiples of 16 bytes, and libraries have fast products for
# such sizes only. The vocabulary is padded with zero words, whose scores and gradients are never used.
_ALIGNMENT: Final = 16


def chunked_cross_entropy(
    x_NE: Tensor, weight_VE: Tensor, bias_V: Tensor | None, labels_N: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the summed smoothed loss, which has gradients, and the summed negative log-likelihood, which has none."""
    parameters = (x_NE, weight_VE) if bias_V is None else (x_NE, weight_VE, bias_V)
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in parameters)
    loss, likelihood, *_ = output_loss(x_NE, weight_VE, bias_V, labels_N, smoothing, wanted)
    return loss, likelihood


@torch.library.custom_op("heedful::output_loss", mutates_args=())
def output_loss(
    x_NE: Tensor, weight_VE: Tensor, bias_V: Tensor | None, labels_N: Tensor, smoothing: float, wanted: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the loss, the likelihood, and the gradients of x, W and b: empty tensors if they are not wanted."""
    tokens, words = x_NE.shape[0], weight_VE.shape[0]
    step = -(-words // _ALIGNMENT) * _ALIGNMENT
    weight, bias = (
        _pad_rows(weight_VE, step, x_NE.dtype),
        None if bias_V is None else _pad_rows(bias_V, step, x_NE.dtype),
    )
    rows = _rows(tokens, step * x_NE.element_size())
    buffer = x_NE.new_empty(rows, step)
    loss, likelihood = x_NE.new_zeros((), dtype=torch.float64), x_NE.new_zeros((), dtype=torch.float64)
    dx = x_NE.new_empty(x_NE.shape if wanted else (0,))
    dW = x_NE.new_zeros(weight.shape if wanted else (0,), dtype=torch.float32)
    db = x_NE.new_zeros(words if wanted and bias is not None else 0, dtype=torch.float32)
    for start in range(0, tokens, rows):
        x, labels = x_NE[start : start + rows], labels_N[start : start + rows]
        scores = buffer[: x.shape[0]]
        if bias is None:
            torch.mm(x, weight.T, out=scores)
        else:
            torch.addmm(bias, x, weight.T, out=scores)
        losses, misses = score_gradients(scores, words, labels, smoothing, wanted)
        loss += losses.sum(dtype=torch.float64)
        likelihood += misses.sum(dtype=torch.float64)
        if not wanted:
            continue
        gradients = scores  # the kernel has overwritten them
        torch.mm(gradients, weight, out=dx[start : start + rows])
        _add_product(dW, gradients.T, x)
        if bias is not None:
            db += gradients[:, :words].sum(0, dtype=torch.float32)
    db = db if bias_V is None else db.to(bias_V.dtype)
    return loss.float(), likelihood.float(), dx, dW[:words].to(weight_VE.dtype), db


@output_loss.register_fake
def _shapes(
    x_NE: Tensor, weight_VE: Tensor, bias_V: Tensor | None, labels_N: Tensor, smoothing: float, wanted: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        x_NE.new_empty((), dtype=torch.float32),
        x_NE.new_empty((), dtype=torch.float32),
        x_NE.new_empty(x_NE.shape if wanted else (0,)),
        weight_VE.new_empty(weight_VE.shape if wanted else (0,)),
        x_NE.new_empty(0, dtype=torch.float32)
        if bias_V is None
        else bias_V.new_empty(bias_V.shape if wanted else (0,)),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, likelihood, *gradients = output
    ctx.mark_non_differentiable(likelihood, *gradients)
    ctx.set_materialize_grads(False)  # otherwise each backward pass would fill a matrix with zeros, as gradient of dW
    ctx.save_for_backward(*gradients)
    ctx.biased, ctx.wanted = inputs[2] is not None, inputs[5]


def _differentiate(ctx: Any, factor: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if factor is None or not ctx.wanted:
        return (None,) * 6
    # In float32, because the factor must not be rounded to 16 bits. Always new tensors: a returned one may become
    # `.grad`, and the saved ones are needed by every further backward pass.
    dx, dW, db = ((g.float() * factor).to(g.dtype) for g in ctx.saved_tensors)
    return dx, dW, db if ctx.biased else None, None, None, None


output_loss.register_autograd(_differentiate, setup_context=_save)


def _rows(tokens: int, row_bytes: int) -> int:
    """Return the rows per chunk: as few and as equal chunks as the limits on their size allow."""
    chunks = min(-(-tokens * row_bytes // _CHUNK_BYTES), tokens // _FEWEST_ROWS)
    rows = max(1, -(-tokens // max(1, chunks)))
    return rows if chunks < 2 else -(-rows // _TILE_ROWS) * _TILE_ROWS


def _pad_rows(parameter: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """Return the parameter in a dtype, padded with zeros to this number of rows."""
    if parameter.shape[0] == rows:
        return parameter.to(dtype)
    filled = parameter.new_zeros(rows, *parameter.shape[1:], dtype=dtype)
    filled[: parameter.shape[0]] = parameter
    return filled


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Compute total += left @ right in float32: no sum over a chunk is rounded to 16 bits."""
    if left.is_cuda and left.dtype != total.dtype:
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)  # not implemented on CPUs
    else:
        total.addmm_(left.to(total.dtype), right.to(total.dtype))
