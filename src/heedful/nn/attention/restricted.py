"""Restricted self-attention: a token sees the tokens of its sentence at a distance of at most r.

    y_i = sum_j p_ij v_j,   p_ij = softmax_j(q_i . k_j / sqrt(D)),   |i - j| <= r     Vaswani et al. 2017, 4 and table 1

Time and memory are linear in the number of tokens, on the packed layout and without padding: neighbours in a sentence
are neighbours in a batch. On a GPU, flash attention with a window where it can compute this; elsewhere blocks of tokens
attend to themselves and to the blocks next to them.

Shape letters of this file: U  width of a head's values, by default D    G  blocks    W  tokens of a block
                            X  tokens that a block sees: its own, those before it and, unless causal, those after it
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.attention.backends import (
    Bias,
    PackedHeads,
    attention_weights,
    automatic,
    explicit,
    fused_width,
    supports_packed,
    varlen,
)

_SMALLEST: Final = 32  # tokens of a block: smaller ones waste time on many small products


@dataclass(frozen=True)
class Restricted:
    """A backend for self-attention within a radius r. A causal token sees the r tokens before it and itself."""

    radius: int
    as_written: bool = False  # the equation over whole sentences, with explicit weights: the reference for the others

    def __call__(
        self, heads: PackedHeads, causal: bool, dropout: float, bias_BHLL: Bias = None
    ) -> Float[Tensor, "N H U"]:
        """Attend within each sentence: queries and keys have one layout."""
        q_NHD, k_NHD, v_NHU, layout, keys = heads
        if layout is not keys:
            raise ValueError("attention within a radius is of one sequence to itself")
        if bias_BHLL is not None:
            raise ValueError("attention within a radius cannot add a bias to the scores")
        if self.as_written:
            return explicit(heads, causal, dropout, self._band(layout, q_NHD))
        if self.radius >= layout.bound - 1:  # no token is further away
            return automatic(heads, causal, dropout)
        width = fused_width(q_NHD.shape[2], v_NHU.shape[2])
        if q_NHD.is_cuda and dropout == 0 and supports_packed(q_NHD.dtype, width, dropout):
            return varlen(heads, causal, dropout, radius=self.radius)
        return blockwise(q_NHD, k_NHD, v_NHU, layout, self.radius, causal, dropout)

    def weights(
        self, q_NHD: Float[Tensor, "N H D"], k_NHD: Float[Tensor, "N H D"], layout: Layout, causal: bool
    ) -> Float[Tensor, "B H L L"]:
        """Return the weights over whole sentences, 0 outside the radius; rows of padding are arbitrary."""
        return attention_weights(q_NHD, k_NHD, layout, layout, causal, self._band(layout, q_NHD))

    def _band(self, layout: Layout, q_NHD: Float[Tensor, "N H D"]) -> Float[Tensor, "B H L L"]:
        """Return 0 for pairs of positions within the radius, minus infinity for others; padding sees everything."""
        places = torch.arange(layout.bound, device=q_NHD.device)
        near_LL = (places - places.unsqueeze(1)).abs() <= self.radius
        near_BLL = near_LL | ~layout.keep.unsqueeze(2)
        band_BLL = torch.zeros(near_BLL.shape, dtype=q_NHD.dtype, device=places.device)
        return band_BLL.masked_fill(~near_BLL, -math.inf).unsqueeze(1).expand(-1, q_NHD.shape[1], -1, -1)


def blockwise(
    q_NHD: Float[Tensor, "N H D"],
    k_NHD: Float[Tensor, "N H D"],
    v_NHU: Float[Tensor, "N H U"],
    layout: Layout,
    radius: int,
    causal: bool,
    dropout: float,
) -> Float[Tensor, "N H U"]:
    """Attend in blocks of at least r tokens: what a token sees is in its block or in one next to it.

    On a CPU it always computes in float32 or wider, as `padded` does.
    """
    tokens = q_NHD.shape[0]
    size = -(-max(radius, _SMALLEST) // 8) * 8  # kernels want masks of even rows
    fill = -tokens % size
    kernel_type = torch.promote_types(q_NHD.dtype, torch.float32) if q_NHD.device.type == "cpu" else q_NHD.dtype
    q_GWHD = _blocks(q_NHD.to(kernel_type), size, fill)
    k_GXHD, v_GXHU = (_seen_by_blocks(_blocks(x.to(kernel_type), size, fill), causal) for x in (k_NHD, v_NHU))
    keep_GWX = visible_in_blocks(layout, size, fill, radius, causal)
    y_GHWU = F.scaled_dot_product_attention(
        q_GWHD.transpose(1, 2), k_GXHD.transpose(1, 2), v_GXHU.transpose(1, 2), keep_GWX.unsqueeze(1), dropout
    )
    return y_GHWU.transpose(1, 2).flatten(0, 1)[:tokens].to(q_NHD.dtype)


def visible_in_blocks(layout: Layout, size: int, fill: int, radius: int, causal: bool) -> Bool[Tensor, "G W X"]:
    """Return True where a token of a block sees a token of the blocks around it. Every token sees itself."""
    index_N = torch.arange(layout.tokens + fill, device=layout.positions.device)
    # Tokens of one sentence share the index of its first; what fills the last block is a sentence by itself.
    first_N = F.pad(index_N[: layout.tokens] - layout.positions, (0, fill), value=-1)
    index_GW, first_GW = index_N.unflatten(0, (-1, size)), first_N.unflatten(0, (-1, size))
    blocks = 2 if causal else 3
    index_GX = (index_GW[:, :1] - size) + torch.arange(blocks * size, device=index_N.device)
    first_GX = _seen_by_blocks(first_GW, causal, outside=-2)
    distance_GWX = index_GX.unsqueeze(1) - index_GW.unsqueeze(2)
    near_GWX = (distance_GWX <= 0) & (distance_GWX >= -radius) if causal else distance_GWX.abs() <= radius
    return near_GWX & (first_GX.unsqueeze(1) == first_GW.unsqueeze(2))


def _blocks(x_NHD: Float[Tensor, "N H D"], size: int, fill: int) -> Float[Tensor, "G W H D"]:
    filled = F.pad(x_NHD, (0, 0, 0, 0, 0, fill)) if fill else x_NHD
    return filled.unflatten(0, (-1, size))


def _seen_by_blocks(x: Tensor, causal: bool, outside: int = 0) -> Tensor:
    """Return for each block the tokens of the block before it, its own and, unless causal, those of the block after."""
    none = torch.full_like(x[:1], outside)
    around = [torch.cat((none, x[:-1])), x, *([] if causal else [torch.cat((x[1:], none))])]
    return torch.cat(around, dim=1)
