"""Frontiers: what the decoding loop asks of the hypotheses of a search."""

from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.decode.hypothesis import Hypothesis


@runtime_checkable
class Frontier(Protocol):
    """The hypotheses of B sentences, K rows each, and the rule by which they grow and end."""

    @property
    def beams(self) -> int:
        """K: rows of each sentence."""
        ...

    @property
    def aligned(self) -> bool:
        """Whether the attention of each step is needed."""
        ...

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row, which the decoder has not seen yet."""
        ...

    def extend(
        self, logits_RV: Float[Tensor, "R V"], attention_RL: Float[Tensor, "R L"] | None
    ) -> tuple["Frontier", Int[Tensor, "B K"] | None]:
        """Grow by one token. Also return the row that each row extends, or None where each extends itself.

        The attention is that of the step which gave the scores, where it is needed. The scores are used up.
        """
        ...

    @property
    def done_B(self) -> Bool[Tensor, "B"]:
        """Which sentences need no further step. Every sentence is done after a finite number of steps."""
        ...

    def select(self, sentences: Int[Tensor, "A"]) -> "Frontier":
        """Keep only these sentences."""
        ...

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Return what was found for each sentence."""
        ...
