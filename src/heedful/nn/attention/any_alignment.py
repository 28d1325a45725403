"""Multi-head attention whose heads score with any alignment and weigh with any distribution.

    head_i = p(a(q_i, K_i)) V_i,  a an alignment and p a distribution, of each head or the same for all

Projections, caches and steps are those of `attention`; what a head does with its queries, keys and values is a
`HeadAttention`. Nothing here is fused: see `attention` for the scaled dot product with a softmax.
"""

from collections.abc import Callable
from typing import Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heedful.nn.alignments.base import Alignment
from heedful.nn.alignments.distributions import softmax
from heedful.nn.alignments.random_features import Kernel, causal_linear_attention, linear_attention
from heedful.nn.attention.explicit import attend, position_shares
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.attention.relative_positions import PositionScheme
from heedful.nn.padding import pad, unpad
from heedful.packed import Layout

_NOWHERE: Final = PositionScheme()  # what attention knows of the places of another sequence: nothing


class HeadAttention(nn.Module):
    """y = p(a(q, K) + b) V, with b what a position scheme adds, which may add to V as well.

    `distribution` maps scores, and what is seen, to weights. With `distance`, it is given the distances of queries and
    keys besides: those of single keys, or of areas where the alignment makes areas of keys.
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
        q_BHQD: Float[Tensor, "B H Q D"],
        k_BHLD: Float[Tensor, "B H L D"],
        v_BHLD: Float[Tensor, "B H L D"],
        keep_BL: Bool[Tensor, "B L"] | None,
        positions: PositionScheme = _NOWHERE,
        causal: bool = False,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Q D"]:
        """What queries read; with positions, they stand at the last Q of the L places."""
        bias_BHQL = positions.bias(q_BHQD, k_BHLD.shape[2])
        y_BHQD, weights_BHQC = self._read(q_BHQD, k_BHLD, v_BHLD, keep_BL, bias_BHQL, causal, dropout)
        return positions.read(y_BHQD, weights_BHQC)

    def factors(
        self,
        q_BHQD: Float[Tensor, "B H Q D"],
        k_BHLD: Float[Tensor, "B H L D"],
        v_BHLD: Float[Tensor, "B H L D"],
        keep_BL: Bool[Tensor, "B L"] | None,
    ) -> Float[Tensor, "B H Q L"]:
        """The factor of each place's value in what queries read."""
        _, weights_BHQC = self._read(q_BHQD, k_BHLD, v_BHLD, keep_BL)
        return self.alignment.position_weights(weights_BHQC, k_BHLD.shape[2])

    def _read(
        self,
        q_BHQD: Float[Tensor, "B H Q D"],
        k_BHLD: Float[Tensor, "B H L D"],
        v_BHLD: Float[Tensor, "B H L D"],
        keep_BL: Bool[Tensor, "B L"] | None,
        bias_BHQL: Float[Tensor, "#B H Q L"] | None = None,
        causal: bool = False,
        dropout: float = 0.0,
    ) -> tuple[Float[Tensor, "B H Q D"], Float[Tensor, "B H Q C"]]:
        candidates = self.alignment.prepare(k_BHLD, v_BHLD, keep_BL)
        distance_BHQC = None
        if self.distance is not None:
            # Keys as they were: prepared ones need not be of the queries' space. Those of areas are, and have no other.
            distance_BHQC = self.distance(q_BHQD, k_BHLD if self.alignment.one_to_one else candidates.keys)
        return attend(
            self.alignment,
            self.distribution,
            q_BHQD,
            candidates,
            causal,
            bias_BHQC=bias_BHQL,
            distance_BHQC=distance_BHQC,
            dropout=dropout,
        )


