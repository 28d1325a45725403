"""The translation of a text, which pieces and words of the source it attended to most, and the options of `explain`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from heedful.base.options import Option
from heedful.config.decode import SearchOptions
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.search import ProgressCallback
from heedful.tasks.shared.sequences.model import SequenceModel

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


@dataclass(frozen=True)
class Translation:
    """One translation of a text."""

    text: str
    score: float  # score that translations are ranked by: log P divided by the length penalty, plus coverage penalty
    tokens: tuple[int, ...]  # tokens of the target vocabulary
    complete: bool  # False if it was cut at the maximum length
    log_probability: float = 0.0
    alignment: Alignment | None = None  # only if it was requested


BLANK: Final = Translation("", 0.0, (), True)


class DetailedOptions(SearchOptions, total=False):
    """Options of a search, and the other arguments of `translate_detailed`."""

    nbest: int
    name: str
    progress: ProgressCallback


class ExplainOptions(SearchOptions, total=False):
    """Options of a search, and what else is explained."""

    gradients: Annotated[bool, Option("Also compute how much each source token would change each prediction.", False)]
    search: Annotated[bool, Option("Also record the life of the beam: all hypotheses, and where they died.", False)]
    swapped: Annotated[Mapping[str, str] | None, Option("What if: words of the text, and those that replace them.")]


def translations_of(
    model: SequenceModel, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Hypothesis]], raw: bool
) -> Iterator[list[Translation]]:
    """Yield what a search found for each source, in words; `raw` ones are ordinary text."""
    wording = model.wording
    languages = [wording.language(source) for source, nbest in zip(sources, found, strict=True) for _ in nbest]
    texts = wording.decode([best.tokens for nbest in found for best in nbest], languages, raw)
    for source, nbest in zip(sources, found, strict=True):
        tags = 0 if wording.language(source) is None else 1
        first = tags if wording.target_tags else 0
        yield [
            Translation(
                next(texts),
                best.score,
                best.tokens,
                best.complete,
                best.log_probability,
                None
                if best.alignment is None
                else align(
                    model.vocabularies,
                    source[tags:],
                    best.tokens[first:],
                    [index - tags for index in best.alignment[first:]],
                ),
            )
            for best in nbest
        ]
