"""Attention with any alignment and any distribution: the equation as written, with its weights at hand.

    y = p(a(q, K)) V,  a an alignment, p a distribution

For fused attention with the scaled dot product and a softmax see `backends`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.nn.alignment import Alignment, Candidates


def attend(
    alignment: Alignment,
    distribution: Callable[[Tensor, Tensor | None], Tensor],
    q_BHQD: Float[Tensor, "B H Q D"],
    candidates: Candidates,
    causal: bool = False,
) -> tuple[Float[Tensor, "B H Q V"], Float[Tensor, "B H Q C"]]:
    """What each query reads from the candidates' values, and the weights it reads them with.

    `distribution` maps scores, and True where a candidate is seen (None: everywhere), to weights. `causal`: the query
    at place i sees what ends there or before. Scores become weights in float32 or wider; values keep their type.
    """
    scores_BHQC = alignment(q_BHQD, candidates)
    scores_BHQC = scores_BHQC.to(torch.promote_types(scores_BHQC.dtype, torch.float32))
    seen = candidates.seen(q_BHQD.shape[2], causal)
    weights_BHQC = distribution(scores_BHQC, None if seen is None else seen.expand_as(scores_BHQC))
    return weights_BHQC.to(candidates.values.dtype) @ candidates.values, weights_BHQC