class LinearHeadAttention(HeadAttention):
    """The same with a kernel's features and a softmax, in time and memory linear in Q and L.

    No weights are formed, so there are none to drop: with dropout of weights it computes, and holds, all of them.
    """

    alignment: Kernel

    def __init__(self, alignment: Kernel) -> None:
        super().__init__(alignment)

    def forward(
        self,
        q_BHQD: Float[Tensor, "B H Q D"],
        k_BHLD: Float[Tensor, "B H L D"],
        v_BHLD: Float[Tensor, "B H L D"],
        keep_BL: Bool[Tensor, "B L"] | None,
        positions: PositionScheme = _NOWHERE,
        causal: bool = False,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Q D"]:
        """What queries read; positions are in queries and keys, if anywhere."""
        if dropout:
            return super().forward(q_BHQD, k_BHLD, v_BHLD, keep_BL, positions, causal, dropout)
        attend_linearly = causal_linear_attention if causal else linear_attention
        return attend_linearly(
            self.alignment.query_features(q_BHQD), self.alignment.key_features(k_BHLD, keep_BL), v_BHLD, keep_BL
        )


class AlignedSelfAttention(SelfAttention):
    """Self-attention that reads with any alignment and any distribution."""

    def __init__(
        self,
        width: int,
        heads: int,
        reading: HeadAttention,
        causal: bool = False,
        dropout: float = 0.0,
        positions: PositionScheme | None = None,
    ) -> None:
        super().__init__(width, heads, causal, dropout, positions=positions)
        self.reading = reading

    @property
    def in_slots(self) -> bool:
        """No kernel reads like this."""
        return False

    def _attend(
        self,
        q_NHD: Float[Tensor, "N H D"],
        k_NHD: Float[Tensor, "N H D"],
        v_NHD: Float[Tensor, "N H D"],
        layout: Layout,
    ) -> Float[Tensor, "N H D"]:
        q_BHLD, k_BHLD, v_BHLD = (_padded(x, layout) for x in (q_NHD, k_NHD, v_NHD))
        dropout = self.dropout if self.training else 0.0
        y_BHLD = self.reading(q_BHLD, k_BHLD, v_BHLD, _kept(layout), self.positions, self.causal, dropout)
        return unpad(y_BHLD.transpose(1, 2), layout)

    def _attend_past(
        self,
        q_BHKD: Float[Tensor, "B H K D"],
        cache_2BHSD: Float[Tensor, "2 B H S D"],
        keep: Bool[Tensor, "B 1 K S"] | None,
    ) -> Float[Tensor, "B H K D"]:
        sentences, _, beams, _ = q_BHKD.shape
        q_RH1D = q_BHKD.transpose(1, 2).flatten(0, 1).unsqueeze(2)
        keys_RHTD, values_RHTD = cache_2BHSD if keep is None else _own_past(cache_2BHSD, keep)
        y_RH1D = self.reading(q_RH1D, keys_RHTD, values_RHTD, None, self.positions)
        return y_RH1D.squeeze(2).unflatten(0, (sentences, beams)).transpose(1, 2)


class AlignedCrossAttention(CrossAttention):
    """Attention over a memory that reads with any alignment and any distribution.

    A step prepares the memory's keys again: what alignments make of them differs in width and number, so that no cache
    of one shape could hold it, and the work is small beside a step's own projections.
    """

    def __init__(
        self, width: int, heads: int, reading: HeadAttention, dropout: float = 0.0, memory_width: int | None = None
    ) -> None:
        super().__init__(width, heads, dropout, memory_width)
        self.reading = reading

    @property
    def in_slots(self) -> bool:
        """No kernel reads like this."""
        return False

    def step_weights(
        self,
        x_RE: Float[Tensor, "R E"],
        memory_2BHLD: Float[Tensor, "2 B H L D"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "R L"]:
        """The share of each place in what `step` reads, mean over heads: a row sums to 1 and is 0 in padding.

        That is the weights themselves where they sum to one, place by place. Others, such as those of areas, of a
        sigmoid or with signs, count by their size: see `position_shares`.
        """
        keys, values = memory_2BHLD
        keep_BL = _unmasked(keep)
        factors_BHKL = self.reading.factors(self._queries(x_RE, keys), keys, values, keep_BL)
        return position_shares(factors_BHKL, keep_BL).flatten(0, 1)

    def _attend(
        self,
        q_NHD: Float[Tensor, "N H D"],
        k_MHD: Float[Tensor, "M H D"],
        v_MHD: Float[Tensor, "M H D"],
        layout: Layout,
        memory_layout: Layout,
    ) -> Float[Tensor, "N H D"]:
        q_BHQD, k_BHLD, v_BHLD = _padded(q_NHD, layout), _padded(k_MHD, memory_layout), _padded(v_MHD, memory_layout)
        dropout = self.dropout if self.training else 0.0
        y_BHQD = self.reading(q_BHQD, k_BHLD, v_BHLD, _kept(memory_layout), dropout=dropout)
        return unpad(y_BHQD.transpose(1, 2), layout)

    def _attend_memory(
        self,
        q_BHKD: Float[Tensor, "B H K D"],
        memory_2BHLD: Float[Tensor, "2 B H L D"],
        keep: Bool[Tensor, "B 1 1 L"] | None,
    ) -> Float[Tensor, "B H K D"]:
        keys, values = memory_2BHLD
        y_BHKD: Tensor = self.reading(q_BHKD, keys, values, _unmasked(keep))
        return y_BHKD


def _padded(x_NHD: Float[Tensor, "N H D"], layout: Layout) -> Float[Tensor, "B H L D"]:
    return pad(x_NHD, layout).transpose(1, 2)


def _kept(layout: Layout) -> Bool[Tensor, "B L"] | None:
    return None if layout.even else layout.keep


def _unmasked(keep: Bool[Tensor, "B 1 1 L"] | None) -> Bool[Tensor, "B L"] | None:
    return None if keep is None else keep[:, 0, 0]


def _own_past(cache_2BHSD: Float[Tensor, "2 B H S D"], keep: Bool[Tensor, "B 1 K S"]) -> Float[Tensor, "2 R H T D"]:
    """What each row descends from, in the order of positions: of the K places of each position it keeps one."""
    sentences, _, beams, places = keep.shape
    sentence_B11 = torch.arange(sentences, device=keep.device)[:, None, None]
    kept_BKT = keep[:, 0].unflatten(2, (-1, beams)).int().argmax(3)
    place_BKT = kept_BKT + torch.arange(0, places, beams, device=keep.device)
    past_BKT2HD = cache_2BHSD[:, sentence_B11, :, place_BKT]
    return past_BKT2HD.flatten(0, 1).permute(2, 0, 3, 1, 4)
