"""From scores over the vocabulary to the few continuations that a search goes on with.

Shape letter of this file: C  tokens chosen for each row
"""

import math
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.data.tokenizer import BEGIN, PAD, UNKNOWN

# No search proposes these: markers of ours, and a piece that says nothing to a reader. They keep their share of the
# probability, so that log P is the model's own.
NEVER: Final = (PAD, BEGIN, UNKNOWN)


def best_tokens(logits_RV: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The log probabilities of each row's best tokens, and the tokens: `count` of them, or all, best first.

    Sums are float32 or wider. The logits are spent.
    """
    logits_RV = logits_RV.to(torch.promote_types(logits_RV.dtype, torch.float32))
    greatest_R1 = logits_RV.amax(1, keepdim=True)
    # torch.log_softmax and torch.logsumexp take several times as long on a CPU.
    log_sum_R1 = (logits_RV - greatest_R1).exp_().sum(1, keepdim=True).log_()
    for token in NEVER:
        logits_RV[:, token] = -math.inf
    best_RC, tokens_RC = _top(logits_RV, min(count, logits_RV.shape[1]))
    return best_RC - greatest_R1 - log_sum_R1, tokens_RC


def _top(x_RV: Float[Tensor, "R V"], count: int) -> tuple[Tensor, Tensor]:
    """The same as torch.topk, which sorts slowly on the CPU.

    The columns are dealt into groups; the best `count` of a row stand in its `count` groups with the greatest maxima,
    so only these are sorted.
    """
    size = math.isqrt(x_RV.shape[1] // count)  # of a group: as much sorting among groups as inside the chosen
    if x_RV.device.type != "cpu" or size < 4:
        return x_RV.topk(count, dim=1)
    groups = x_RV.shape[1] // size
    dealt = x_RV[:, : size * groups].unflatten(1, (size, groups))  # column c is in group c % groups
    chosen_RC = dealt.amax(1).topk(count, dim=1, sorted=False).indices
    columns_RS = (torch.arange(size).unsqueeze(1) * groups + chosen_RC.unsqueeze(1)).flatten(1)
    rest = torch.arange(size * groups, x_RV.shape[1]).expand(x_RV.shape[0], -1)
    columns_RS = torch.cat([columns_RS, rest], dim=1)
    best_RC, places_RC = x_RV.gather(1, columns_RS).topk(count, dim=1)
    return best_RC, columns_RS.gather(1, places_RC)
