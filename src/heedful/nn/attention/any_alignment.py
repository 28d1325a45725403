"""Multi-head attention with any alignment and any distribution.

    head_i = p(a(q_i, K_i)) V_i,  a an alignment and p a distribution, per head or shared by all heads

Projections, caches and steps are those of `multi_head`; a `HeadAttention` computes what the heads do with queries, keys
and values. Nothing here is fused: `multi_head` is faster for the scaled dot product with a softmax.
"""

from collections.abc import Callable
from typing import Final, Unpack

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.distributions import softmax
from heedful.nn.alignments.random_features import Kernel, causal_linear_attention, linear_attention
from heedful.nn.attention.backends import PackedHeads, PaddedHeads
from heedful.nn.attention.explicit import attend, position_shares
from heedful.nn.attention.multi_head import CrossAttention, Projections, SelfAttention
from heedful.nn.attention.relative_positions import PositionScheme
from heedful.nn.padding import pad, unpad

_NO_POSITIONS: Final = PositionScheme()  # attention over another sequence does not use positions


class HeadAttention(nn.Module):
    """y = p(a(q, K) + b) V, where b is the bias of a position scheme, which may add to V too.

    `distribution` maps scores and a mask of visible keys to weights. If `distance` is given, it is also passed the
    distances between queries and keys: single keys, or areas if the alignment groups keys into areas.
    """

    def __init__(
        self,
        alignment: Alignment,
        distribution: Callable[..., Tensor] = softmax,
        distance: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.alignment, self.distribution, self.distance = alignment, distribution, distance

    def forward(
        self,
        heads: PaddedHeads,
        positions: PositionScheme = _NO_POSITIONS,
        causal: bool = False,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Q U"]:
        """Return what the queries read. With a position scheme, they are at the last Q of the L positions."""
        y_BHQU, weights_BHQC = self._read(heads, positions, causal, dropout)
        return positions.read(y_BHQU, weights_BHQC)

    def factors(
        self, heads: PaddedHeads, positions: PositionScheme = _NO_POSITIONS, causal: bool = False
    ) -> Float[Tensor, "B H Q L"]:
        """Return the factor of the value at each position in what the queries read."""
        _, weights_BHQC = self._read(heads, positions, causal)
        return self.alignment.position_weights(weights_BHQC, heads.k_BHLD.shape[2])

    def _read(
        self, heads: PaddedHeads, positions: PositionScheme, causal: bool, dropout: float = 0.0
    ) -> tuple[Float[Tensor, "B H Q U"], Float[Tensor, "B H Q C"]]:
        q_BHQD, k_BHLD, v_BHLU, keep_BL = heads
        candidates = self.alignment.prepare(k_BHLD, v_BHLU, keep_BL)
        distance_BHQC = None
        if self.distance is not None:
            # Unprepared keys: prepared ones may be in another space than queries. Areas exist only as prepared keys.
            distance_BHQC = self.distance(q_BHQD, k_BHLD if self.alignment.one_to_one else candidates.keys)
        return attend(
            self.alignment,
            self.distribution,
            q_BHQD,
            candidates,
            causal,
            bias_BHQC=positions.bias(q_BHQD, k_BHLD.shape[2]),
            distance_BHQC=distance_BHQC,
            dropout=dropout,
        )


class LinearHeadAttention(HeadAttention):
    """Head attention with the random features of a kernel and a softmax, linear in Q and L in time and memory.

    It does not compute weights, except with dropout of weights, when it needs all of them.
    """

    alignment: Kernel

    def __init__(self, alignment: Kernel) -> None:
        super().__init__(alignment)

    def forward(
        self,
        heads: PaddedHeads,
        positions: PositionScheme = _NO_POSITIONS,
        causal: bool = False,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Q U"]:
        """Return what the queries read. Positions can only be encoded in queries and keys."""
        if dropout:
            return super().forward(heads, positions, causal, dropout)
        q_BHQD, k_BHLD, v_BHLU, keep_BL = heads
        attend_linearly = causal_linear_attention if causal else linear_attention
        return attend_linearly(
            self.alignment.query_features(q_BHQD), self.alignment.key_features(k_BHLD, keep_BL), v_BHLU, keep_BL
        )


class AlignedSelfAttention(SelfAttention):
    """Self-attention with any alignment and any distribution."""

    def __init__(
        self,
        width: int,
        heads: int,
        reading: HeadAttention,
        causal: bool = False,
        dropout: float = 0.0,
        positions: PositionScheme | None = None,
        **projections: Unpack[Projections],
    ) -> None:
        super().__init__(width, heads, causal, dropout, positions=positions, **projections)
        self.reading = reading

    @property
    def in_slots(self) -> bool:
        """Whether a step in slots computes the same: it does not, as there is no kernel for it."""
        return False

    @property
    def counts_places(self) -> bool:
        """See `SelfAttention.counts_places`."""
        return self.reading.alignment.fixed_length

    def _attend(self, heads: PackedHeads) -> Float[Tensor, "N H U"]:
        dropout = self.dropout if self.training else 0.0
        y_BHLU = self.reading(_pad_heads(heads), self.positions, self.causal, dropout)
        return unpad(y_BHLU.transpose(1, 2), heads.queries)

    def _weights(self, heads: PackedHeads) -> Float[Tensor, "B H L L"]:
        return self.reading.factors(_pad_heads(heads), self.positions, self.causal)

    def _attend_past(self, heads: PaddedHeads, starts_B: Int[Tensor, "B"] | None) -> Float[Tensor, "B H K U"]:
        q_BHKD, keys_BHSD, values_BHSU, keep = heads
        sentences, _, beams, _ = q_BHKD.shape
        q_RH1D = q_BHKD.transpose(1, 2).flatten(0, 1).unsqueeze(2)
        keys_RHTD, values_RHTU = (
            cached if keep is None else _own_past(cached, keep) for cached in (keys_BHSD, values_BHSU)
        )
        keep_RT = None
        if starts_B is not None:
            if self.reading.alignment.fixed_length:
                raise ValueError("an alignment by place counts from the start: its prompts must have one length")
            there_BT = torch.arange(keys_RHTD.shape[2], device=starts_B.device) >= starts_B.unsqueeze(1)
            keep_RT = there_BT.repeat_interleave(beams, dim=0)
        y_RH1U = self.reading(PaddedHeads(q_RH1D, keys_RHTD, values_RHTU, keep_RT), self.positions)
        return y_RH1U.squeeze(2).unflatten(0, (sentences, beams)).transpose(1, 2)


class AlignedCrossAttention(CrossAttention):
    """Attention over a memory with any alignment and any distribution.

    Every step prepares the keys of the memory again: prepared keys differ in width and number between alignments, so a
    cache of one shape could not hold them, and the work is small compared to the projections of a step.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        reading: HeadAttention,
        dropout: float = 0.0,
        memory_width: int | None = None,
        **projections: Unpack[Projections],
    ) -> None:
        super().__init__(width, heads, dropout, memory_width, **projections)
        self.reading = reading

    @property
    def in_slots(self) -> bool:
        """Whether a step in slots computes the same: it does not, as there is no kernel for it."""
        return False

    def step_weights(
        self,
        x_RE: Float[Tensor, "R E"],
        memory_2BHLC: Float[Tensor, "2 B H L C"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "R L"]:
        """Return the share of each position in what `step` reads, averaged over heads: rows sum to 1, padding has 0.

        These are the weights themselves if there is one per position and they sum to one. Other weights, such as those
        of areas, of a sigmoid, or with signs, count by their absolute value: see `position_shares`.
        """
        keys, values = self.shape.narrowed(memory_2BHLC)
        keep_BL = _drop_mask_axes(keep)
        factors_BHKL = self.reading.factors(PaddedHeads(self._queries(x_RE, keys), keys, values, keep_BL))
        return position_shares(factors_BHKL, keep_BL).flatten(0, 1)

    def _attend(self, heads: PackedHeads) -> Float[Tensor, "N H U"]:
        y_BHQU = self.reading(_pad_heads(heads), dropout=self.dropout if self.training else 0.0)
        return unpad(y_BHQU.transpose(1, 2), heads.queries)

    def _weights(self, heads: PackedHeads) -> Float[Tensor, "B H Lq Lk"]:
        return self.reading.factors(_pad_heads(heads))

    def _attend_memory(self, heads: PaddedHeads) -> Float[Tensor, "B H K U"]:
        y_BHKU: Tensor = self.reading(heads._replace(keep=_drop_mask_axes(heads.keep)))
        return y_BHKU


def _pad_heads(heads: PackedHeads) -> PaddedHeads:
    """Pad queries, keys and values; all tokens of a sentence are visible."""
    q_NHD, k_MHD, v_MHU, queries, keys = heads
    q_BHQD, k_BHLD, v_BHLU = (
        pad(x, layout).transpose(1, 2) for x, layout in ((q_NHD, queries), (k_MHD, keys), (v_MHU, keys))
    )
    return PaddedHeads(q_BHQD, k_BHLD, v_BHLU, None if keys.even else keys.keep)


def _drop_mask_axes(keep: Bool[Tensor, "B 1 1 L"] | None) -> Bool[Tensor, "B L"] | None:
    return None if keep is None else keep[:, 0, 0]


def _own_past(cached_BHSD: Float[Tensor, "B H S D"], keep: Bool[Tensor, "B 1 K S"]) -> Float[Tensor, "R H T D"]:
    """Return the keys or values that each row descends from, in order: one of the K entries of each position."""
    sentences, _, beams, places = keep.shape
    sentence_B11 = torch.arange(sentences, device=keep.device)[:, None, None]
    kept_BKT = keep[:, 0].unflatten(2, (-1, beams)).int().argmax(3)
    place_BKT = kept_BKT + torch.arange(0, places, beams, device=keep.device)
    past_BKTHD = cached_BHSD[sentence_B11, :, place_BKT]
    return past_BKTHD.flatten(0, 1).transpose(1, 2)
