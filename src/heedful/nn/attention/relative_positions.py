"""Position schemes: positions inside self-attention, instead of position vectors added to embeddings.

A scheme is an argument of `SelfAttention`; attention over the memory of another sequence does not use it.

A scheme implements attention with the scaled dot product and a softmax. Other kinds of attention use its terms:
`encode` for queries and keys, `bias` for scores, `read` for what is read.

Shape letters of this file: C  clipped distances    P  pairs of a head's columns    S  cache entries (positions * K)
                            U  width of a head's values, by default D
"""

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from heedful.nn.attention.backends import Backend, PackedHeads, PaddedHeads, attention_weights, masked_bias
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.padding import pad, unpad


class PositionScheme(nn.Module):
    """No positions in attention, and the base class of the schemes below. It works with every backend."""

    in_slots: ClassVar[bool] = (
        True  # whether the scheme only encodes queries and keys: all that search in slots supports
    )

    def encode(
        self,
        q_NHD: Float[Tensor, "N H D"],
        k_NHD: Float[Tensor, "N H D"],
        positions: Int[Tensor, "*rows"],
        bound: int,
    ) -> tuple[Float[Tensor, "N H D"], Float[Tensor, "N H D"]]:
        """Encode positions in queries and keys: N positions, row by row, all below `bound`."""
        return q_NHD, k_NHD

    def attend(self, backend: Backend, heads: PackedHeads, causal: bool, dropout: float) -> Float[Tensor, "N H U"]:
        """Attend over whole sentences with encoded queries and keys."""
        return backend(heads, causal, dropout)

    def attend_past(self, heads: PaddedHeads) -> Float[Tensor, "B H K U"]:
        """Attend from the last cached position over all of them, with K entries per position."""
        return F.scaled_dot_product_attention(*heads)

    def bias(self, q_BHQD: Float[Tensor, "B H Q D"], places: int) -> Float[Tensor, "#B H Q {places}"] | None:
        """Return what is added to the scores of queries at the last Q of `places` positions, or None."""
        return None

    def read(
        self, y_BHQU: Float[Tensor, "B H Q U"], weights_BHQL: Float[Tensor, "B H Q L"]
    ) -> Float[Tensor, "B H Q U"]:
        """Add to y what the queries read, with these weights, from what the scheme adds to values."""
        return y_BHQU


