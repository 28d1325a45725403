"""The best tokens of each row of logits, and the log of its sum of exponentials, in one pass over the logits.

    lse = log sum_v exp(x_v)      over the whole vocabulary
    best tokens                   among the tokens that are allowed

Shape letter of this file: C  candidates per row
"""

import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from heedful.nn.kernels import use_kernels


def best_tokens(
    logits_RV: Float[Tensor, "R V"],
    count: int,
    allowed_V: Bool[Tensor, "V"],
    ends_R: Bool[Tensor, "R"],
    end: int,
    scores_RV: Float[Tensor, "R V"] | None = None,
) -> tuple[Float32[Tensor, "R C"], Int64[Tensor, "R C"], Float32[Tensor, "R"]]:
    """Return the logits and tokens of candidates, unordered, and the log of the sum of exponentials of each row.

    The `count` best candidates of a row are its `count` best tokens among the `allowed` ones, including token `end`
    only where `ends` is true. There are no duplicates. If fewer tokens are allowed, the remaining candidates have a
    logit of minus infinity and an arbitrary token. The sum is over all tokens, allowed or not.

    Where constraints have changed the logits, `scores` are the result: tokens are ranked by them, and they are returned
    instead of the logits. The sum remains that of the logits.
    """
    if use_kernels(logits_RV):
        from heedful.nn.kernels.best_tokens import best_tokens_kernel

        return best_tokens_kernel(logits_RV, count, allowed_V, ends_R, end, scores_RV)
    rows, size = logits_RV.shape
    token_V = torch.arange(size, device=logits_RV.device)
    allowed_RV = allowed_V & ((token_V != end) | ends_R[:, None])
    scores_RV = (logits_RV if scores_RV is None else scores_RV).float().masked_fill(~allowed_RV, -torch.inf)
    nothing = scores_RV.new_full((rows, max(0, count - size)), -torch.inf)  # the vocabulary may be smaller
    scores_RC, tokens_RC = torch.cat((scores_RV, nothing), 1).topk(count)
    return scores_RC, tokens_RC.clamp(max=size - 1), logits_RV.float().logsumexp(-1)
