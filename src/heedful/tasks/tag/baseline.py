"""The line that a tagger has to beat: the most frequent label of each word.

A word that training does not have gets the most frequent label of the distinct words that end as it does: in the same
three letters, else two, else one; else the most frequent label of all words. Of equally frequent labels, the first in
the list of labels is taken. It is counted once per run, from the same training sentences, in seconds.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from heedful.data.collate import rows_by_owner
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.tasks.shared.line import most_frequent, sample_rows
from heedful.tasks.tag.data import sentences_of

_MOST_SENTENCES: Final = 100_000  # of training: more of them are sampled at equal distances
_SUFFIX: Final = 3  # letters

Word = Sequence[Hashable]  # the letters of a word, as a text or by number


def tag_as_usual(
    train: Sequence[TokenStore], valid: Sequence[TokenStore], sentences: Indices, tokenizer: Tokenizer
) -> tuple[list[list[int]], str]:
    """Return the usual labels of the words of validation sentences, and which training sentences they were counted in.

    `sentences` are counted through all stores.
    """
    known, sample = sample_rows(count_sentences(train), _MOST_SENTENCES, "sentence")
    counted = zip(words_of(train, known, tokenizer), labels_of(train, known), strict=True)
    usual = UsualLabels(pair for words, labels in counted for pair in zip(words, labels, strict=True))
    return [[usual.label(word) for word in words] for words in words_of(valid, sentences, tokenizer)], sample


class UsualLabels:
    """The most frequent labels of words and of their endings."""

    def __init__(self, tagged: Iterable[tuple[Word, int]]) -> None:
        of_words: dict[Word, Counter[int]] = defaultdict(Counter)
        for word, label in tagged:
            of_words[word][label] += 1
        everything, of_endings = Counter[int](), defaultdict[Word, Counter[int]](Counter)
        for word, labels in of_words.items():
            everything.update(labels)
            for ending in _endings(word):
                of_endings[ending].update(list(labels))  # once per distinct word: new words are rare ones
        self._of_words = {word: most_frequent(labels) for word, labels in of_words.items()}
        self._of_endings = {ending: most_frequent(labels) for ending, labels in of_endings.items()}
        self._of_all = most_frequent(everything)

    def label(self, word: Word) -> int:
        """Return the label of a word."""
        if word in self._of_words:
            return self._of_words[word]
        return next((self._of_endings[one] for one in _endings(word) if one in self._of_endings), self._of_all)


def _endings(word: Word) -> Iterator[Word]:
    """Yield the last letters of a word, most first; a shorter word is its own ending."""
    for letters in range(min(_SUFFIX, len(word)), 0, -1):
        yield word[-letters:]


def words_of(stores: Sequence[TokenStore], sentences: Indices, tokenizer: Tokenizer) -> Iterator[Sequence[Word]]:
    """Yield the words of sentences, counted through all stores: by letters where a model reads them, else as texts."""
    known: dict[tuple[int, ...], str] = {}
    for store, rows in _rows_of(stores, sentences):
        if "letters" in store.streams:
            yield _cut(store, rows, "letters", "spelled")
            continue
        words = _cut(store, rows, "text", "words")
        if new := [word for word in dict.fromkeys(words) if word not in known]:
            # The first word of a sentence has other pieces than the same word after a space.
            known.update(zip(new, map(str.strip, tokenizer.decode_batch(new)), strict=True))
        yield [known[word] for word in words]


def labels_of(stores: Sequence[TokenStore], sentences: Indices) -> Iterator[list[int]]:
    """Yield the labels of sentences, counted through all stores."""
    for store, rows in _rows_of(stores, sentences):
        yield [label for row in rows for label in store.sentence("label", row).tolist()]


def count_sentences(stores: Sequence[TokenStore]) -> int:
    """Return the number of sentences of stores; a long one has several rows."""
    return sum(int((store.streams["part"].values == 0).sum()) for store in stores)


def _rows_of(stores: Sequence[TokenStore], sentences: Indices) -> Iterator[tuple[TokenStore, range]]:
    rows_of = [sentences_of(store) for store in stores]
    for store, rows, (_, own) in zip(stores, rows_of, rows_by_owner([*map(len, rows_of)], sentences), strict=True):
        for number in own.tolist():
            yield store, rows[number]


def _cut(store: TokenStore, rows: range, stream: str, lengths: str) -> list[tuple[int, ...]]:
    """Cut a stream of rows into words."""
    words: list[tuple[int, ...]] = []
    for row in rows:
        values, ends = store.sentence(stream, row).tolist(), np.cumsum(store.sentence(lengths, row)).tolist()
        words += [tuple(values[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    return words
