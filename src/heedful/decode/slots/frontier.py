"""Frontiers in slots: hypotheses in buffers that never move, so that a step can be recorded.

A `Frontier` makes new tensors at every step, and finished sentences leave it. A `SlotFrontier` writes in place, and
finished sentences wait until their slot is reused. Both find the same hypotheses; frontiers support more options.

Shape letters here and in the other files of this folder: S  slots    P  positions that a slot has room for
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.decode.constraints.tokens import Never
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.constraints import can_record


class SlotFrontier(Protocol):
    """The hypotheses of S sentences, K rows each, and the rule by which they grow and end."""

    @property
    def last_R(self) -> Int[Tensor, "R"]:
        """The last token of each row, which the decoder has not seen yet."""
        ...

    @property
    def done_S(self) -> Bool[Tensor, "S"]:
        """Which slots need no further step: those that are done, and idle ones."""
        ...

    def admit(
        self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None = None, seed: int = 0
    ) -> None:
        """Start sentences in these slots, each with its first token, if not `<s>`; `seed` is that of sampling."""
        ...

    def grow(self, logits_RV: Float[Tensor, "R V"]) -> None:
        """Grow by one token, and advance the decoder's slots: positions, and which row each row extends."""
        ...

    def hypotheses(self, slots: Int[Tensor, "A"]) -> list[list[Hypothesis]]:
        """Return what was found in these slots. Waits for the device."""
        ...


def can_use_slots(settings: SearchSettings) -> bool:
    """Whether a search with these settings can use slots."""
    plain = not settings.attentive and (settings.sampling is None or settings.sampling.samples == 1)
    return plain and can_record(settings)


def allowed_tokens(settings: SearchSettings, vocab_size: int, device: torch.device) -> Bool[Tensor, "V"]:
    """Return which tokens a search may output."""
    allowed_V = torch.ones(vocab_size, dtype=torch.bool, device=device)
    allowed_V[Never.of(settings.never, device).tokens] = False
    return allowed_V
