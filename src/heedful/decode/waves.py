"""Waves: sentences that are decoded together, step by step, with any decoder; a sentence that is done leaves.

The loop does not know what scores the tokens (the `Scorer`) or how hypotheses are chosen (the `Frontier`).
"""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from heedful.base.errors import UserError
from heedful.base.packed import Layout, Packed
from heedful.data.epochs.plan import batches_by_length
from heedful.data.tokenize.tokenizer import END, PAD
from heedful.decode.constraints.prefix import make_constraints
from heedful.decode.frontiers.beam import Beam
from heedful.decode.frontiers.independent import IndependentRows
from heedful.decode.frontiers.rows import Attended, Frontier
from heedful.decode.frontiers.token_scores import Draws
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, pack_prompts, pack_sources
from heedful.decode.scorer import Scorer
from heedful.decode.settings import SearchSettings
from heedful.decode.shortlist import Shortlists, listed_queries, listed_settings, takes_shortlists, with_tokens
from heedful.decode.ticket import Event, Ticket, by_group
from heedful.models.protocols import joining

_MOST: Final = 8  # waves at once: each step of a wave reads all weights, however few sentences it has


class Wave:
    """Sentences that are decoded together: all of them are at the same step."""

    def __init__(self, scorer: Scorer, sources: Packed, frontier: Frontier) -> None:
        self._scorer, self._frontier = scorer, frontier
        self._state = scorer.begin(sources, frontier.beams, frontier.aligned)
        self.going = list(range(sources.layout.sentences))  # indices of the sentences that are not done

    @torch.inference_mode()
    def step(self) -> list[tuple[int, list[Hypothesis]]]:
        """Take one step; return the indices of the sentences that are done now, with what was found.

        The host asks the device once per step (which sentences are done?), and fetches what is done.
        """
        logits_RV, state = self._scorer.step(self._frontier.last_R, self._state)
        frontier, parents_BK = self._frontier.extend(logits_RV, state.attention_RL)
        done = frontier.done_B.tolist()
        left: list[tuple[int, list[Hypothesis]]] = []
        if any(done):
            leaving = [row for row, is_done in enumerate(done) if is_done]
            staying = [row for row, is_done in enumerate(done) if not is_done]
            found = frontier.select(_index(leaving, logits_RV)).hypotheses()
            left = list(zip([self.going[row] for row in leaving], found, strict=True))
            self.going = [self.going[row] for row in staying]
            if not staying:
                return left
            rows = _index(staying, logits_RV)
            frontier, state = frontier.select(rows), state.narrow(rows)
            parents_BK = None if parents_BK is None else parents_BK[rows]
        self._frontier = frontier
        self._state = state if parents_BK is None else state.reorder(parents_BK)
        return left

    @torch.inference_mode()
    def drop(self, indices: set[int]) -> None:
        """Stop these sentences."""
        staying = [row for row, index in enumerate(self.going) if index not in indices]
        self.going = [self.going[row] for row in staying]
        if staying:
            rows = _index(staying, self._frontier.log_p_BK)
            self._frontier, self._state = self._frontier.select(rows), self._state.narrow(rows)

    @property
    def joins(self) -> bool:
        """Whether its sentences can go on among others."""
        return self._frontier.joins and joining(self._state) is not None

    @property
    def moves_nothing(self) -> bool:
        """Whether sentences join it without a copy of what it has."""
        state = joining(self._state)
        return state is not None and state.joins_in_place

    @torch.inference_mode()
    def take_over(self, other: "Wave") -> bool:
        """Go on with the sentences of another wave too, after these; return whether that can be."""
        own = joining(self._state)
        state = None if own is None else own.join(other._state)
        if state is None:
            return False
        self._state, self._frontier = state, self._frontier.together(other._frontier)
        self.going = list(range(len(self.going) + len(other.going)))
        return True

    def draft(self, index: int) -> list[int]:
        """Return the best tokens so far of a sentence that is not done. Waits for the device."""
        tokens: list[int] = self._frontier.tokens_BKT[self.going.index(index), 0, 1:].tolist()
        return [token for token in tokens if token not in (END, PAD)]


