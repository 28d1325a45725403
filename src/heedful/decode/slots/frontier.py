"""Frontiers in slots: hypotheses in buffers that never move, so that a step can be recorded.

A `Frontier` makes new tensors at every step, and finished sentences leave it. A `SlotFrontier` writes in place, and
finished sentences wait until their slot is reused. Both find the same hypotheses; frontiers support more options.

Shape letters here and in the other files of this folder: S  slots    P  positions that a slot has room for
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby

import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.prefix import PrefixInSlots
from heedful.decode.constraints.protocol import (
    ConstraintFactory,
    Sharing,
    SlotConstraint,
    SlotFactory,
    SlotRows,
)
from heedful.decode.constraints.tokens import Never, NoRepeat
from heedful.decode.constraints.words.in_slots import RequiredInSlots
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.settings import SearchSettings
from heedful.decode.ticket import Ticket
from heedful.models.transformer.slots import Slots


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

    def admit(self, slots: Int[Tensor, "A"], tickets: Sequence[Ticket], firsts: Sequence[int] | None) -> None:
        """Start sentences in these slots, each with its first token, if not `<s>`.

        Their settings have the constraints that this was made for, each with what it knows of its own queries.
        """
        if not self._rules:
            return
        first = 0
        for _, group in groupby(tickets, key=lambda ticket: id(ticket.settings)):
            some = list(group)
            for rule, factory in zip(self._made, _slot_factories(some[0].settings), strict=True):
                if isinstance(rule, RequiredInSlots):  # which takes the words of sentences from its factory
                    rule.renew(factory)
            here = slice(first, first + len(some))
            queries, of_these = [ticket.query for ticket in some], None if firsts is None else firsts[here]
            for rule in self._rules:
                rule.admit(slots[here], queries, of_these)
            first += len(some)

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
    named = (NoRepeat(settings.no_repeat),) if settings.no_repeat else ()
    return (*named, *settings.constraints)


def can_use_slots(settings: SearchSettings) -> bool:
    """Whether a search with these settings can use slots: all its constraints can be recorded."""
    plain = not settings.attentive and (settings.sampling is None or settings.sampling.samples == 1)
    return plain and all(isinstance(factory, SlotFactory) for factory in _factories(settings))


class SlotFrontier(ABC):
    """The hypotheses of S sentences, K rows each, and the rule by which they grow and end."""

    last_R: Int[Tensor, "R"]  # the last token of each row, which the decoder has not seen yet
    done_S: Bool[Tensor, "S"]  # which slots need no further step: those that are done, and idle ones

    def __init__(self, slots: Slots, settings: SearchSettings, vocab_size: int, prefixed: bool = False) -> None:
        device = slots.positions_S.device
        self.constraints = ConstraintsInSlots(slots, settings, vocab_size, prefixed)
        self.allowed_V = torch.ones(vocab_size, dtype=torch.bool, device=device)  # which tokens may be output
        self.allowed_V[Never.of(settings.never, device).tokens] = False

    @abstractmethod
    def admit(self, slots: Int[Tensor, "A"], tickets: Sequence[Ticket], firsts: Sequence[int] | None = None) -> None:
        """Start sentences in these slots, each with its first token, if not `<s>`.

        Options that are not part of a recorded step are in buffers, and are each ticket's own: length penalty, minimum
        length, temperature and filters of sampling, seeds.
        """

    @abstractmethod
    def grow(self, logits_RV: Float[Tensor, "R V"]) -> None:
        """Grow by one token, and advance the decoder's slots: positions, and which row each row extends."""

    @abstractmethod
    def results(self, slots: Int[Tensor, "A"], longest: int) -> tuple[Tensor, ...]:
        """Return copies of what was found in these slots so far; no target has more than `longest` tokens."""

    @staticmethod
    @abstractmethod
    def read(results: Sequence[Tensor], tickets: Sequence[Ticket]) -> list[list[Hypothesis]]:
        """Return hypotheses, given results on the host."""

    @staticmethod
    @abstractmethod
    def read_draft(results: Sequence[Tensor]) -> list[list[int]]:
        """Return the best tokens so far of slots that are not done, given their results on the host."""
