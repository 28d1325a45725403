"""Refuses what a search cannot do, before the first sentence is decoded."""

from collections.abc import Sequence
from dataclasses import replace

from heedful.base.errors import UserError, option
from heedful.data.tokenize.tokenizer import UNKNOWN
from heedful.decode.query import Query
from heedful.decode.settings import SearchSettings


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
    if continues:
        _refuse_prompt(query, longest)
        longest = longest and longest - (len(query.source) - 1)
    if longest is not None and query.limit > longest:
        query = replace(query, limit=longest)
    _refuse_what_does_not_fit(query, settings, longest)
    _refuse_markers(query, vocab_size)
    return query


def _refuse_prompt(query: Query, longest: int | None) -> None:
    if not len(query.source):
        raise UserError(f"Sentence {query.number + 1:,} has no token to continue: start it with `<s>`.")
    if longest is not None and len(query.source) > longest:
        raise UserError(
            f"Sentence {query.number + 1:,} has {len(query.source):,} tokens with its marker, but the model has "
            f"positions for {longest:,} (`model.max_positions`): shorten it."
        )


def _refuse_what_does_not_fit(query: Query, settings: SearchSettings, longest: int | None) -> None:
    room = f"may have at most {query.limit:,} tokens with `</s>`"
    way_out = f" or raise {option('max_extra')}"
    if query.limit == longest:
        way_out = ", as the model has positions for no more (`model.max_positions`)"
    if len(query.prefix) >= query.limit:
        raise UserError(
            f"The prefix of sentence {query.number + 1:,} has {len(query.prefix):,} tokens, but its target "
            f"{room}: shorten the prefix{way_out}."
        )
    if settings.min_length >= query.limit:
        raise UserError(
            f"{option('min_length')} is {settings.min_length:,}, but the target of sentence {query.number + 1:,} "
            f"{room}: lower {option('min_length')}{way_out}."
        )


def _refuse_markers(query: Query, vocab_size: int) -> None:
    for token in query.prefix:
        if not UNKNOWN <= token < vocab_size:
            raise UserError(
                f"The prefix of sentence {query.number + 1:,} has token {token}, but its tokens must be from "
                f"{UNKNOWN} to {vocab_size - 1:,}: leave markers out."
            )
