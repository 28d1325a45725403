"""Attention with any alignment and any distribution: the equation as written, with explicit weights.

    y = p(a(q, K)) V,  a an alignment, p a distribution

Fused attention with the scaled dot product and a softmax is in `backends`.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.nn.alignments.base import Alignment, Candidates


def attend(
    alignment: Alignment,
    distribution: Callable[..., Tensor],
    q_BHQD: Float[Tensor, "B H Q D"],
    candidates: Candidates,
    causal: bool = False,
    *,
    bias_BHQC: Float[Tensor, "#B #H #Q C"] | None = None,
    distance_BHQC: Float[Tensor, "B H Q C"] | None = None,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "B H Q V"], Float[Tensor, "B H Q C"]]:
    """Return what each query reads from the values of the candidates, and the weights.

    `distribution` maps scores, and a mask that is True where a candidate is visible (None: everywhere), to weights.
    `causal`: the query at position i sees the candidates that end at or before i. Scores become weights in float32 or
    wider; values keep their dtype.

    `bias` is added to the scores. `distance` is passed between scores and mask to distributions that need it. `dropout`
    is the fraction of weights to drop, zero outside training; dropped weights are returned as 0.
    """
    scores_BHQC = alignment(q_BHQD, candidates)
    scores_BHQC = scores_BHQC.to(torch.promote_types(scores_BHQC.dtype, torch.float32))
    if bias_BHQC is not None:
        scores_BHQC = scores_BHQC + bias_BHQC
    seen = candidates.seen(q_BHQD.shape[2], causal)
    seen = None if seen is None else seen.expand_as(scores_BHQC)
    measured = () if distance_BHQC is None else (distance_BHQC,)
    weights_BHQC = distribution(scores_BHQC, *measured, seen)
    if dropout:
        weights_BHQC = F.dropout(weights_BHQC, dropout)
    return weights_BHQC.to(candidates.values.dtype) @ candidates.values, weights_BHQC


def position_shares(
    factors_BHQL: Float[Tensor, "B H Q L"], keep_BL: Bool[Tensor, "B L"] | None = None
) -> Float[Tensor, "B Q L"]:
    """Return the share of each position in what each query reads: rows sum to 1, and are 0 where `keep` is False.

    Factors are those of `Alignment.position_weights`, 0 where `keep` is False. They need not sum to one and may be
    negative: a share is the absolute value, averaged over heads, relative to the sum over positions. A query that reads
    nothing has equal shares of all positions that are kept.
    """
    sizes_BQL = factors_BHQL.abs().mean(1)
    sums_BQ1 = sizes_BQL.sum(-1, keepdim=True)
    kept_B1L = torch.ones_like(sizes_BQL[:, :1]) if keep_BL is None else keep_BL.unsqueeze(1).to(sizes_BQL.dtype)
    alike_B1L = kept_B1L / kept_B1L.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(sums_BQ1 > 0, sizes_BQL / sums_BQ1.where(sums_BQ1 > 0, 1), alike_B1L)
