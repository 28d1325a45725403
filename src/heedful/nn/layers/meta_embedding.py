"""Attention over several embeddings of one token, instead of over tokens."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.alignments.distributions import Distribution, softmax
from heedful.nn.layers.linear import Linear


class MetaEmbedding(nn.Module):
    """x'_i = P_i x_i + b_i,  p = distribution over i of (a . x'_i + c),  y = sum_i p_i x'_i

    Several embeddings of the same token, mixed by attention (dynamic meta-embeddings). The paper's p is a softmax or a
    sigmoid.                                                                         Kiela et al. 2018
    """

    def __init__(self, widths: Sequence[int], out_width: int, distribution: Distribution = softmax) -> None:
        super().__init__()
        self.project = nn.ModuleList(Linear(width, out_width) for width in widths)
        self.score = Linear(out_width, 1, bias=distribution is not softmax)  # softmax ignores a common addend
        self.distribution = distribution

    def forward(self, embeddings: Sequence[Float[Tensor, "N _"]]) -> Float[Tensor, "N E"]:
        """Mix the embeddings of each token."""
        if len(embeddings) != len(self.project):
            raise ValueError(
                f"{len(embeddings)} embeddings cannot be mixed: there must be {len(self.project)}, one per width"
            )
        mixed = [project(embedding) for project, embedding in zip(self.project, embeddings, strict=True)]
        projected_NIE = torch.stack(mixed, dim=1)
        weights_NI = self.distribution(self.score(projected_NIE).squeeze(2))
        return (weights_NI.unsqueeze(2) * projected_NIE).sum(1)
