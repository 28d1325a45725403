"""From the vectors of a sentence's tokens to one vector for the sentence, or from those of sentences to a document's.

Every pool is a weighted sum, y = sum_i p_i * x_i over a sentence's own tokens, and can tell its weights p. It works on
packed values, without padding. A sentence without a token becomes zeros.

Letter of this file: W  weights of a token: 1, or E where every feature has its own
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.layers.linear import Linear
from heedful.nn.per_sentence import copy_to_tokens, last_state, max_per_sentence, sum_per_sentence
from heedful.packed import Layout


class Pool(nn.Module, ABC):
    """y = sum_i p_i * x_i. Sums are of float32 or wider; y has the type of x."""

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B E"]:
        """One vector for each sentence."""
        return sum_per_sentence(self.weights(x_NE, layout) * x_NE, layout).to(x_NE.dtype)

    @abstractmethod
    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N W"]:
        """How much of each token is in its sentence's vector; those of a sentence sum to one."""


class MeanPool(Pool):
    """p_i = 1 / n"""

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """The same for all tokens of a sentence."""
        return copy_to_tokens(1 / layout.lengths.to(_wide(x_NE)).unsqueeze(1), layout)


class MaxPool(Pool):
    """y = max_i x_i, feature by feature      Collobert and Weston 2008"""

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B E"]:
        """One vector for each sentence."""
        return max_per_sentence(x_NE, layout).masked_fill((layout.lengths == 0).unsqueeze(1), 0)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """One for the token with the largest value of a feature; equal ones share it, and so they do gradients."""
        largest_NE = (x_NE == copy_to_tokens(max_per_sentence(x_NE, layout), layout)).to(_wide(x_NE))
        return largest_NE / copy_to_tokens(sum_per_sentence(largest_NE, layout), layout)


class FirstPool(Pool):
    """y = x_1: that of the class token, where sentences begin with one      Devlin et al. 2019"""

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B E"]:
        """One vector for each sentence."""
        if not layout.tokens:
            return x_NE.new_zeros(layout.sentences, x_NE.shape[1])
        firsts = layout.offsets[:-1].clamp(max=layout.tokens - 1)
        return x_NE.index_select(0, firsts).masked_fill((layout.lengths == 0).unsqueeze(1), 0)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """One for the first token."""
        return (layout.positions == 0).to(_wide(x_NE)).unsqueeze(1)


class LastPool(Pool):
    """y = x_n: that of a recurrent network that has read its sentence whole      Sutskever et al. 2014

    Of a bidirectional one it holds half: the second direction has read it whole at the first token.
    """

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B E"]:
        """One vector for each sentence."""
        return last_state(x_NE, layout)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """One for the last token: the one before another sentence's first, or before none."""
        return (layout.positions == 0).roll(-1).to(_wide(x_NE)).unsqueeze(1)


class AttentionPool(Pool):
    """u_i = tanh(W x_i + b),  p = softmax over i of (u_i . c), with a learned context c      Yang et al. 2016, 2.2"""

    def __init__(self, width: int, inner: int | None = None) -> None:
        super().__init__()
        inner = inner or width  # as wide as x in the paper
        self.inner, self.context = Linear(width, inner), Linear(inner, 1, bias=False)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """How important each token is."""
        return _softmax(self.context(self.inner(x_NE).tanh()), layout)


class MultiDimensionalPool(Pool):
    """f(x_i) = W elu(W_1 x_i + b_1) + b,  p = softmax over i of f, feature by feature

    A weight for every feature of every token: a word's senses can be told apart.    Shen et al. 2018, source2token
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.out = Linear(width, width), Linear(width, width)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """How important each feature of each token is."""
        return _softmax(self.out(F.elu(self.inner(x_NE))), layout)


POOLS: Final[Mapping[str, Callable[[int], Pool]]] = {  # by name: made for vectors of a width
    "mean": lambda width: MeanPool(),
    "max": lambda width: MaxPool(),
    "first": lambda width: FirstPool(),
    "last": lambda width: LastPool(),
    "attention": AttentionPool,
    "multi_dimensional": MultiDimensionalPool,
}


# --- over the tokens of each sentence ---------------------------------------------------------------------------------


def _softmax(scores_NW: Float[Tensor, "N W"], layout: Layout) -> Float[Tensor, "N W"]:
    """p = exp(x) / sum exp(x) of each sentence by itself, in float32 or wider."""
    wide_NW = scores_NW.to(_wide(scores_NW))
    powers_NW = (wide_NW - copy_to_tokens(max_per_sentence(wide_NW.detach(), layout), layout)).exp()
    return powers_NW / copy_to_tokens(sum_per_sentence(powers_NW, layout), layout)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
