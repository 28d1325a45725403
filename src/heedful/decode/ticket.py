"""Tickets: what an engine was asked for, and what became of it; what cannot be done is refused before there is one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Literal

from heedful.base.errors import UserError, option
from heedful.data.tokenize.tokenizer import UNKNOWN
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings

_NUMBERS: Final = count()


@dataclass(eq=False, slots=True)
class Group:
    """Tickets that one call waits for."""

    left: int = 0  # number of tickets that are not done


@dataclass(eq=False, slots=True)
class Ticket:
    """One query of an engine."""

    query: Query
    settings: SearchSettings
    batch_tokens: int  # budget of a batch that it shares with others: see `search`
    group: Group
    drafts: bool = False  # whether every step shows the best tokens so far
    draft: Sequence[int] = ()  # these tokens; of a beam, a later step may replace them
    found: list[Hypothesis] | None = None  # best first; in the order in which they were drawn, if they were
    error: Exception | None = None
    cancelled: bool = False
    number: int = field(default_factory=lambda: next(_NUMBERS))  # in the order in which tickets were made

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self.cancelled or self.found is not None or self.error is not None

    def finish(self, found: list[Hypothesis]) -> "Event":
        """Note what was found."""
        self.found = found
        self.group.left -= 1
        return Event(self, "finished")

    def fail(self, error: Exception) -> "Event":
        """Note why nothing was found."""
        self.error = error
        self.group.left -= 1
        return Event(self, "failed")

    def show(self, tokens: Sequence[int]) -> "Event":
        """Note the best tokens so far."""
        self.draft = tokens
        return Event(self, "draft")


@dataclass(frozen=True, slots=True)
class Event:
    """News of a ticket."""

    ticket: Ticket
    kind: Literal["draft", "finished", "failed"]


def by_group(tickets: Sequence[Ticket]) -> list[list[Ticket]]:
    """Divide tickets by the calls that wait for them."""
    groups: dict[Group, list[Ticket]] = {}
    for ticket in tickets:
        groups.setdefault(ticket.group, []).append(ticket)
    return list(groups.values())


# --- what cannot be done ----------------------------------------------------------------------------------------------


def check_queries(
    queries: Sequence[Query], settings: SearchSettings, vocab_size: int, longest: int | None, continues: bool = False
) -> list[Query]:
    """Return the queries with limits that the decoder has positions for, or refuse what cannot be done.

    `longest` is the number of positions, None if it is unlimited; where a target `continues` its source, both share it.
    """
    if continues and settings.attentive:
        raise UserError(
            "`aligned` and `coverage` need a source that the model attends to, but this model continues its source: "
            "leave them out."
        )
    for token in settings.never:
        if not 0 <= token < vocab_size:
            raise UserError(f"`never` has token {token}, but tokens go from 0 to {vocab_size - 1:,}.")
    return [_check(query, settings, vocab_size, longest, continues) for query in queries]


def _check(query: Query, settings: SearchSettings, vocab_size: int, longest: int | None, continues: bool) -> Query:
    sentence = f"sentence {query.number + 1:,}"
    if continues:
        if not len(query.source):
            raise UserError(f"{sentence.capitalize()} has no token to continue: start it with `<s>`.")
        if longest is not None and len(query.source) > longest:
            raise UserError(
                f"{sentence.capitalize()} has {len(query.source):,} tokens with its marker, but the model has "
                f"positions for {longest:,} (`model.max_positions`): shorten it."
            )
        longest = longest and longest - (len(query.source) - 1)
    if longest is not None and query.limit > longest:
        query = replace(query, limit=longest)
    room = f"may have at most {query.limit:,} tokens with `</s>`"
    way_out = f" or raise {option('max_extra')}"
    if query.limit == longest:
        way_out = ", as the model has positions for no more (`model.max_positions`)"
    if len(query.prefix) >= query.limit:
        raise UserError(
            f"The prefix of {sentence} has {len(query.prefix):,} tokens, but its target {room}: shorten the "
            f"prefix{way_out}."
        )
    if settings.min_length >= query.limit:
        raise UserError(
            f"{option('min_length')} is {settings.min_length:,}, but the target of {sentence} {room}: lower "
            f"{option('min_length')}{way_out}."
        )
    for token in query.prefix:
        if not UNKNOWN <= token < vocab_size:
            raise UserError(
                f"The prefix of {sentence} has token {token}, but its tokens must be from {UNKNOWN} to "
                f"{vocab_size - 1:,}: leave markers out."
            )
    return query
