"""The best tokens of every row's logits, and the log of its sum of exponentials, in one reading.

    lse = log sum_v exp(x_v)      over the whole vocabulary
    the best                      of the tokens that may be chosen

Shape letter of this file: C  candidates of a row
"""

import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from heedful.nn.kernels import use_kernels


def best_tokens(
    logits_RV: Float[Tensor, "R V"], count: int, allowed_V: Bool[Tensor, "V"], ends_R: Bool[Tensor, "R"], end: int
) -> tuple[Float32[Tensor, "R C"], Int64[Tensor, "R C"], Float32[Tensor, "R"]]:
    """Return the logits and tokens of candidates, in no order, and the log of each row's sum of exponentials.

    The `count` best candidates of a row are its `count` best tokens among those that `allowed` names, with token `end`
    only where `ends` is true. No token is there twice. Where fewer are left, minus infinity stands beside a token that
    means nothing. The sum is over all tokens, forbidden or not.
    """
    if use_kernels(logits_RV):
        from heedful.nn.kernels.best_tokens import best_tokens_kernel

        return best_tokens_kernel(logits_RV, count, allowed_V, ends_R, end)
    return best_tokens_reference(logits_RV, count, allowed_V, ends_R, end)


def best_tokens_reference(
    logits_RV: Float[Tensor, "R V"], count: int, allowed_V: Bool[Tensor, "V"], ends_R: Bool[Tensor, "R"], end: int
) -> tuple[Float32[Tensor, "R C"], Int64[Tensor, "R C"], Float32[Tensor, "R"]]:
    """What `best_tokens` means, with exactly `count` candidates a row."""
    rows, size = logits_RV.shape
    token_V = torch.arange(size, device=logits_RV.device)
    allowed_RV = allowed_V & ((token_V != end) | ends_R[:, None])
    scores_RV = logits_RV.float().masked_fill(~allowed_RV, -torch.inf)
    nothing = scores_RV.new_full((rows, max(0, count - size)), -torch.inf)  # a vocabulary may be smaller than the count
    scores_RC, tokens_RC = torch.cat((scores_RV, nothing), 1).topk(count)
    return scores_RC, tokens_RC.clamp(max=size - 1), logits_RV.float().logsumexp(-1)
