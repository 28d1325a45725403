"""Alignments that are small networks over a query and a key, or over the query only.

`Deep` holds the inner values of every pair of query and key: [B, H, Q, C, A], A times the memory of the scores.
"""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.alignments.additive_scores import additive_scores
from heedful.nn.alignments.base import ACTIVATIONS, Alignment, Candidates, glorot_parameter, project, uniform_parameter


class Additive(Alignment):
    """score(q, k) = v . tanh(W q + U k)      Bahdanau et al. 2015, A.1.2; "concat" in Luong et al. 2015, 3.1

    `inner` is the width of v, by default that of queries.
    """

    def __init__(self, query_width: int, key_width: int, heads: int, inner: int | None = None) -> None:
        super().__init__(query_width, key_width, heads)
        inner = inner or query_width
        self.query_weight = glorot_parameter(heads, inner, query_width)
        self.key_weight = glorot_parameter(heads, inner, key_width)
        self.vector = glorot_parameter(heads, 1, inner)

    def prepare_keys(self, keys_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L A"]:
        """Compute U k."""
        return project(keys_BHLK, self.key_weight)

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Add every query to every key, in float32 or wider, head by head."""
        wide = torch.promote_types(q_BHQD.dtype, torch.float32)
        queries_BHQA, keys_BHCA = project(q_BHQD, self.query_weight).to(wide), candidates.keys.to(wide)
        heads = zip(queries_BHQA.unbind(1), keys_BHCA.unbind(1), self.vector.squeeze(1).to(wide), strict=True)
        return torch.stack([additive_scores(*head) for head in heads], dim=1)


class Deep(Alignment):
    """score(q, k) = v . E(depth-1) + b,  E(l) = act(W_l E(l-1) + b_l),  E(1) = act(W_0 k + W_1 q + b_1)

    Pavlopoulos et al. 2017, with ReLU; their classifier attends without a query. `depth` is the number of layers,
    including the last one; `inner` is their width, by default that of queries.
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        heads: int,
        depth: int = 4,
        inner: int | None = None,
        activation: str = "relu",
    ) -> None:
        super().__init__(query_width, key_width, heads)
        if depth < 2:
            raise ValueError(f"the depth of a deep alignment must be at least 2, but is {depth}")
        inner = inner or query_width
        self.activation = ACTIVATIONS[activation]
        self.query_weight = glorot_parameter(heads, inner, query_width)
        self.key_weight = glorot_parameter(heads, inner, key_width)
        self.key_bias = nn.Parameter(torch.zeros(heads, 1, inner))
        self.weights = nn.ParameterList(glorot_parameter(heads, inner, inner) for _ in range(depth - 2))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(heads, 1, inner)) for _ in range(depth - 2))
        self.vector = glorot_parameter(heads, 1, inner)
        self.bias = nn.Parameter(torch.zeros(heads, 1, 1))

    def prepare_keys(self, keys_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L A"]:
        """Compute W_0 k + b_1."""
        return project(keys_BHLK, self.key_weight) + self.key_bias.to(keys_BHLK.dtype)

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Add every query to every key, and apply the layers."""
        # With heads as the first axis, each layer is one batched product, without a copy of its large input.
        queries_HBQA, keys_HBCA = project(q_BHQD, self.query_weight).transpose(0, 1), candidates.keys.transpose(0, 1)
        inner_HBQCA = self.activation(queries_HBQA.unsqueeze(3) + keys_HBCA.unsqueeze(2))
        inner_HNA = inner_HBQCA.flatten(1, 3)
        for weight_HAA, bias_H1A in zip(self.weights, self.biases, strict=True):
            inner_HNA = self.activation(_layer(inner_HNA, weight_HAA, bias_H1A))
        scores_HN = _layer(inner_HNA, self.vector, self.bias).squeeze(2)
        return scores_HN.unflatten(1, inner_HBQCA.shape[1:4]).transpose(0, 1)


class Location(Alignment):
    """score(q, position) = w_position . q, whatever the keys are      Luong et al. 2015, eq. 8

    Positions are counted from the start of the memory, so padding must be at the end. With a causal mask this is the
    dense synthesizer of Tay et al. 2021.
    """

    fixed_length: ClassVar[bool] = True

    def __init__(self, query_width: int, key_width: int, heads: int, *, max_length: int) -> None:
        super().__init__(query_width, key_width, heads)
        self.weight = uniform_parameter(1 / query_width, heads, max_length, query_width)

    def prepare_keys(self, keys_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L A"]:
        """Return unchanged keys, if their number is within the limit."""
        self._positions(keys_BHLK.shape[2])
        return keys_BHLK

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Score the positions for each query."""
        return project(q_BHQD, self._positions(candidates.keys.shape[2]))

    def _positions(self, length: int) -> Float[Tensor, "H L D"]:
        if length > self.weight.shape[1]:
            raise ValueError(
                f"the memory has {length} positions, but the location-based alignment was built for up to "
                f"{self.weight.shape[1]}: build it with a larger max_length"
            )
        return self.weight[:, :length]


def _layer(
    x_HNI: Float[Tensor, "H N I"], weight_HOI: Float[Tensor, "H O I"], bias_H1O: Float[Tensor, "H 1 O"]
) -> Float[Tensor, "H N O"]:
    """Return W x + b of each head, in the dtype of x."""
    return torch.baddbmm(bias_H1O.to(x_HNI.dtype), x_HNI, weight_HOI.to(x_HNI.dtype).mT)
