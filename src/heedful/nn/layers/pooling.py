"""Pooling: one vector for a sentence from those of its tokens, or one for a document from those of its sentences.

Every pool is a weighted sum over the tokens of a sentence, y = sum_i p_i * x_i, and can return its weights p. Values
are packed, without padding. A sentence without tokens becomes zeros.

Shape letter of this file: W  weights per token: 1, or E if every feature has its own
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.layers.linear import Linear
from heedful.nn.per_sentence import copy_to_tokens, ends_of_sentences, last_state, max_per_sentence, sum_per_sentence


class Pool(nn.Module, ABC):
    """y = sum_i p_i * x_i. Sums are in float32 or wider; y has the dtype of x."""

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B E"]:
        """Return one vector per sentence."""
        return sum_per_sentence(self.weights(x_NE, layout) * x_NE, layout).to(x_NE.dtype)

    @abstractmethod
    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N W"]:
        """Return the weight of each token in the vector of its sentence; those of a sentence usually sum to one."""


class MeanPool(Pool):
    """p_i = 1 / n"""

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """Return equal weights for all tokens of a sentence."""
        return copy_to_tokens(1 / layout.lengths.to(_wide(x_NE)).unsqueeze(1), layout)


class MaxPool(Pool):
    """y = max_i x_i, feature by feature      Collobert and Weston 2008"""

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B E"]:
        """Return one vector per sentence."""
        return max_per_sentence(x_NE, layout).masked_fill((layout.lengths == 0).unsqueeze(1), 0)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Return 1 for the token with the largest value of a feature; equal values share weights, and gradients."""
        largest_NE = (x_NE == copy_to_tokens(max_per_sentence(x_NE, layout), layout)).to(_wide(x_NE))
        return largest_NE / copy_to_tokens(sum_per_sentence(largest_NE, layout), layout)


class FirstPool(Pool):
    """y = x_1, the vector of the class token if sentences start with one      Devlin et al. 2019"""

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B E"]:
        """Return one vector per sentence."""
        if not layout.tokens:
            return x_NE.new_zeros(layout.sentences, x_NE.shape[1])
        firsts = layout.offsets[:-1].clamp(max=layout.tokens - 1)
        return x_NE.index_select(0, firsts).masked_fill((layout.lengths == 0).unsqueeze(1), 0)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """Return 1 for the first token."""
        return (layout.positions == 0).to(_wide(x_NE)).unsqueeze(1)


class LastPool(Pool):
    """y = x_n, the state of a recurrent network that has read the whole sentence      Sutskever et al. 2014

    This holds for the first direction only: the second one has read the whole sentence at the first token.
    """

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "B E"]:
        """Return one vector per sentence."""
        return last_state(x_NE, layout)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """Return 1 for the last token."""
        return ends_of_sentences(layout).to(_wide(x_NE)).unsqueeze(1)


class AttentionPool(Pool):
    """u_i = tanh(W x_i + b),  p = softmax over i of (u_i . c), with a learned context c      Yang et al. 2016, 2.2"""

    def __init__(self, width: int, inner: int | None = None) -> None:
        super().__init__()
        inner = inner or width  # the paper uses the width of x
        self.inner, self.context = Linear(width, inner), Linear(inner, 1, bias=False)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """Return the importance of each token."""
        return _softmax(self.context(self.inner(x_NE).tanh()), layout)


class MultiDimensionalPool(Pool):
    """f(x_i) = W elu(W_1 x_i + b_1) + b,  p = softmax over i of f, feature by feature

    A weight per feature of each token can distinguish the senses of a word.    Shen et al. 2018, source2token
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.out = Linear(width, width), Linear(width, width)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N E"]:
        """Return the importance of each feature of each token."""
        return _softmax(self.out(F.elu(self.inner(x_NE))), layout)


POOLS: Final[Mapping[str, Callable[[int], Pool]]] = {  # by name, made from the width of the vectors
    "mean": lambda width: MeanPool(),
    "max": lambda width: MaxPool(),
    "first": lambda width: FirstPool(),
    "last": lambda width: LastPool(),
    "attention": AttentionPool,
    "multi_dimensional": MultiDimensionalPool,
}


# --- softmax over the tokens of each sentence -------------------------------------------------------------------------


def _softmax(scores_NW: Float[Tensor, "N W"], layout: Layout) -> Float[Tensor, "N W"]:
    """Return exp(x) / sum exp(x) over each sentence, in float32 or wider."""
    wide_NW = scores_NW.to(_wide(scores_NW))
    powers_NW = (wide_NW - copy_to_tokens(max_per_sentence(wide_NW.detach(), layout), layout)).exp()
    return powers_NW / copy_to_tokens(sum_per_sentence(powers_NW, layout), layout)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
