"""Minimum Bayes risk decoding: of several samples, the one that is closest to all the others

    y = argmax over samples y' of 1/N sum over samples y'' of u(y', y'')      Kumar and Byrne 2004; Eikema and Aziz 2020

The utility u is chrF or BLEU of a sentence, as sacreBLEU computes them, with y'' in the place of the reference.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from heedful.metrics.edits import ratio
from heedful.metrics.summed_metrics import chrf_of_sums, word_splitter

UtilityName = Literal["chrf", "bleu"]
Counts = NDArray[np.float64]
Found = TypeVar("Found", bound=Any)  # a result with a `text`, a `score`, and whether it is `complete`

_CHARACTERS: Final = 6  # greatest order of n-grams in chrF
_WORDS: Final = 4  # and in BLEU


@dataclass(frozen=True)
class MinimumBayesRisk:
    """Orders samples by their expected utility, and keeps the best; their scores become that utility, in percent."""

    utility: UtilityName = "chrf"
    best: int = 1

    def choose(self, samples: Sequence[Found]) -> list[Found]:
        """Return the best samples of one source, each once; those that were cut come after all that were not."""
        expected = expected_utilities([sample.text for sample in samples], self.utility)
        distinct: dict[str, Found] = {}
        for sample, utility in zip(samples, expected, strict=True):
            distinct.setdefault(sample.text, replace(sample, score=float(utility)))
        ranked = sorted(distinct.values(), key=lambda sample: (not sample.complete, -sample.score))
        return ranked[: self.best]


def expected_utilities(texts: Sequence[str], utility: UtilityName) -> Counts:
    """Return the mean utility of each text, with each of the texts, itself included, as the reference."""
    numbers = Counter(texts)
    distinct = list(numbers)
    if len(distinct) == 1:
        return np.full(len(texts), 100.0 if distinct[0].strip() else 0.0)
    weights = np.array([numbers[text] for text in distinct], dtype=np.float64)
    means = UTILITIES[utility](distinct) @ weights / len(texts)
    return means[[distinct.index(text) for text in texts]]


def chrf_utilities(texts: Sequence[str]) -> Counts:
    """Return chrF of each text (rows) with each as the reference (columns)."""
    letters = ["".join(text.split()) for text in texts]
    sums = np.stack([part for order in range(1, _CHARACTERS + 1) for part in _counts(letters, order)], axis=-1)
    return chrf_of_sums(sums)


def bleu_utilities(texts: Sequence[str]) -> Counts:
    """Return BLEU of each text (rows) with each as the reference (columns), over the orders that a text has

    Orders without a match are smoothed as by `bleu_of_sums`.
    """
    words = [tuple(_split()(text)) for text in texts]
    lengths = np.broadcast_to(np.array([len(of_text) for of_text in words], dtype=np.float64), (len(texts),) * 2)
    parts = [_counts(words, order) for order in range(1, _WORDS + 1)]
    ngrams, matches = (np.stack([part[which] for part in parts], axis=-1) for which in (0, 2))
    there = ngrams > 0
    missed = there & (matches == 0)
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), matches)
    precisions = ratio(smoothed, ngrams)
    logs = np.log(precisions, out=np.zeros_like(precisions), where=precisions > 0)
    mean = ratio(logs.sum(axis=-1), there.sum(axis=-1).astype(np.float64))
    brevity = np.exp(np.minimum(0.0, 1.0 - ratio(lengths, lengths.T)))
    return np.where(matches.any(axis=-1), 100 * brevity * np.exp(mean), 0.0)


def _counts(texts: Sequence[Sequence[Hashable]], order: int) -> tuple[Counts, Counts, Counts]:
    """Return the n-grams of each text, those of each reference, and those that they share, as texts x references."""
    found = [Counter(text[at : at + order] for at in range(len(text) - order + 1)) for text in texts]
    places: dict[Hashable, int] = {}
    for of_text in found:
        for ngram in of_text:
            places.setdefault(ngram, len(places))
    table = np.zeros((len(texts), len(places)), np.int32)
    for row, of_text in zip(table, found, strict=True):
        row[[places[ngram] for ngram in of_text]] = list(of_text.values())
    sizes = np.broadcast_to(table.sum(1, dtype=np.float64), (len(texts), len(texts)))
    shared = np.array([np.minimum(row, table).sum(1) for row in table], dtype=np.float64)
    return sizes.T, sizes, shared


_split = cache(word_splitter)


UTILITIES: Final[Mapping[UtilityName, Callable[[Sequence[str]], Counts]]] = {
    "chrf": chrf_utilities,
    "bleu": bleu_utilities,
}
