"""From words to automata: what can be required and forbidden together, and whether there is room for it."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from heedful.base.errors import UserError, option
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.decode.constraints.words.automaton import WordAutomaton, build_automaton
from heedful.decode.constraints.words.spelling import Spelling, occurs
from heedful.decode.query import Query

_KEPT: Final = 4096  # automata


class WordPlanner:
    """Builds the automata of words in a vocabulary, and keeps the last ones."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._kept: dict[tuple[tuple[str, ...], tuple[str, ...]], WordAutomaton] = {}

    @cached_property
    def spelling(self) -> Spelling:
        """How the pieces of the vocabulary spell texts."""
        return Spelling(self._tokenizer)

    def plan(self, required: Iterable[str], forbidden: Iterable[str]) -> WordAutomaton:
        """Return the automaton of words; refuse what the vocabulary cannot write, and what contradicts itself."""
        key = tuple(dict.fromkeys(required)), tuple(dict.fromkeys(forbidden))
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = self._build(*key)
        return self._kept[key]

    def check(self, required: Iterable[str], forbidden: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return words as texts of the vocabulary have them, each once; refuse what cannot be, as `plan` does."""
        musts = list(dict.fromkeys(map(self._written, required)))
        nots = list(dict.fromkeys(self.spelling.written(words) or words for words in forbidden))
        for must in musts:
            if must in nots:
                raise UserError(f"`{must}` must appear, but also must not: leave one of them out.")
            for never in nots:
                if occurs(must, never):
                    raise UserError(
                        f"`{must}` must appear, but `{never}`, which it contains, must not: leave one of them out."
                    )
        return musts, nots

    def _written(self, words: str) -> str:
        written = self.spelling.written(words)
        if written is None:
            raise UserError(
                f"`{words}` must appear, but a part of it is not in the vocabulary, so the model cannot write it: "
                "choose another word."
            )
        return written

    def _build(self, required: Sequence[str], forbidden: Sequence[str]) -> WordAutomaton:
        automaton = build_automaton(self.spelling, *self.check(required, forbidden))
        if not automaton.possible:
            raise UserError(
                f"{_listed(automaton.required)} must appear, but cannot be written as whole words without a word that "
                "must not: leave some of them out."
            )
        return automaton


def check_room(query: Query, automaton: WordAutomaton, longest: int | None = None) -> None:
    """Refuse a query whose target has too little room for its words; `longest` is the most that the model can do."""
    if not automaton.required:
        return
    limit = min(query.limit, longest or query.limit)
    needed = len(query.prefix) + automaton.left_after(query.prefix)
    if needed > limit:
        way_out = ", as the model has positions for no more" if limit == longest else f" or raise {option('max_extra')}"
        raise UserError(
            f"Sentence {query.number + 1:,} must contain {_listed(automaton.required)}, for which it needs up to "
            f"{needed:,} tokens with `</s>`, but may have at most {limit:,}: require less{way_out}."
        )


def _listed(words: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(f"`{word}`" for word in words[:most])
    return f"{shown} and {len(words) - most:,} more" if len(words) > most else shown