class Rotary(PositionScheme):
    """score_ij = (R_i q_i) . (R_j k_j) / sqrt(D) = q_i . R_(j-i) k_j / sqrt(D)      Su et al. 2021, 3.2 (RoPE)

    R_p rotates columns 2c and 2c+1 of a head, as a plane, by the angle p / base^(2c/D). Programs that pair columns c
    and c + D/2 instead compute the same with the rows of W_q and W_k in another order. Rotated queries and keys work
    with every backend, and a cache holds rotated keys. 16-bit dtypes are rotated in float32 and rounded once. The
    length of a sentence is not limited.
    """

    def __init__(self, head_width: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.waves = Sinusoidal(head_width, halves=True, base=base)  # the sines and cosines of these angles

    def encode(
        self,
        q_NHD: Float[Tensor, "N H D"],
        k_NHD: Float[Tensor, "N H D"],
        positions: Int[Tensor, "*rows"],
        bound: int,
    ) -> tuple[Float[Tensor, "N H D"], Float[Tensor, "N H D"]]:
        """Rotate queries and keys by their positions."""
        sin_N1P, cos_N1P = self.waves(positions.flatten(), bound).unsqueeze(1).chunk(2, dim=2)
        phases_N1P = torch.complex(cos_N1P, sin_N1P)
        return _rotate(q_NHD, phases_N1P), _rotate(k_NHD, phases_N1P)


class LinearBias(PositionScheme):
    """score_ij = q_i . k_j / sqrt(D) - m_h |i - j|      Press et al. 2022, 3 (ALiBi)

    The slopes m_h are fixed: see `alibi_slopes`. The paper has causal attention only; without a causal mask, a distance
    counts the same in both directions. Backends that add a bias pad the sentences and hold one number per head and pair
    of tokens: on a GPU this is slower than attention on the packed layout.
    """

    in_slots = False

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes_H11", torch.tensor(alibi_slopes(heads))[:, None, None], persistent=False)
        self.slopes_H11: Tensor

    def attend(self, backend: Backend, heads: PackedHeads, causal: bool, dropout: float) -> Float[Tensor, "N H U"]:
        """Attend with the bias of all pairs of positions."""
        bias_1HLL = self._bias(_distances(heads.queries.bound, heads.queries.bound, heads.q_NHD.device))
        return backend(heads, causal, dropout, bias_1HLL)

    def attend_past(self, heads: PaddedHeads) -> Float[Tensor, "B H K U"]:
        """Attend with the bias of every cache entry."""
        q_BHKD, k_BHSD, v_BHSU, keep = heads
        bias_1H1S = self._bias(_distances_back(k_BHSD.shape[2], q_BHKD.shape[2], q_BHKD.device)).to(q_BHKD.dtype)
        return F.scaled_dot_product_attention(q_BHKD, k_BHSD, v_BHSU, attn_mask=masked_bias(bias_1H1S, keep))

    def bias(self, q_BHQD: Float[Tensor, "B H Q D"], places: int) -> Float[Tensor, "#B H Q {places}"] | None:
        """Return -m |i - j|, the same for all sentences."""
        return self._bias(_distances(q_BHQD.shape[2], places, q_BHQD.device))

    def _bias(self, distances_QK: Int[Tensor, "Q K"]) -> Float[Tensor, "1 H Q K"]:
        return (-self.slopes_H11 * distances_QK.abs()).unsqueeze(0)


class RelativeVectors(PositionScheme):
    """score_ij = q_i . (k_j + a_ij) / sqrt(D),   y_i = sum_j p_ij (v_j + b_ij)      Shaw et al. 2018, 3.2

    a_ij and b_ij are learned vectors, one of each per distance clip(j - i, -k, k), shared by the heads (3.3). Backends
    do not support them: this is the equation on padded rows, with explicit weights, and slower than fused kernels.
    """

    in_slots = False

    def __init__(self, head_width: int, max_distance: int, value_width: int | None = None) -> None:
        super().__init__()
        self.max_distance = max_distance
        widths = (head_width, value_width or head_width)
        self.keys, self.values = (nn.Parameter(torch.empty(2 * max_distance + 1, width)) for width in widths)
        for vectors in (self.keys, self.values):
            nn.init.xavier_uniform_(vectors)

    def attend(self, backend: Backend, heads: PackedHeads, causal: bool, dropout: float) -> Float[Tensor, "N H U"]:
        """Attend by the equation; the backend is not used."""
        q_NHD, k_NHD, v_NHU, layout, _ = heads
        q_BHLD, v_BHLU = (pad(x, layout).transpose(1, 2) for x in (q_NHD, v_NHU))
        bias_BHLL = self.bias(q_BHLD, layout.bound)
        weights_BHLL = F.dropout(attention_weights(q_NHD, k_NHD, layout, layout, causal, bias_BHLL), dropout)
        return unpad(self.read(weights_BHLL @ v_BHLU, weights_BHLL).transpose(1, 2), layout)

    def attend_past(self, heads: PaddedHeads) -> Float[Tensor, "B H K U"]:
        """Attend from one position, relative to which every cache entry has one vector."""
        q_BHKD, k_BHSD, v_BHSU, keep = heads
        distances_1S = _distances_back(k_BHSD.shape[2], q_BHKD.shape[2], q_BHKD.device)
        scores_BHKS = q_BHKD @ k_BHSD.transpose(2, 3) / math.sqrt(q_BHKD.shape[-1])
        scores_BHKS = scores_BHKS + self._scores(q_BHKD, distances_1S)
        if keep is not None:
            scores_BHKS = scores_BHKS.masked_fill(~keep, -math.inf)
        weights_BHKS = scores_BHKS.softmax(-1).to(q_BHKD.dtype)
        return weights_BHKS @ v_BHSU + self._values(weights_BHKS, distances_1S)

    def bias(self, q_BHQD: Float[Tensor, "B H Q D"], places: int) -> Float[Tensor, "#B H Q {places}"] | None:
        """Return q . a / sqrt(D), in float32 or wider."""
        return self._scores(q_BHQD, _distances(q_BHQD.shape[2], places, q_BHQD.device))

    def read(
        self, y_BHQU: Float[Tensor, "B H Q U"], weights_BHQL: Float[Tensor, "B H Q L"]
    ) -> Float[Tensor, "B H Q U"]:
        """Add the weighted vectors b of all positions."""
        queries, places = weights_BHQL.shape[2:]
        distances_QL = _distances(queries, places, y_BHQU.device)
        return y_BHQU + self._values(weights_BHQL, distances_QL).to(y_BHQU.dtype)

    # Distances are looked up in [B, H, Q, C]: no tensor has a vector per pair of positions.

    def _scores(self, q_BHQD: Float[Tensor, "B H Q D"], distances_QL: Int[Tensor, "#Q L"]) -> Float[Tensor, "B H Q L"]:
        scores_BHQC = _wide(q_BHQD @ self.keys.to(q_BHQD.dtype).T) / math.sqrt(q_BHQD.shape[3])
        return scores_BHQC.gather(3, self._clip(distances_QL).expand(*q_BHQD.shape[:3], -1))

    def _values(
        self, weights_BHQL: Float[Tensor, "B H Q L"], distances_QL: Int[Tensor, "#Q L"]
    ) -> Float[Tensor, "B H Q U"]:
        wide_BHQL = _wide(weights_BHQL)  # many positions share a distance: 16-bit sums would be inaccurate
        none_BHQC = wide_BHQL.new_zeros(*wide_BHQL.shape[:3], len(self.values))
        shares_BHQC = none_BHQC.scatter_add(3, self._clip(distances_QL).expand_as(wide_BHQL), wide_BHQL)
        return shares_BHQC.to(weights_BHQL.dtype) @ self.values.to(weights_BHQL.dtype)

    def _clip(self, distances_QK: Int[Tensor, "Q K"]) -> Int[Tensor, "Q K"]:
        """Return the row of each distance in the tables of vectors."""
        return distances_QK.clamp(-self.max_distance, self.max_distance) + self.max_distance


class Sizes(Protocol):
    """Numbers that schemes are made with; the [model] table of a stack has them."""

    @property
    def heads(self) -> int:
        """Number of heads."""

    @property
    def head_widths(self) -> tuple[int, int]:
        """Widths of a head's keys and of its values."""

    @property
    def rope_base(self) -> float:
        """Base of the wavelengths of rotary positions."""

    @property
    def max_distance(self) -> int:
        """Maximum distance of relative positions."""


SCHEMES: Final[Mapping[str, Callable[[Sizes], PositionScheme]]] = {
    "rope": lambda sizes: Rotary(sizes.head_widths[0], sizes.rope_base),
    "alibi": lambda sizes: LinearBias(sizes.heads),
    "relative": lambda sizes: RelativeVectors(sizes.head_widths[0], sizes.max_distance, sizes.head_widths[1]),
    "none": lambda sizes: PositionScheme(),
}
"""Position schemes by name; positions that are added to embeddings are in `nn/layers/positions.py`."""


def alibi_slopes(heads: int) -> list[float]:
    """Return m_h = 2^(-8h/H) for h = 1 .. H, if H is a power of two.

    Otherwise, as in the paper's released code: the slopes for the next lower power of two, followed by every second
    slope for the next higher one.
    """
    power = 1 << (heads.bit_length() - 1)
    regular = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-4 * head / power) for head in range(1, 2 * power, 2)]
    return regular + between[: heads - power]


