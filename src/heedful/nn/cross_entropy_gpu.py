"""The output layer's loss on a GPU: scores of a chunk of tokens at a time, in the type of the states.

For each chunk: scores z = x W^T + b, a matrix product; a kernel of our own, which reads them, returns the loss of every
row and leaves the gradients g = p - q in their place; then dx = g W, dW += g^T x and db += sum g. All chunks share one
buffer. Scores in float32 exist nowhere; those of 16 bits are written by the product, read and written by the kernel,
and read by the two products.

Gradients are there after the forward pass, for a loss whose own gradient is 1; the backward pass multiplies them by
what it really is: a tensor, so that nobody waits for the device. As an operator of PyTorch's it goes through compilers
and into CUDA graphs.
"""

from typing import Any, Final

import torch
from torch import Tensor

from heedful.nn.kernels.score_gradients import score_gradients

# Of a chunk's scores. More would only take memory; less is more chunks, of which each reads and writes dW once. 24,576
# tokens by 32,000 words of 16 bits are 6 chunks of 4,096 tokens.
_CHUNK_BYTES: Final = 256 * 2**20
_FEWEST_ROWS: Final = 2048  # of a chunk, so that dW += g^T x spends its time on products, however large the vocabulary
# In scores: the kernel wants rows that begin at multiples of 16 bytes, and libraries keep their fast products for sizes
# that are such multiples. Words of zeros fill a vocabulary up; what becomes of them is looked at by nobody.
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
    """Return the loss, the likelihood, and the gradients of x, W and b: empty tensors where none are wanted."""
    tokens, words = x_NE.shape[0], weight_VE.shape[0]
    step = -(-words // _ALIGNMENT) * _ALIGNMENT
    weight, bias = _filled(weight_VE, step, x_NE.dtype), None if bias_V is None else _filled(bias_V, step, x_NE.dtype)
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
        gradients = scores  # they stand where the scores stood
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
    ctx.set_materialize_grads(False)  # or each backward pass would fill a matrix of zeros for the gradient of dW
    ctx.save_for_backward(*gradients)
    ctx.biased, ctx.wanted = inputs[2] is not None, inputs[5]


def _differentiate(ctx: Any, factor: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if factor is None or not ctx.wanted:
        return (None,) * 6
    # In float32, or the factor would be rounded to 16 bits. Always new tensors: what is returned may become `.grad`,
    # and what is saved serves every further backward pass.
    dx, dW, db = ((g.float() * factor).to(g.dtype) for g in ctx.saved_tensors)
    return dx, dW, db if ctx.biased else None, None, None, None


output_loss.register_autograd(_differentiate, setup_context=_save)


def _rows(tokens: int, row_bytes: int) -> int:
    """Rows of a chunk: chunks as equal as can be, as few as the limit allows, none with too few rows."""
    chunks = min(-(-tokens * row_bytes // _CHUNK_BYTES), tokens // _FEWEST_ROWS)
    return max(1, -(-tokens // max(1, chunks)))


def _filled(parameter: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """The parameter in a type, with zeros behind it up to so many rows."""
    if parameter.shape[0] == rows:
        return parameter.to(dtype)
    filled = parameter.new_zeros(rows, *parameter.shape[1:], dtype=dtype)
    filled[: parameter.shape[0]] = parameter
    return filled


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, where total is float32: no sum over a chunk is rounded to 16 bits."""
    if left.is_cuda and left.dtype != total.dtype:
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)  # which CPUs do not know
    else:
        total.addmm_(left.to(total.dtype), right.to(total.dtype))