class WaveOfQueries(Wave):
    """A wave of queries, which may have shortlists."""

    def __init__(self, scorer: Scorer, queries: Sequence[Query], settings: SearchSettings) -> None:
        self._listed = queries if takes_shortlists(queries, settings) else None
        if self._listed is not None:
            lists, words_U = Shortlists.of(queries, scorer.device)
            scorer, settings = scorer.listed(lists, words_U), listed_settings(settings, lists)
            queries = listed_queries(queries)
        packed, firsts = pack_prompts(queries) if scorer.continues else (pack_sources(queries), None)
        sources = packed.to(scorer.device)
        super().__init__(scorer, sources, begin_frontier(queries, sources.layout, settings, scorer, firsts))

    def step(self) -> list[tuple[int, list[Hypothesis]]]:
        """Take one step; return the indices of the queries that are done now, with what was found."""
        left, listed = super().step(), self._listed
        if listed is None:
            return left
        return [(index, with_tokens([found], [listed[index]])[0]) for index, found in left]

    @property
    def joins(self) -> bool:
        """See `Wave.joins`: shortlists are of one batch."""
        return self._listed is None and super().joins

    def draft(self, index: int) -> list[int]:
        """Return the best tokens so far of a query that is not done. Waits for the device."""
        tokens = super().draft(index)
        if self._listed is None:
            return tokens
        draft = Hypothesis(tuple(tokens), 0.0, 0.0, complete=False)
        return list(with_tokens([[draft]], [self._listed[index]])[0][0].tokens)


def begin_frontier(
    queries: Sequence[Query],
    sources: Layout,
    settings: SearchSettings,
    scorer: Scorer,
    firsts: Sequence[int] | None = None,
) -> Frontier:
    """Start the hypotheses of a wave, as the settings ask.

    `sources` is the layout of the wave on the device; `firsts` are the tokens that the first step takes, if not `<s>`.
    """
    device = scorer.device
    limits = [query.limit for query in queries]
    constraints = make_constraints(settings.rules, queries, device)
    attended = Attended.begin(sources, settings.rows) if settings.attentive else None
    start = limits, settings, constraints, device, attended, firsts
    if settings.sampling is not None:
        draws = Draws.of(settings.sampling, [query.drawn_from for query in queries], max(limits), device)
        return IndependentRows.begin(*start, chooser=draws, ranking=scorer.ranking)
    kind = IndependentRows if settings.beam == 1 else Beam
    return kind.begin(*start, ranking=scorer.ranking)


def decode(scorer: Scorer, sources: Packed, frontier: Frontier) -> list[list[Hypothesis]]:
    """Decode one wave until every sentence is done."""
    with torch.inference_mode():
        wave, found = Wave(scorer, sources, frontier), dict[int, list[Hypothesis]]()
    while wave.going:
        found.update(wave.step())
    return [found[index] for index in range(len(found))]


def _index(rows: list[int], like: Tensor) -> Int[Tensor, "A"]:
    return torch.tensor(rows, dtype=torch.int64, device=like.device)


# --- the waves of an engine -------------------------------------------------------------------------------------------


@dataclass
class _Live:
    wave: Wave
    tickets: list[Ticket]
    drafting: bool = field(init=False)

    def __post_init__(self) -> None:
        self.drafting = any(ticket.drafts for ticket in self.tickets)

    @property
    def going(self) -> Iterator[Ticket]:
        return (self.tickets[index] for index in self.wave.going)

    def take_over(self, other: "_Live") -> bool:
        """Go on with the tickets of another wave too; return whether that can be."""
        tickets = [*self.going, *other.going]
        if not self.wave.take_over(other.wave):
            return False
        self.tickets[:] = tickets
        self.drafting = self.drafting or other.drafting
        return True

    def step(self, events: list[Event]) -> None:
        events += [self.tickets[index].finish(found) for index, found in self.wave.step()]
        if self.drafting:
            drafting = [index for index in self.wave.going if self.tickets[index].drafts]
            events += [self.tickets[index].show(self.wave.draft(index)) for index in drafting]


