"""The kernel of `nn.decoding.best_tokens`: the first of two stages of top-k, and the sum of exponentials.

`torch.topk` sorts more than a search needs, and log-softmax writes the whole vocabulary again. Here a program reads one
block of a row once, keeps it in registers and extracts its best tokens one by one; the caller ranks the few candidates
of all blocks of a sentence.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

BLOCK: Final = 4096  # tokens per block


@triton.jit
def _best(
    logits, ranked, allowed, ends, scores, tokens, sums, end, size, row_step, ranked_step, blocks,
    RANKED: tl.constexpr, NARROW: tl.constexpr, COUNT: tl.constexpr, COUNT_ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find the best tokens of one block of one row.

    Logit and index are combined into one integer that sorts like the logit, so that each round is a single maximum,
    without ties: the bits of a negative number are inverted, and the index, counted from the end of the block, is in
    the low bits. A bfloat16 leaves 16 of 32 bits for the index; wider dtypes use 64 bits.
    """
    block, row = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    place = tl.arange(0, BLOCK)
    token = block * BLOCK + place
    there = token < size
    x = tl.load(logits + row.to(tl.int64) * row_step + token, there, -float("inf")).to(tl.float32)

    top = tl.max(x, 0)
    base = tl.where(tl.abs(top) == float("inf"), 0.0, top)
    tl.store(sums + row.to(tl.int64) * blocks + block, base + tl.log(tl.sum(tl.exp(x - base), 0)))
    if RANKED:  # by other scores than the logits
        x = tl.load(ranked + row.to(tl.int64) * ranked_step + token, there, -float("inf")).to(tl.float32)

    chosen = tl.load(allowed + token, there, 0) & ((token != end) | tl.load(ends + row))
    bits = tl.where(chosen, x, -float("inf")).to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    if NARROW:
        least = -0x80000000
        keys = (ordered & -0x10000) | (BLOCK - 1 - place)
        kept = tl.zeros((COUNT_ROOM,), tl.int32)
    else:
        least = -0x8000000000000000
        keys = (ordered.to(tl.int64) << 32) | (BLOCK - 1 - place).to(tl.int64)
        kept = tl.zeros((COUNT_ROOM,), tl.int64)
    turn = tl.arange(0, COUNT_ROOM)
    for i in range(COUNT):
        best = tl.max(keys, 0)
        kept = tl.where(turn == i, best, kept)
        keys = tl.where(keys == best, least, keys)

    if NARROW:
        high = kept & -0x10000
        found = tl.where(high < 0, (high ^ 0x7FFFFFFF) & -0x10000, high)
        found_place = BLOCK - 1 - (kept & 0xFFFF)
    else:
        high = (kept >> 32).to(tl.int32)
        found = tl.where(high < 0, high ^ 0x7FFFFFFF, high)
        found_place = BLOCK - 1 - (kept & 0xFFFF).to(tl.int32)
    found_token = tl.minimum(block * BLOCK + found_place, size - 1)  # stay within the vocabulary
    out = tl.program_id(0).to(tl.int64) * COUNT + turn
    tl.store(scores + out, found.to(tl.float32, bitcast=True), turn < COUNT)
    tl.store(tokens + out, found_token.to(tl.int64), turn < COUNT)


@triton.jit
def _whole_sum(sums, lse, blocks, ROOM: tl.constexpr):
    """Combine the sums of the blocks of a row, all as logarithms."""
    row, block = tl.program_id(0), tl.arange(0, ROOM)
    parts = tl.load(sums + row.to(tl.int64) * blocks + block, block < blocks, -float("inf"))
    top = tl.max(parts, 0)
    base = tl.where(tl.abs(top) == float("inf"), 0.0, top)
    tl.store(lse + row, base + tl.log(tl.sum(tl.exp(parts - base), 0)))


def best_tokens_kernel(
    logits_RV: Float[Tensor, "R V"],
    count: int,
    allowed_V: Bool[Tensor, "V"],
    ends_R: Bool[Tensor, "R"],
    end: int,
    scores_RV: Float[Tensor, "R V"] | None = None,
    block: int = BLOCK,
) -> tuple[Float32[Tensor, "R C"], Int64[Tensor, "R C"], Float32[Tensor, "R"]]:
    """Compute `best_tokens` with one program per row and block of the vocabulary, and `count` candidates from each.

    The logits are read once; `block` is a power of two between `count` and 65,536.
    """
    rows, size = logits_RV.shape
    ranked_RV = logits_RV if scores_RV is None else scores_RV
    blocks = triton.cdiv(size, block)
    scores_RC = torch.empty((rows, blocks * count), dtype=torch.float32, device=logits_RV.device)
    tokens_RC = torch.empty((rows, blocks * count), dtype=torch.int64, device=logits_RV.device)
    sums = torch.empty((rows, blocks), dtype=torch.float32, device=logits_RV.device)
    lse_R = torch.empty(rows, dtype=torch.float32, device=logits_RV.device)
    _best[(rows * blocks,)](
        logits_RV, ranked_RV, allowed_V, ends_R, scores_RC, tokens_RC, sums, end, size,
        logits_RV.stride(0), ranked_RV.stride(0), blocks,
        RANKED=scores_RV is not None, NARROW=ranked_RV.dtype == torch.bfloat16,
        COUNT=count, COUNT_ROOM=triton.next_power_of_2(count), BLOCK=block, num_warps=8,
    )  # fmt: skip
    _whole_sum[(rows,)](sums, lse_R, blocks, ROOM=triton.next_power_of_2(blocks), num_warps=1)
    return scores_RC, tokens_RC, lse_R
