"""Attention over features and over representations, instead of over whole vectors of one kind."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.nn.distribution import Distribution, softmax
from heedful.nn.linear import Linear


class MultiDimensional(nn.Module):
    """f(x_i) = W elu(W_1 x_i + b_1) + b,  p = softmax over i of f, feature by feature,  y = sum_i p_i * x_i

    A weight for every feature of every token: a word's senses can be told apart.    Shen et al. 2018, source2token
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.out = Linear(width, width), Linear(width, width)

    def forward(self, x_BLE: Float[Tensor, "B L E"], keep_BL: Bool[Tensor, "B L"]) -> Float[Tensor, "B E"]:
        """Pool what is kept of each sentence; zero where nothing is."""
        x_BLE = x_BLE.masked_fill(~keep_BL.unsqueeze(2), 0)  # not even the gradient may meet what padding holds
        scores_BLE = self.out(F.elu(self.inner(x_BLE)))
        weights_BEL = softmax(scores_BLE.transpose(1, 2), keep_BL.unsqueeze(1))
        return (weights_BEL.transpose(1, 2) * x_BLE).sum(1)


class MetaEmbedding(nn.Module):
    """x'_i = P_i x_i + b_i,  p = distribution over i of (a . x'_i + c),  y = sum_i p_i x'_i

    Several embeddings of the same token, mixed by attention (dynamic meta-embeddings). The paper's p is a softmax or a
    sigmoid.                                                                         Kiela et al. 2018
    """

    def __init__(self, widths: Sequence[int], out_width: int, distribution: Distribution = softmax) -> None:
        super().__init__()
        self.project = nn.ModuleList(Linear(width, out_width) for width in widths)
        self.score = Linear(out_width, 1)
        self.distribution = distribution

    def forward(self, embeddings: Sequence[Float[Tensor, "N _"]]) -> Float[Tensor, "N E"]:
        """Mix the embeddings of each token."""
        if len(embeddings) != len(self.project):
            raise ValueError(
                f"{len(embeddings)} embeddings to mix; there must be {len(self.project)}, one for each width"
            )
        mixed = [project(embedding) for project, embedding in zip(self.project, embeddings, strict=True)]
        projected_NIE = torch.stack(mixed, dim=1)
        weights_NI = self.distribution(self.score(projected_NIE).squeeze(2))
        return (weights_NI.unsqueeze(2) * projected_NIE).sum(1)
