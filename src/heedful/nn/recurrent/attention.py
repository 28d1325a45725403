"""Attention of a recurrent decoder: a single head whose queries are the states of the decoder.

    r(t) = sum_s w(t, s) v(s),  w = g * p(a(q(t), K))

a is an alignment, p a distribution, and a window determines which keys p sees, and a factor g of their weights.

Shape letters of this file: Q  queries    C  candidates
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.nn.alignments.base import Alignment, Candidates
from heedful.nn.attention.explicit import position_shares
from heedful.nn.attention.windows import GlobalView
from heedful.nn.padding import pad
from heedful.nn.recurrent.stack import TimeMajor


@dataclass(frozen=True, eq=False)
class AttendedMemory:
    """The memories of B sentences, prepared once for all queries."""

    candidates: Candidates  # of one head
    lengths_B: Int[Tensor, "B"]
    places: int  # L, the length of the longest memory
    dtype: torch.dtype  # of what is read
    keys_BLE: Float[Tensor, "B L E"] | None = None  # unprepared keys, if distances to them are needed

    def select(self, sentences: Int[Tensor, "A"]) -> "AttendedMemory":
        """Return the memories of these sentences."""
        return self._each(lambda tensor: tensor.index_select(0, sentences))

    def first(self, rows: int) -> "AttendedMemory":
        """Return the memories of the first `rows` sentences, without a copy."""
        return self if rows == len(self.lengths_B) else self._each(lambda tensor: tensor[:rows])

    def _each(self, choose: Callable[[Tensor], Tensor]) -> "AttendedMemory":
        keys, values, keep = self.candidates.keys, self.candidates.values, self.candidates.keep
        candidates = replace(
            self.candidates, keys=choose(keys), values=choose(values), keep=None if keep is None else choose(keep)
        )
        own_keys = None if self.keys_BLE is None else choose(self.keys_BLE)
        return replace(self, candidates=candidates, lengths_B=choose(self.lengths_B), keys_BLE=own_keys)


class RecurrentAttention(nn.Module):
    """Attends to memories with any alignment, distribution and window.

    If `distance` is given, the distribution is also passed the distances between queries and keys: single keys, or
    areas if the alignment groups keys into areas.
    """

    def __init__(
        self,
        alignment: Alignment,
        distribution: Callable[..., Tensor],
        view: GlobalView | None = None,
        distance: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.alignment, self.distribution, self.distance = alignment, distribution, distance
        self.view = view or GlobalView()

    def prepare(
        self, memory: Packed, values_MD: Float[Tensor, "M D"] | None = None, time: TimeMajor | None = None
    ) -> AttendedMemory:
        """Compute what does not depend on queries. Values are the vectors of the memory unless `values` are given.

        If `time` is given, the sentences are in its order.
        """
        keys_ME, layout = memory.values, memory.layout
        values_MD = keys_ME if values_MD is None else values_MD
        keep_BL = None if layout.even else _in_order(layout.keep, time)
        if self.alignment.one_to_one and not self.alignment.fixed_length:  # prepare before padding, to do less work
            packed = self.alignment.prepare(keys_ME[None, None], values_MD[None, None])
            keys, values = (_pad(x[0, 0], layout, time).unsqueeze(1) for x in (packed.keys, packed.values))
            candidates = Candidates(keys, values, keep_BL)
        else:
            keys, values = (_pad(x, layout, time).unsqueeze(1) for x in (keys_ME, values_MD))
            candidates = self.alignment.prepare(keys, values, keep_BL)
        measured = self.distance is not None and self.alignment.one_to_one
        own_keys = _pad(keys_ME, layout, time) if measured else None
        return AttendedMemory(candidates, _in_order(layout.lengths, time), layout.bound, keys_ME.dtype, own_keys)

    def forward(
        self, q_BQE: Float[Tensor, "B Q E"], readable: AttendedMemory, positions_Q: Int[Tensor, "Q"]
    ) -> tuple[Float[Tensor, "B Q D"], Float[Tensor, "B Q C"]]:
        """Return what each query reads, and the weights of the candidates; `positions` are those in the target."""
        q_BQE = q_BQE.to(readable.candidates.keys.dtype)
        scores_BQC = self.alignment(q_BQE.unsqueeze(1), readable.candidates).squeeze(1)
        weights_BQC = self.weigh(scores_BQC, q_BQE, readable, positions_Q)
        values_BCD = readable.candidates.values.squeeze(1)
        return (weights_BQC.to(values_BCD.dtype) @ values_BCD).to(readable.dtype), weights_BQC

    def weigh(
        self,
        scores_BQC: Float[Tensor, "B Q C"],
        q_BQE: Float[Tensor, "B Q E"],
        readable: AttendedMemory,
        positions_Q: Int[Tensor, "Q"],
    ) -> Float[Tensor, "B Q C"]:
        """Turn scores into weights, in float32 or wider."""
        keep = readable.candidates.keep
        scores = scores_BQC.to(torch.promote_types(scores_BQC.dtype, torch.float32)).unsqueeze(1)
        near_BQC, factor_BQC = self.view(q_BQE, positions_Q, readable.lengths_B, scores.shape[3])
        seen = near_BQC if near_BQC is not None else None if keep is None else keep.unsqueeze(1)
        measured: tuple[Any, ...] = () if self.distance is None else (self._distances(q_BQE, readable),)
        seen = None if seen is None else seen.unsqueeze(1).expand_as(scores)
        weights: Tensor = self.distribution(scores, *measured, seen).squeeze(1)
        return weights if factor_BQC is None else weights * factor_BQC

    def shares(self, weights_BQC: Float[Tensor, "B Q C"], readable: AttendedMemory) -> Float[Tensor, "B Q L"]:
        """Return the share of each position in what each query reads: see `position_shares`."""
        places = readable.places
        keep_BL = torch.arange(places, device=weights_BQC.device) < readable.lengths_B.unsqueeze(1)
        return position_shares(self.alignment.position_weights(weights_BQC.unsqueeze(1), places), keep_BL)

    def _distances(self, q_BQE: Tensor, readable: AttendedMemory) -> Tensor:
        assert self.distance is not None
        own = readable.keys_BLE
        return self.distance(q_BQE.unsqueeze(1), readable.candidates.keys if own is None else own.unsqueeze(1))


def _in_order(x_B: Shaped[Tensor, "B *rest"], time: TimeMajor | None) -> Shaped[Tensor, "B *rest"]:
    """Return one row per sentence, in the order of `time` if it is given."""
    return x_B if time is None else x_B.index_select(0, time.longest_first)


class _PadInOrder(torch.autograd.Function):
    """Pads with the sentences in the order of `time`."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor, layout: Layout, time: TimeMajor) -> Tensor:
        ctx.layout, ctx.time = layout, time
        places = layout.gather.index_select(0, time.longest_first)
        return packed.index_select(0, places.flatten()).unflatten(0, (layout.sentences, layout.bound))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        layout, time = ctx.layout, ctx.time
        sentences = layout.scatter // layout.bound
        places = time.ranks.index_select(0, sentences) * layout.bound + layout.positions
        return gradients[0].flatten(0, 1).index_select(0, places), None, None


def _pad(x_MD: Tensor, layout: Layout, time: TimeMajor | None) -> Tensor:
    padded: Tensor
    if time is None:
        padded = pad(x_MD, layout)
    else:
        padded = _PadInOrder.apply(x_MD, layout, time)  # type: ignore[no-untyped-call]
    # For a single row, a CPU multiplies 16 bits at half the speed of 32, and compiles a kernel per number of rows.
    return padded.to(torch.promote_types(x_MD.dtype, torch.float32)) if x_MD.device.type == "cpu" else padded
