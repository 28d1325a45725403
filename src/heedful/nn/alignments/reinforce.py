"""Hard attention that learns by reward: the log probabilities of the keys that it drew are remembered for a loss."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.nn.alignments.distributions import Distribution, Hard


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of a key for each of several queries; both values are 0 where the weights themselves were used."""

    log_p_X: Float[Tensor, "*X"]  # of the key that was drawn
    entropy_X: Float[Tensor, "*X"]  # -sum p log p, of the weights


class Reinforced(Hard):
    """One key, drawn by the weights, without gradients through the draw      Xu et al. 2015, 4.1; Williams 1992

    In training each draw is remembered with its log probability and the entropy of the weights, of which an objective
    makes the gradient of the weights. `begin` forgets the draws of the batch before, and chooses sentences that read
    the weighted mean of all values instead, as the paper does for half of the images. Otherwise it is the key with
    the largest weight.
    """

    def __init__(self, distribution: Distribution, soft: float = 0.5) -> None:
        super().__init__(distribution)
        self.soft = soft  # share of sentences that read the weighted mean in training
        self.draws: list[Draw] = []
        self._soft_B: Tensor | None = None  # 1 for these sentences, otherwise 0

    def begin(self, sentences: int, device: torch.device) -> None:
        """Start a batch of this number of sentences."""
        self.draws = []
        self._soft_B = (torch.rand(sentences, device=device) < self.soft).float() if self.soft else None

    def draw(self, weights_XL: Float[Tensor, "*X L"]) -> Float[Tensor, "*X L"]:
        """Sample one key by these weights, and remember how probable it was. The first axis is that of sentences."""
        wide_XL = weights_XL.to(torch.promote_types(weights_XL.dtype, torch.float32))
        keys_X = self.choose(wide_XL.detach())
        log_XL = wide_XL.clamp(min=torch.finfo(wide_XL.dtype).tiny).log()
        log_p_X = log_XL.gather(-1, keys_X.unsqueeze(-1)).squeeze(-1)
        entropy_X = -(wide_XL * log_XL).sum(-1)
        hard_XL = torch.zeros_like(wide_XL).scatter(-1, keys_X.unsqueeze(-1), 1.0)
        if self._soft_B is not None:
            # Rows are sentences in the order of time, of which later steps have the first; the choice is random anyway.
            soft_X = self._soft_B[: len(keys_X)].view(-1, *[1] * (keys_X.ndim - 1)).to(wide_XL.dtype)
            hard_XL = hard_XL + soft_X.unsqueeze(-1) * (wide_XL - hard_XL)
            log_p_X, entropy_X = log_p_X * (1 - soft_X), entropy_X * (1 - soft_X)
        self.draws.append(Draw(log_p_X, entropy_X))
        return hard_XL.to(weights_XL.dtype)

    def choose(self, weights_XL: Float[Tensor, "*X L"]) -> Int[Tensor, "*X"]:
        """Return the number of one key for each query, drawn by the weights."""
        # Of several exponential variables, each is the smallest with a probability proportional to its rate.
        draws_XL = torch.empty_like(weights_XL).exponential_().clamp_(min=torch.finfo(weights_XL.dtype).tiny)
        return (weights_XL / draws_XL).argmax(-1)
