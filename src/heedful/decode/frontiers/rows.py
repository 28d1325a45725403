"""K rows per sentence: what every frontier knows of them, and how they are rearranged."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from heedful.base.packed import Layout
from heedful.data.tokenize.tokenizer import BEGIN


@dataclass(frozen=True, eq=False)
class Attended:
    """The attention of K rows per sentence over its source, in the steps that output their tokens.

    It serves coverage and alignments.
    """

    sums_BKL: Float[Tensor, "B K L"]  # of the weights; plus 1 after the end of a source: nothing is left to cover there
    indices_BKT: Int[Tensor, "B K T"]  # of the source token with the greatest weight; `<s>` has none

    @classmethod
    def begin(cls, sources: Layout, beams: int) -> "Attended":
        """Start before the first step over the memory of these sources."""
        sums_BL = (~sources.keep).to(torch.float32)
        nothing_BK0 = torch.empty(len(sums_BL), beams, 0, dtype=torch.int64, device=sums_BL.device)
        return cls(sums_BL.unsqueeze(1).repeat(1, beams, 1), nothing_BK0)

    def add(self, attention_RL: Float[Tensor, "R L"] | None, going_BK: Bool[Tensor, "B #K"]) -> "Attended":
        """Add one step. Rows that are over output no token, so their weights do not count."""
        assert attention_RL is not None, "a decoder that is started `aligned` gives its attention at every step"
        attention_BKL = attention_RL.unflatten(0, (len(self.sums_BKL), -1))
        return Attended(
            self.sums_BKL + attention_BKL * going_BK.unsqueeze(2),
            torch.cat([self.indices_BKT, attention_BKL.argmax(2, keepdim=True)], dim=2),
        )

    def pick(self, rows_BI: Int[Tensor, "B I"]) -> "Attended":
        """Return I of the rows of each sentence."""
        return Attended(pick(self.sums_BKL, rows_BI), pick(self.indices_BKT, rows_BI))

    def select(self, sentences: Int[Tensor, "A"]) -> "Attended":
        """Keep only these sentences."""
        return Attended(self.sums_BKL[sentences], self.indices_BKT[sentences])


class Rows:
    """Hypotheses that grow by one token per step."""

    tokens_BKT: Int[Tensor, "B K T"]  # first `<s>`, or the last token of the prompt
    attended: Attended | None

    @property
    def aligned(self) -> bool:
        """Whether the attention of each step is needed."""
        return self.attended is not None

    @property
    def length(self) -> int:
        """The number of tokens decoded."""
        return self.tokens_BKT.shape[2] - 1

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row."""
        return self.tokens_BKT[:, :, -1].flatten()


def first_tokens(
    sentences: int, beams: int, firsts: Sequence[int] | None, device: torch.device
) -> Int[Tensor, "B K 1"]:
    """Return the tokens that the first step takes: `<s>` where none are given."""
    if firsts is None:
        return torch.full((sentences, beams, 1), BEGIN, device=device)
    return torch.tensor(firsts, device=device).view(sentences, 1, 1).repeat(1, beams, 1)


def pick(x_BW: Shaped[Tensor, "B W *rest"], indices_BI: Int[Tensor, "B I"]) -> Shaped[Tensor, "B I *rest"]:
    """Return I of the W items of each sentence."""
    sentences = torch.arange(x_BW.shape[0], device=x_BW.device).unsqueeze(1)
    return x_BW[sentences, indices_BI]
