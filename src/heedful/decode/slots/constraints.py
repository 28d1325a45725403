"""The constraints of a search in slots: those that can be recorded, on buffers that never move."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from heedful.decode.constraints.factories import ConstraintFactory, no_repeat
from heedful.decode.constraints.prefix import PrefixInSlots
from heedful.decode.constraints.protocol import SlotConstraint, SlotFactory, SlotRows
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings
from heedful.models.transformer.slots import Slots


def can_record(settings: SearchSettings) -> bool:
    """Whether all constraints of these settings can be recorded."""
    return all(isinstance(factory, SlotFactory) for factory in _factories(settings))


class ConstraintsInSlots:
    """All constraints of the settings, besides tokens that are never output and the minimum length.

    Where targets are `prefixed`, they apply after the prefixes.
    """

    def __init__(self, slots: Slots, settings: SearchSettings, vocab_size: int, prefixed: bool = False) -> None:
        count, beams, room = slots.ancestors_SKP.shape
        rows = SlotRows(count, beams, room, vocab_size, slots.ancestors_SKP.device)
        made = [factory.in_slots(rows) for factory in _factories(settings) if isinstance(factory, SlotFactory)]
        self._rules: list[SlotConstraint] = [PrefixInSlots(made, rows)] if prefixed else made

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start sentences in these slots, each with its first token, if not `<s>`."""
        for rule in self._rules:
            rule.admit(slots, queries, firsts)

    def scores(self, logits_RV: Float[Tensor, "R V"]) -> Float32[Tensor, "R V"] | None:
        """Return the scores of tokens where they differ from the logits: None without a constraint."""
        if not self._rules:
            return None
        scores_RV = logits_RV.to(torch.float32, copy=True)
        for rule in self._rules:
            rule.forbid(scores_RV)
        return scores_RV

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Go to the next step: row r extends the row rows[r], or itself, by the token last[r]."""
        for rule in self._rules:
            rule.follow(rows_R, last_R)


def _factories(settings: SearchSettings) -> tuple[ConstraintFactory, ...]:
    """Return the factories of all constraints that slots do not apply by themselves."""
    named = (no_repeat(settings.no_repeat),) if settings.no_repeat else ()
    return (*named, *settings.constraints)
