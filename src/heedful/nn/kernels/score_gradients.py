"""The loss of every row of scores, and the gradients of the scores in the same memory (Triton, CUDA).

    loss = lse - (1 - s) z_y - s mean_v z_v        d loss / d z_v = p_v - q_v = exp(z_v - lse) - s / V - (1 - s) [v = y]
         = (lse - z_y) - s mean_v (z_v - z_y)      the form that is computed: differences are precise in float32

One program per row makes two passes over the vocabulary in blocks. The first finds the largest score, the sum of
exponentials and the sum of differences; the second overwrites each score with its gradient, in the dtype that the
following matrix products need. It runs backwards, because the blocks read last are still in the cache. A row is read
from memory once and written once, as long as the rows in flight fit in the second-level cache (rows of 32,000 scores of
16 bits do).

Rows whose label is ignored are not read; their losses and gradients are 0. Every row has its own results: nothing is
added atomically, and runs are reproducible bit by bit. A label outside the vocabulary makes the results NaN.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from heedful.base.packed import IGNORED

BLOCK = 4096  # scores per block: 16 per thread, two loads of 16 bytes with 16-bit scores
WARPS = 8


@triton.jit
def _replace(
    scores, labels, losses, misses, words, step, smoothing,
    IGNORED: tl.constexpr, WANTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)  # row * step may exceed 2^31
    first = scores + row * step
    label = tl.load(labels + row)
    place = tl.arange(0, BLOCK)
    if label == IGNORED:
        tl.store(losses + row, 0.0)
        tl.store(misses + row, 0.0)
        if WANTED:
            nothing = tl.zeros((BLOCK,), scores.dtype.element_ty)
            for start in range(0, words, BLOCK):
                tl.store(first + start + place, nothing, start + place < step)
    else:
        # Read before the first reduction, which synchronizes all threads: none overwrites it before all have read it.
        of_label = tl.load(first + label, (label >= 0) & (label < words), float("nan")).to(tl.float32)
        greatest = -float("inf")
        exponentials = tl.zeros((BLOCK,), tl.float32)  # one sum per column of a block, reduced at the end
        differences = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, words, BLOCK):
            columns = start + place
            z = tl.load(first + columns, columns < step, 0.0).to(tl.float32)
            z = tl.where(columns < words, z, -float("inf"))
            highest = tl.maximum(greatest, tl.max(z, 0))
            exponentials = exponentials * tl.exp(greatest - highest) + tl.exp(z - highest)
            differences += tl.where(columns < words, z - of_label, 0.0)
            greatest = highest
        total = tl.sum(exponentials, 0)
        miss = greatest - of_label + tl.log(total)
        tl.store(misses + row, miss)
        tl.store(losses + row, miss - smoothing * (tl.sum(differences, 0) / words))
        if WANTED:
            share, spread, blocks = 1.0 / total, smoothing / words, tl.cdiv(words, BLOCK)
            for block in range(0, blocks):
                columns = (blocks - 1 - block) * BLOCK + place
                z = tl.load(first + columns, columns < step, 0.0).to(tl.float32)
                z = tl.where(columns < words, z, -float("inf"))  # padding may contain anything
                gradient = tl.exp(z - greatest) * share - spread
                gradient = tl.where(columns == label, gradient - (1.0 - smoothing), gradient)
                tl.store(first + columns, gradient.to(scores.dtype.element_ty), columns < step)


def score_gradients(
    room_NS: Tensor, words: int, labels_N: Tensor, smoothing: float, wanted: bool
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and the negative log-likelihood of each row, in float32.

    A row of `room` starts with its scores, one per word, followed by padding, which is ignored. If gradients are
    wanted, they overwrite the scores, rounded to their dtype, and the padding becomes finite. If the length of rows is
    a multiple of 16, they are read and written 16 bytes at a time, whatever the number of words.
    """
    rows, step = room_NS.shape
    losses = torch.empty(rows, dtype=torch.float32, device=room_NS.device)
    misses = torch.empty_like(losses)
    if rows:
        _replace[(rows,)](
            room_NS, labels_N.contiguous(), losses, misses, words, step, smoothing,
            IGNORED=IGNORED, WANTED=wanted, BLOCK=BLOCK, num_warps=WARPS,
        )  # fmt: skip
    return losses, misses


def reference(room_NS: Tensor, words: int, labels_N: Tensor, smoothing: float, wanted: bool) -> tuple[Tensor, Tensor]:
    """Compute the same in plain PyTorch, in float32 or wider."""
    scores_NV = room_NS[:, :words]
    counts = labels_N != IGNORED
    target = labels_N.masked_fill(~counts, 0).unsqueeze(1)
    log_p = scores_NV.log_softmax(1, dtype=torch.promote_types(scores_NV.dtype, torch.float32))
    q = torch.full_like(log_p, smoothing / words)
    q.scatter_add_(1, target, torch.full_like(target, 1 - smoothing, dtype=q.dtype))
    if wanted:
        scores_NV.copy_((log_p.exp() - q) * counts.unsqueeze(1))
    return -(q * log_p).sum(1) * counts, -log_p.gather(1, target).squeeze(1) * counts
