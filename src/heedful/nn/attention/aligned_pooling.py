"""Pooling by attention with any alignment and any distribution."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.alignments.base import Alignment, uniform_parameter
from heedful.nn.alignments.distributions import softmax
from heedful.nn.layers.pooling import Pool
from heedful.nn.padding import pad, unpad


class AlignedPool(Pool):
    """p = d(a(q, x_1) .. a(q, x_n)),  a an alignment, d a distribution, q a learned query, the same for all texts

    With the softmax of an additive alignment this is the attention of Yang et al. 2016, 2.2, whose bias is W q. Weights
    sum to one if the distribution is normalised; those of areas count each area that a token is in.
    """

    def __init__(
        self,
        width: int,
        alignment: Alignment,
        distribution: Callable[..., Tensor] = softmax,
        distance: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.query = uniform_parameter(1 / width, width)  # dot products with vectors of unit variance have variance 1
        self.alignment, self.distribution, self.distance = alignment, distribution, distance

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """Return the factor of each token in the vector of its sentence."""
        if not layout.tokens:
            return x_NE.new_zeros(0, 1)
        score = self._score_packed if self.alignment.one_to_one else self._score_padded
        scores_B11C, *measured, seen_B11C = score(x_NE, layout)
        wide = torch.promote_types(scores_B11C.dtype, torch.float32)
        weights_B11C = self.distribution(scores_B11C.to(wide), *measured, seen_B11C)
        return unpad(self.alignment.position_weights(weights_B11C, layout.bound)[:, 0, 0], layout).unsqueeze(1)

    def _score_packed(self, x_NE: Tensor, layout: Layout) -> list[Tensor]:
        """Score each token by itself, so that only scores are padded."""
        x_11NE, q_111E = x_NE[None, None], self._query(x_NE)
        found = [self.alignment(q_111E, self.alignment.prepare(x_11NE, x_11NE))]
        if self.distance is not None:
            found.append(self.distance(q_111E, x_11NE))
        padded = [pad(scores_111N[0, 0, 0], layout)[:, None, None] for scores_111N in found]
        return [*padded, _seen(layout)]

    def _score_padded(self, x_NE: Tensor, layout: Layout) -> list[Tensor]:
        """Score candidates that are made of several tokens, such as areas."""
        x_B1LE = pad(x_NE, layout).masked_fill(~layout.keep[:, :, None], 0)[:, None]
        q_B11E = self._query(x_NE).expand(len(x_B1LE), -1, -1, -1)
        candidates = self.alignment.prepare(x_B1LE, x_B1LE, layout.keep)
        found = [self.alignment(q_B11E, candidates)]
        if self.distance is not None:
            found.append(self.distance(q_B11E, candidates.keys))
        seen = candidates.seen(1, causal=False)
        assert seen is not None  # as `keep` is given
        return [*found, seen.expand_as(found[0])]

    def _query(self, x_NE: Tensor) -> Float[Tensor, "1 1 1 E"]:
        return self.query.to(x_NE.dtype)[None, None, None]


def _seen(layout: Layout) -> Bool[Tensor, "B 1 1 L"]:
    return layout.keep[:, None, None]
