"""Pooling of pairs of texts by co-attention: one vector for two texts that view each other.

The texts of a batch stand in turns: the first and the second of a pair, those of the next pair, and so on. Padded, the
even rows are the first texts and the odd rows the second ones, so that static shapes stay static.

Shape letters of this file: P  pairs    G  width of a pair's vector, 4 E
"""

from collections.abc import Callable, Mapping
from typing import Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.attention.coattention import AlternatingCoAttention, CoAttention
from heedful.nn.layers.pooling import Pool
from heedful.nn.padding import pad, unpad

AnyCoAttention = CoAttention | AlternatingCoAttention

COATTENTIONS: Final[Mapping[str, Callable[[int, int], AnyCoAttention]]] = {  # by name, from the widths of both sides
    "parallel": lambda first, second: CoAttention(first, second, first),
    "alternating": lambda first, second: AlternatingCoAttention(first, second, first),
}


class PairPool(Pool):
    """y = [a; b; |a - b|; a * b], a and b the vectors that co-attention pools from two texts

    Lu et al. 2016 add the two vectors, as nothing relates the features of an image to those of a question. Two texts
    have one encoder: differences and products compare them feature by feature (Mou et al. 2016, 3.3).
    """

    vectors: Final = 4  # in y

    def __init__(self, attention: AnyCoAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "P G"]:
        """Return one vector per pair."""
        a_PE, b_PE = self.attention(*_sides(x_NE, layout))
        return torch.cat((a_PE, b_PE, (a_PE - b_PE).abs(), a_PE * b_PE), dim=1)

    def weights(self, x_NE: Float[Tensor, "N E"], layout: Layout) -> Float[Tensor, "N 1"]:
        """Return the weight of each token in the vector of its text."""
        weights_PL, weights_PM = self.attention.weights(*_sides(x_NE, layout))
        in_turns_BL = torch.stack((weights_PL, weights_PM), dim=1).flatten(0, 1)
        return unpad(in_turns_BL, layout).unsqueeze(1)


def _sides(
    x_NE: Float[Tensor, "N E"], layout: Layout
) -> tuple[
    Float[Tensor, "P L E"],
    Bool[Tensor, "P L"],
    Float[Tensor, "P L E"],
    Bool[Tensor, "P L"],
]:
    """Return the states of first and second texts, padded, each with what is not padding."""
    if layout.sentences % 2:
        raise ValueError(f"pairs are two texts each, but there are {layout.sentences} texts")
    padded_BLE, keep_BL = pad(x_NE, layout), layout.keep
    return padded_BLE[0::2], keep_BL[0::2], padded_BLE[1::2], keep_BL[1::2]
