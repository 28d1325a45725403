"""Label-smoothed cross-entropy of an output layer, without holding the scores of the whole batch in memory.

    q = (1 - s) * onehot(y) + s / V          Szegedy et al. 2016; s = 0.1 in Vaswani et al. 2017, 5.4
    loss = -sum_v q_v log p_v = lse - (1 - s) * z_y - s * mean_v z_v,     z = x W^T + b,  lse = log sum_v exp z_v
    d loss / d z = p - q

Functions return sums, not means: the trainer, which sees all tokens of an update, divides once.
"""

from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import IGNORED
from heedful.nn.kernels import use_kernels

_CHUNK_BYTES: Final = 8 * 2**20  # of float32 scores: fits in a CPU's cache, and is below malloc's mmap threshold


def smoothed_cross_entropy(
    x_NE: Float[Tensor, "N E"],
    weight_VE: Float[Tensor, "V E"],
    bias_V: Float[Tensor, "V"] | None,
    labels_N: Int[Tensor, "N"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the summed smoothed loss, which has gradients, and the summed negative log-likelihood, which has none."""
    if use_kernels(x_NE) and x_NE.dtype != torch.float64:
        from heedful.nn.losses.cross_entropy_gpu import chunked_cross_entropy  # imports Triton, which only GPUs need

        return chunked_cross_entropy(x_NE, weight_VE, bias_V, labels_N, smoothing)
    if x_NE.device.type == "cpu":
        wanted = torch.is_grad_enabled()  # asked here, because inside `forward` it is always False
        loss, likelihood = _Chunked.apply(  # type: ignore[no-untyped-call]
            x_NE, weight_VE, bias_V, labels_N, smoothing, wanted
        )
        return loss, likelihood
    return reference(x_NE, weight_VE, bias_V, labels_N, smoothing)


def reference(
    x_NE: Float[Tensor, "N E"],
    weight_VE: Float[Tensor, "V E"],
    bias_V: Float[Tensor, "V"] | None,
    labels_N: Int[Tensor, "N"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Compute the same with PyTorch's own functions: for float64 on a GPU, for other devices, and for tests."""
    bias = None if bias_V is None else bias_V.to(x_NE.dtype)
    scores_NV = F.linear(x_NE, weight_VE.to(x_NE.dtype), bias)
    scores_NV = scores_NV.to(torch.promote_types(scores_NV.dtype, torch.float32))
    loss = F.cross_entropy(scores_NV, labels_N, ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum")
    likelihood = F.cross_entropy(scores_NV.detach(), labels_N, ignore_index=IGNORED, reduction="sum")
    return loss, likelihood


class _Chunked(torch.autograd.Function):
    """Computes the gradients of x, W and b in the forward pass, a few hundred tokens at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        x_NE: Tensor,
        weight_VE: Tensor,
        bias_V: Tensor | None,
        labels_N: Tensor,
        smoothing: float,
        wanted: bool,
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight_VE.shape[0]
        weight = weight_VE.to(x_NE.dtype)
        needed = wanted and any(ctx.needs_input_grad)
        wide = torch.promote_types(x_NE.dtype, torch.float32)
        loss = torch.zeros((), dtype=torch.float64)
        likelihood = torch.zeros((), dtype=torch.float64)
        x_gradient = torch.empty_like(x_NE) if needed else None
        weight_gradient = torch.zeros(weight_VE.shape, dtype=wide) if needed else None
        bias_gradient = torch.zeros(vocabulary, dtype=wide) if needed and bias_V is not None else None
        rows = max(1, _CHUNK_BYTES // (4 * vocabulary))
        for start in range(0, x_NE.shape[0], rows):
            x, labels = x_NE[start : start + rows], labels_N[start : start + rows]
            counts = labels != IGNORED
            target = labels.masked_fill(~counts, 0).unsqueeze(1)
            scores = F.linear(x, weight)
            if bias_V is not None:
                scores += bias_V.to(x.dtype)
            # log p replaces the scores: both lse - z_y and lse - mean z follow from it.
            log_p = scores.log_softmax(1, dtype=wide)
            miss = -log_p.gather(1, target).squeeze(1) * counts
            spread = -log_p.mean(1) * counts
            likelihood += miss.sum(dtype=torch.float64)
            loss += ((1 - smoothing) * miss + smoothing * spread).sum(dtype=torch.float64)
            if x_gradient is None or weight_gradient is None:
                continue
            gradient = log_p.exp_().sub_(smoothing / vocabulary)
            gradient.scatter_add_(1, target, torch.full_like(target, smoothing - 1, dtype=wide))
            gradient *= counts.unsqueeze(1)
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0)
            gradient = gradient.to(x.dtype)
            torch.mm(gradient, weight, out=x_gradient[start : start + rows])
            if wide == x.dtype:
                weight_gradient.addmm_(gradient.T, x)
            else:
                weight_gradient += gradient.T @ x
        ctx.save_for_backward(x_gradient, weight_gradient, bias_gradient)
        summed_loss, summed_likelihood = loss.to(wide), likelihood.to(wide)
        ctx.mark_non_differentiable(summed_likelihood)
        return summed_loss, summed_likelihood

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        factor = float(gradients[0])
        scaled = (g if g is None or factor == 1 else g * factor for g in ctx.saved_tensors)
        return *scaled, None, None, None


def label_log_probabilities(
    x_NE: Float[Tensor, "N E"],
    weight_VE: Float[Tensor, "V E"],
    bias_V: Float[Tensor, "V"] | None,
    labels_N: Int[Tensor, "N"],
) -> Float[Tensor, "N"]:
    """Return log p of every label, without gradients; 0 where it is ignored. Takes a few hundred labels at a time."""
    weight, bias = weight_VE.to(x_NE.dtype), None if bias_V is None else bias_V.to(x_NE.dtype)
    wide = torch.promote_types(x_NE.dtype, torch.float32)
    rows = max(1, _CHUNK_BYTES // (4 * weight_VE.shape[0]))
    parts = []
    for x, labels in zip(x_NE.detach().split(rows), labels_N.split(rows), strict=True):
        log_p = F.linear(x, weight, bias).log_softmax(1, dtype=wide)
        counts = labels != IGNORED
        parts.append(log_p.gather(1, labels.masked_fill(~counts, 0).unsqueeze(1)).squeeze(1) * counts)
    return torch.cat(parts)
