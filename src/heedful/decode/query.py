"""The sentences of a search: each with what it is asked, checked before the first is decoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heedful.data.tokenize.tokenizer import UNKNOWN
from heedful.decode.settings import SearchSettings
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.decode.scorer import Scorer


@dataclass(frozen=True)
class Query:
    """A source and what its targets must keep to."""

    source: Sequence[int]  # pieces, without markers
    limit: int  # the most target tokens, `</s>` counted
    prefix: Sequence[int]  # what the target begins with; empty where it is free
    number: int  # from 0; what is drawn at random depends on it


def make_queries(
    translator: "Scorer",
    sources: Sequence[Sequence[int]],
    settings: SearchSettings,
    prefixes: Sequence[Sequence[int]] | None,
    numbers: Sequence[int] | None,
) -> list[Query]:
    """Put together what belongs to each source, and refuse what cannot be done."""
    if prefixes is not None and len(prefixes) != len(sources):
        raise UserError(
            f"There are {len(sources):,} sources but {len(prefixes):,} prefixes: each needs one, which may be empty."
        )
    for token in settings.never:
        if not 0 <= token < translator.vocab_size:
            raise UserError(f"`never` has token {token}, but tokens go from 0 to {translator.vocab_size - 1:,}.")
    longest = translator.longest
    sentences = [
        Query(source, _limit(source, settings, longest), prefix, number)
        for source, prefix, number in zip(
            sources,
            [()] * len(sources) if prefixes is None else prefixes,
            range(len(sources)) if numbers is None else numbers,
            strict=True,
        )
    ]
    for sentence in sentences:
        _refuse_what_does_not_fit(sentence, settings, longest)
        _refuse_markers(sentence, translator.vocab_size)
    return sentences


def _limit(source: Sequence[int], settings: SearchSettings, longest: int | None) -> int:
    """The most tokens of a target: by the settings, and by the positions that the decoder has."""
    wanted = len(source) + settings.max_extra
    return wanted if longest is None else min(wanted, longest)


def _refuse_what_does_not_fit(sentence: Query, settings: SearchSettings, longest: int | None) -> None:
    room = f"may have at most {sentence.limit:,} tokens with `</s>`"
    way_out = " or raise `max_extra`"
    if sentence.limit == longest:
        way_out = ", as the model has positions for no more (`model.max_positions`)"
    if len(sentence.prefix) >= sentence.limit:
        raise UserError(
            f"The prefix of sentence {sentence.number + 1:,} has {len(sentence.prefix):,} tokens, but its target "
            f"{room}: shorten the prefix{way_out}."
        )
    if settings.min_length >= sentence.limit:
        raise UserError(
            f"`min_length` is {settings.min_length:,}, but the target of sentence {sentence.number + 1:,} {room}: "
            f"lower `min_length`{way_out}."
        )


def _refuse_markers(sentence: Query, vocab_size: int) -> None:
    for token in sentence.prefix:
        if not UNKNOWN <= token < vocab_size:
            raise UserError(
                f"The prefix of sentence {sentence.number + 1:,} has token {token}, but its tokens must be from "
                f"{UNKNOWN} to {vocab_size - 1:,}: leave markers out."
            )
