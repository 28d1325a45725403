"""What hypotheses attended to, step by step: for coverage and for alignments."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.decode.frontiers.rows import pick
from heedful.packed import Layout


@dataclass(frozen=True, eq=False)
class Attended:
    """The attention of K rows of each sentence over its source, in the steps that put out their tokens."""

    sums_BKL: Float[Tensor, "B K L"]  # of the weights; 1 more behind a source's end: nothing is left to cover there
    places_BKT: Int[Tensor, "B K T"]  # the source's place with the greatest weight; `<s>` has none

    @classmethod
    def begin(cls, sources: Layout, beams: int) -> "Attended":
        """Before the first step over the memory of these sources."""
        sums_BL = (~sources.keep).to(torch.float32)
        nothing_BK0 = torch.empty(len(sums_BL), beams, 0, dtype=torch.int64, device=sums_BL.device)
        return cls(sums_BL.unsqueeze(1).repeat(1, beams, 1), nothing_BK0)

    def add(self, attention_RL: Float[Tensor, "R L"] | None, going_BK: Bool[Tensor, "B #K"]) -> "Attended":
        """One step further. Rows that do not go on put out no token: their weights count for nothing."""
        assert attention_RL is not None, "a decoder that is started `aligned` gives its attention at every step"
        attention_BKL = attention_RL.unflatten(0, (len(self.sums_BKL), -1))
        return Attended(
            self.sums_BKL + attention_BKL * going_BK.unsqueeze(2),
            torch.cat([self.places_BKT, attention_BKL.argmax(2, keepdim=True)], dim=2),
        )

    def pick(self, rows_BI: Int[Tensor, "B I"]) -> "Attended":
        """I of the rows of each sentence."""
        return Attended(pick(self.sums_BKL, rows_BI), pick(self.places_BKT, rows_BI))

    def select(self, sentences: Int[Tensor, "A"]) -> "Attended":
        """Keep only these sentences."""
        return Attended(self.sums_BKL[sentences], self.places_BKT[sentences])