def _rotate(x_NHD: Float[Tensor, "N H D"], phases_N1P: Complex[Tensor, "N 1 P"]) -> Float[Tensor, "N H D"]:
    """Rotate pairs of columns: each pair is a complex number, and a rotation is one product."""
    pairs_NHP2 = _wide(x_NHD).unflatten(2, (-1, 2))
    if any(step % 2 for step in pairs_NHP2.stride()[:-1]):  # a part of an odd number of columns, such as uneven heads
        pairs_NHP2 = pairs_NHP2.contiguous()
    turned_NHP = torch.view_as_complex(pairs_NHP2) * phases_N1P
    return torch.view_as_real(turned_NHP).flatten(2).to(x_NHD.dtype)


def _wide(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _distances(queries: int, keys: int, device: torch.device) -> Int[Tensor, "Q K"]:
    """Return j - i for query i and key j, with queries at the last positions of the keys."""
    return torch.arange(keys, device=device) - torch.arange(keys - queries, keys, device=device).unsqueeze(1)


def _distances_back(places: int, rows: int, device: torch.device) -> Int[Tensor, "1 S"]:
    """Return j - i from the last position i to every cache entry; each position j has one entry per row."""
    return (torch.arange(places, device=device) // rows - (places // rows - 1)).unsqueeze(0)
