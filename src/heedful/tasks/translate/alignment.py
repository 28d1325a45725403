"""Which source pieces and words the pieces and words of a translation attended to most."""

from collections.abc import Sequence
from dataclasses import dataclass

from heedful.data.tokenize.vocabularies import Vocabularies

Pairs = tuple[tuple[int, int], ...]  # (place in the source, place in the target), counted from 0


@dataclass(frozen=True)
class Alignment:
    """Every target piece with the source piece that had the greatest weight, and the same between words."""

    pieces: Pairs
    words: Pairs  # between spaces
    source_pieces: tuple[str, ...]  # as people read them: see `Tokenizer.pieces`
    target_pieces: tuple[str, ...]

    def pharaoh(self) -> str:
        """The words' pairs as programs exchange them: "0-0 1-2"."""
        return " ".join(f"{source}-{target}" for source, target in self.words)


def align(vocabularies: Vocabularies, source: Sequence[int], target: Sequence[int], places: Sequence[int]) -> Alignment:
    """Make an alignment of places: for each target piece one in the source, whose `</s>` has the last."""
    pairs = tuple((place, number) for number, place in enumerate(places) if 0 <= place < len(source))
    source_words, target_words = vocabularies["source"].words(source), vocabularies["target"].words(target)
    return Alignment(
        pairs,
        tuple(sorted({(source_words[left], target_words[right]) for left, right in pairs})),
        tuple(vocabularies["source"].pieces(source)),
        tuple(vocabularies["target"].pieces(target)),
    )
