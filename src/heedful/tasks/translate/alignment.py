"""Which source pieces and words the pieces and words of a translation attended to most."""

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.data.tokenize.vocabularies import Vocabularies

Pairs = tuple[tuple[int, int], ...]  # (index in the source, index in the target), counted from 0


@dataclass(frozen=True)
class Alignment:
    """Every target piece with the source piece of the greatest attention weight, and the pairs of their words."""

    pieces: Pairs
    words: Pairs  # words are separated by spaces
    source_pieces: tuple[str, ...]  # pieces in readable form: see `Tokenizer.pieces`
    target_pieces: tuple[str, ...]

    def pharaoh(self) -> str:
        """Format the pairs of words in the Pharaoh format: "0-0 1-2"."""
        return " ".join(f"{source}-{target}" for source, target in self.words)


def align(
    vocabularies: Vocabularies, source: Sequence[int], target: Sequence[int], indices: Sequence[int]
) -> Alignment:
    """Make an alignment from an index in the source for each target piece; the last index is that of `</s>`."""
    pairs = tuple((index, number) for number, index in enumerate(indices) if 0 <= index < len(source))
    source_words, target_words = vocabularies["source"].words(source), vocabularies["target"].words(target)
    return Alignment(
        pairs,
        tuple(sorted({(source_words[left], target_words[right]) for left, right in pairs})),
        tuple(vocabularies["source"].pieces(source)),
        tuple(vocabularies["target"].pieces(target)),
    )
