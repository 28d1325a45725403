"""Alignments that multiply: cosine, dot product, and bilinear forms.

The matrix of a bilinear form is initialized so that vectors of unit variance have scores of unit variance: `tanh` is
not saturated, and the scores of `General` have the variance of the scaled dot product.

With `scaled`, products with the matrix are divided by sqrt(D), D the width of keys, and its entries are larger by that
factor. Scores at the start are the same. Adam changes each entry by about the learning rate, however small it is: with
entries of 1/D and D = 64, a rate of 0.005 is a third of an entry; divided, the same update changes scores by an eighth.
"""

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.alignments.base import ACTIVATIONS, Alignment, Candidates, project, uniform_parameter


class Content(Alignment):
    """score(q, k) = beta(q) * cos(q, k),  beta(q) = softplus(u . q + c)      Graves et al. 2014, 3.3.1

    In the paper, the controller emits a key strength beta > 0 at each step; here it is computed from the query. It is
    initialized to sqrt(D) for every query, which gives random vectors the scores of a scaled dot product.
    """

    equal_widths: ClassVar[bool] = True

    def __init__(self, query_width: int, key_width: int, heads: int) -> None:
        super().__init__(query_width, key_width, heads)
        self.strength = nn.Parameter(torch.zeros(heads, 1, query_width))
        self.bias = nn.Parameter(torch.full((heads, 1, 1), math.log(math.expm1(math.sqrt(query_width)))))

    def prepare_keys(self, keys_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L A"]:
        """Normalise keys to length one."""
        return _direction(keys_BHLK)

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Multiply the cosine by the strength."""
        beta_BHQ1 = F.softplus(project(q_BHQD, self.strength) + self.bias.to(q_BHQD.dtype))
        return beta_BHQ1 * (_direction(q_BHQD) @ candidates.keys.mT)


class Dot(Alignment):
    """score(q, k) = q . k      Luong et al. 2015, 3.1"""

    equal_widths: ClassVar[bool] = True

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Multiply queries with keys."""
        return q_BHQD @ candidates.keys.mT


class ScaledDot(Alignment):
    """score(q, k) = q . k / sqrt(D)      Vaswani et al. 2017, 3.2.1"""

    equal_widths: ClassVar[bool] = True

    def __init__(self, query_width: int, key_width: int, heads: int) -> None:
        super().__init__(query_width, key_width, heads)
        self.scale = query_width**-0.5

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Multiply scaled queries with keys: there are fewer queries to scale than scores."""
        return q_BHQD * self.scale @ candidates.keys.mT


class General(Alignment):
    """score(q, k) = q . W k, or over sqrt(D)      Luong et al. 2015, 3.1"""

    def __init__(self, query_width: int, key_width: int, heads: int, scaled: bool = False) -> None:
        super().__init__(query_width, key_width, heads)
        self.factor, variance = _scale(query_width, key_width, scaled)
        self.weight = uniform_parameter(variance, heads, query_width, key_width)

    def prepare_keys(self, keys_BHLK: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L A"]:
        """Map keys to the space of queries: W k."""
        return project(keys_BHLK, self.weight)

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Multiply queries with W k."""
        return q_BHQD * self.factor @ candidates.keys.mT


class BiasedGeneral(Alignment):
    """score(q, k) = k . (W q + b), or over sqrt(D)      Sordoni et al. 2016"""

    def __init__(self, query_width: int, key_width: int, heads: int, scaled: bool = False) -> None:
        super().__init__(query_width, key_width, heads)
        self.factor, variance = _scale(query_width, key_width, scaled)
        self.weight = uniform_parameter(variance, heads, key_width, query_width)
        self.bias = nn.Parameter(torch.zeros(heads, 1, key_width))

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Multiply W q + b with keys."""
        return (project(q_BHQD, self.weight) + self.bias.to(q_BHQD.dtype)) * self.factor @ candidates.keys.mT


class ActivatedGeneral(General):
    """score(q, k) = act(q . W k + b), or with q . W k over sqrt(D)      Ma et al. 2017, with tanh"""

    def __init__(
        self, query_width: int, key_width: int, heads: int, activation: str = "tanh", scaled: bool = False
    ) -> None:
        super().__init__(query_width, key_width, heads, scaled)
        self.activation = ACTIVATIONS[activation]
        self.bias = nn.Parameter(torch.zeros(heads, 1, 1))

    def forward(self, q_BHQD: Float[Tensor, "B H Q D"], candidates: Candidates) -> Float[Tensor, "B H Q C"]:
        """Multiply queries with W k, and apply the activation."""
        return self.activation(super().forward(q_BHQD, candidates) + self.bias.to(q_BHQD.dtype))


def _scale(query_width: int, key_width: int, scaled: bool) -> tuple[float, float]:
    """Return the factor of products with a matrix, and the variance of its entries at the start."""
    variance = 1 / (query_width * key_width)
    return (key_width**-0.5, variance * key_width) if scaled else (1.0, variance)


def _direction(x: Float[Tensor, "*any D"]) -> Float[Tensor, "*any D"]:
    """Return x at length one; a vector close to zero stays short, so that its gradient does not explode."""
    return F.normalize(x, dim=-1, eps=1e-6)