class Waves:
    """Decodes tickets in waves, which are stepped in turn.

    A wave takes tickets of similar length, with equal settings, within their budget; the one that waits longest is
    always among them. As sentences leave, waves shrink: the next one begins when half of the budget is free, so that
    long files are decoded in batches that are never small, and a few requests begin at once.

    With `joining`, a wave that begins joins one that is under way, where that can be: so few requests share each step
    at whatever time they come. The last digits of scores then depend on that time, unless kernels compute them.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self.joining = scorer, False
        self._waiting: dict[object, list[Ticket]] = {}  # by what the tickets of a wave must have in common
        self._live: list[_Live] = []

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._live and not self._waiting

    def take(self, ticket: Ticket) -> None:
        """Let a ticket wait for a wave."""
        self._waiting.setdefault(_in_common(ticket), []).append(ticket)

    def drop(self, cancelled: set[Ticket]) -> None:
        """Stop tickets."""
        kept = {key: [ticket for ticket in some if ticket not in cancelled] for key, some in self._waiting.items()}
        self._waiting = {key: some for key, some in kept.items() if some}
        for live in self._live:
            gone = {index for index in live.wave.going if live.tickets[index] in cancelled}
            if gone:
                live.wave.drop(gone)
        self._live = [live for live in self._live if live.wave.going]

    def tick(self) -> list[Event]:
        """Begin waves where there is room, and step each.

        If a wave fails, so do its tickets. If it is interrupted, they wait again.
        """
        events: list[Event] = []
        for key in sorted(self._waiting, key=lambda key: self._waiting[key][0].number):
            while key in self._waiting and self._has_room(self._waiting[key][0].batch_tokens):
                self._begin(self._next(key), events)
        for live in list(self._live):
            with self._failing(live.tickets, events):
                live.step(events)
        self._live = [live for live in self._live if live.wave.going]
        return events

    def _begin(self, some: list[Ticket], events: list[Event]) -> None:
        apart = deque[list[Ticket]]()
        with self._failing(some, events):
            try:
                wave = WaveOfQueries(self._scorer, [ticket.query for ticket in some], some[0].settings)
                self._place(_Live(wave, some))
            except UserError:
                groups = by_group(some)
                if len(groups) == 1:
                    raise
                apart.extend(groups)
        try:
            while apart:
                # What one call asks for is impossible, and the others do not know of it.
                self._begin(apart.popleft(), events)
        except BaseException:  # none is lost
            for ticket in (ticket for each in apart for ticket in each):
                self.take(ticket)
            raise

    def _place(self, begun: _Live) -> None:
        """Let a wave begin: among the sentences of others, if these are not so many that it would cost more."""
        if self.joining and begun.wave.joins:
            key = _in_common(begun.tickets[0])
            for live in sorted(self._live, key=lambda live: len(live.wave.going)):
                small = live.wave.moves_nothing or len(live.wave.going) <= 2 * len(begun.wave.going)
                if small and live.wave.joins and _in_common(live.tickets[0]) == key and live.take_over(begun):
                    self._live.remove(live)
                    begun = live
        self._live.append(begun)

    @contextmanager
    def _failing(self, tickets: list[Ticket], events: list[Event]) -> Iterator[list[Ticket]]:
        try:
            yield tickets
        except BaseException as error:
            self._live = [live for live in self._live if live.tickets is not tickets]
            for ticket in tickets:
                if ticket.done:
                    continue
                if isinstance(error, Exception):
                    events.append(ticket.fail(error))
                else:
                    self.take(ticket)
            if not isinstance(error, Exception):
                raise

    def _has_room(self, budget: int) -> bool:
        used = sum(self._cost(ticket) for live in self._live for ticket in live.going)
        return not self._live or (len(self._live) < _MOST and (1 if self.joining else 2) * used <= budget)

    def _next(self, key: object) -> list[Ticket]:
        """Take the tickets of the next wave from those that wait."""
        waiting = self._waiting[key]
        costs = np.array([self._cost(ticket) for ticket in waiting], dtype=np.int64)
        batches = batches_by_length([costs], batch_tokens=waiting[0].batch_tokens)
        chosen = next(batch for batch in batches if 0 in batch).tolist()
        taken = set(chosen)
        self._waiting[key] = [ticket for index, ticket in enumerate(waiting) if index not in taken]
        if not self._waiting[key]:
            del self._waiting[key]
        return [waiting[index] for index in chosen]

    def _cost(self, ticket: Ticket) -> int:
        """Return the tokens of all rows of a ticket; a target that continues its source adds its longest length."""
        more = ticket.query.limit if self._scorer.continues else 0
        return (len(ticket.query.source) + more) * ticket.settings.rows


def _in_common(ticket: Ticket) -> object:
    """Return what tickets of one wave have in common. Constraints may hold what they know of their own queries."""
    settings = ticket.settings
    rules = settings.constraints
    return (
        ticket.batch_tokens,
        not rules and ticket.query.shortlist is not None,
        tuple(map(id, rules)),
        settings if isinstance(settings.penalty, Hashable) and not rules else id(settings),
    )
