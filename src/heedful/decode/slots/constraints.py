"""The constraints of a search in slots: those that can be recorded, on buffers that never move."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.factories import ConstraintFactory, no_repeat
from heedful.decode.constraints.prefix import PrefixInSlots
from heedful.decode.constraints.protocol import Renewable, Sharing, SlotConstraint, SlotFactory, SlotRows
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
        self._made = [factory.in_slots(rows) for factory in _slot_factories(settings)]
        self._rules: list[SlotConstraint] = [PrefixInSlots(self._made, rows)] if prefixed else self._made
        self.sharing = next((rule for rule in self._made if isinstance(rule, Sharing) and rule.requires), None)

    def renew(self, settings: SearchSettings) -> None:
        """Serve the sentences of a search with these settings, which are equal to those that this was made for."""
        for rule, factory in zip(self._made, _slot_factories(settings), strict=True):
            if isinstance(rule, Renewable):
                rule.renew(factory)

    def admit(self, slots: Int[Tensor, "A"], queries: Sequence[Query], firsts: Sequence[int] | None) -> None:
        """Start sentences in these slots, each with its first token, if not `<s>`."""
        for rule in self._rules:
            rule.admit(slots, queries, firsts)

    def scores(
        self, logits_RV: Float[Tensor, "R V"], allowed_V: Bool[Tensor, "V"], ends_R: Bool[Tensor, "R"]
    ) -> Float32[Tensor, "R V"] | None:
        """Return the scores of tokens where they differ from the logits: None without a constraint.

        What may not follow anyway, as it is not `allowed` or `</s>` where `ends` is false, may have any score, unless
        something must occur: then rows that would end depend on what else may follow.
        """
        if not self._rules:
            return None
        scores_RV = logits_RV.to(torch.float32, copy=True)
        if self.sharing is not None:
            scores_RV.masked_fill_(~allowed_V, -math.inf)
            scores_RV[:, END].masked_fill_(~ends_R, -math.inf)
        for rule in self._rules:
            rule.forbid(scores_RV)
        return scores_RV

    def follow(self, rows_R: Int[Tensor, "R"] | None, last_R: Int[Tensor, "R"]) -> None:
        """Go to the next step: row r extends the row rows[r], or itself, by the token last[r]."""
        for rule in self._rules:
            rule.follow(rows_R, last_R)


def _slot_factories(settings: SearchSettings) -> list[SlotFactory]:
    return [factory for factory in _factories(settings) if isinstance(factory, SlotFactory)]


def _factories(settings: SearchSettings) -> tuple[ConstraintFactory, ...]:
    """Return the factories of all constraints that slots do not apply by themselves."""
    named = (no_repeat(settings.no_repeat),) if settings.no_repeat else ()
    return (*named, *settings.constraints)
