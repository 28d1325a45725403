"""Conversion between trees and the pieces of a parser's target vocabulary."""

from collections.abc import Sequence

from heedful.base.errors import UserError
from heedful.base.trees import Tree, closes, from_sequence, opens
from heedful.config.corpora.containers import Leaves
from heedful.data.tokenize.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer
from heedful.decode.constraints.trees import Trees, TreeTokens

_MARKERS = (PAD, BEGIN, END, UNKNOWN)


class TreeCodec:
    """Decodes the pieces of a target vocabulary as trees, and restricts a search to them."""

    def __init__(self, target: Tokenizer, leaves: Leaves) -> None:
        self._names = target.pieces(range(target.size))
        self._tagged = leaves == "tag"
        numbers = {name: number for number, name in enumerate(self._names)}
        labels = [name[1:] for name in self._names if opens(name) and f"){name[1:]}" in numbers]
        words = [
            number
            for name, number in numbers.items()
            if number not in _MARKERS and not opens(name) and not closes(name)
        ]
        if not labels or not words:
            raise UserError("The target vocabulary has no brackets: this model was not trained on trees.")
        opening, closing = ([numbers[f"{bracket}{label}"] for label in labels] for bracket in "()")
        self._tokens = TreeTokens(opening, closing, words)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the constituents."""
        return tuple(self._names[token][1:] for token in self._tokens.opening)

    def decode(self, tokens: Sequence[int], words: Sequence[str]) -> Tree | None:
        """Return the tree over these words; None if the pieces are not one over exactly as many words."""
        names = [self._names[token] for token in tokens]
        written = [name for name in names if not opens(name) and not closes(name)]
        tags = written if self._tagged and len(written) == len(words) else None
        return from_sequence(names, words, tags)

    def constraint(self) -> Trees:
        """Return the rule that targets are trees over the words that queries count."""
        return Trees(self._tokens, len(self._names))
