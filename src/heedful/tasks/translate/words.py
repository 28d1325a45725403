"""A translation word by word: how probable each word was, what else was likely, and what it reads of the source."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heedful.base.errors import UserError
from heedful.data.corpora.sentence_splitting import Piece
from heedful.explain.explanation import Explanation, TokenSequence
from heedful.tasks.translate.translation import Translation

if TYPE_CHECKING:
    from heedful.tasks.translate.model import Translator

RUNNERS_UP: Final = 4  # of each piece, and of a word
_DIGITS: Final = 4


def words_of(
    model: "Translator", explained: Explanation, found: Translation, source: Piece, sentence: int
) -> dict[str, Any]:
    """Return the words of a sentence and of its translation, and the links between them: rows are translated words.

    The words of each side, each after what is `before` it, are the text again.
    """
    given, written = _real(explained.sequences["source"]), _real(explained.sequences["output"])
    return {
        "source_words": [*_placed(source.before, source.text, given)],
        "words": [
            placed | known
            for placed, known in _aligned(
                [*_placed(source.before, found.text, written)],
                [*_known(model, explained, found, written, sentence)],
            )
        ],
        "links": _links(explained, given, written),
    }


def plain_words(source: Piece, text: str) -> dict[str, Any]:
    """Return the words of a sentence of which nothing is known: a blank one."""
    known = {"probability": 1.0, "runners_up": []}
    return {
        "source_words": [{"before": source.before, "text": source.text}],
        "words": [{"before": source.before, "text": text, **known}],
        "links": [],
    }


Words = Sequence[tuple[str, Sequence[int]]]  # text, and indices of the pieces


def _real(named: TokenSequence) -> Words:
    """Return the words of a sequence, without markers."""
    words: list[tuple[str, list[int]]] = [(text, []) for text in named.texts]
    for index, word in enumerate(named.words):
        words[word][1].append(index)
    return [(text, indices) for text, indices in words if not _is_marker(text)]


def _is_marker(text: str) -> bool:
    return text in ("<s>", "</s>") or (text.startswith("<2") and text.endswith(">"))


def _placed(before: str, text: str, words: Words) -> Iterator[dict[str, Any]]:
    """Yield each word with what is before it in a text; what the words do not cover is before the next one."""
    cursor, lowered = 0, text.lower()
    for word, _ in words:
        place = text.find(word, cursor)
        if place < 0 and len(lowered) == len(text):  # the model reads lower case
            place = lowered.find(word.lower(), cursor)
        if place < 0:
            place, end = cursor, cursor  # it is written in another way: the next word takes its place
        else:
            end = place + len(word)
        yield {"before": before + text[cursor:place], "text": text[place:end]}
        before, cursor = "", end
    if cursor < len(text) or before:
        yield {"before": before, "text": text[cursor:]}


def _aligned(
    placed: Sequence[dict[str, Any]], known: Sequence[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    rest: dict[str, Any] = {"probability": 1.0, "runners_up": []}  # of text that no word covers
    return zip(placed, [*known, *[rest] * (len(placed) - len(known))], strict=True)


def _known(
    model: "Translator", explained: Explanation, found: Translation, words: Words, sentence: int
) -> Iterator[dict[str, Any]]:
    """Yield the probability of each word, which is that of its least likely piece, and other words in its place."""
    tokenizer = model.vocabularies["target"]
    for text, indices in words:
        others: dict[str, dict[str, Any]] = {}
        before, certain = tokenizer.decode(found.tokens[: indices[0]]) if indices else "", 1.0
        for index in indices:
            predicted = explained.predictions[index]
            for token, (_, share) in zip(predicted.others, predicted.runners_up, strict=True):
                if token < tokenizer.markers:
                    continue  # the end, which is no word
                begun = [*found.tokens[:index], token]
                prefix = tokenizer.decode(begun)  # a piece that continues a word is shown by what it adds
                fits = prefix.startswith(before)
                word = (prefix[len(before) :] if fits else tokenizer.decode(begun[indices[0] :])).strip()
                if word and word != text and _can_begin(model, prefix):
                    other = {"text": word, "probability": _rounded(certain * share)}
                    other |= {"prefix": prefix, "sentence": sentence}
                    others.setdefault(word, other)
            certain *= predicted.probability
        ranked = sorted(others.values(), key=lambda other: -other["probability"])
        least = min((explained.predictions[index].probability for index in indices), default=1.0)
        yield {"probability": _rounded(least), "runners_up": ranked[:RUNNERS_UP]}


def _can_begin(model: "Translator", prefix: str) -> bool:
    """Whether a translation can be asked for that begins so: a word may end in a piece that no text has by itself."""
    try:
        model.wording.encode_prefixes(prefix, [()], 1)
    except UserError:
        return False
    return True


def _links(explained: Explanation, given: Words, written: Words) -> list[list[float]]:
    """Return the weight of each source word for each translated one; none for a model without attention."""
    if explained.alignment is None:
        return []
    weights = explained.alignment
    rows = [weights[indices].mean(axis=0) if indices else np.zeros(weights.shape[1]) for _, indices in written]
    return [[_rounded(float(row[indices].sum())) for _, indices in given] for row in rows]


def _rounded(value: float) -> float:
    return round(value, _DIGITS)
