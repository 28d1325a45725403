"""Detects a corpus whose two sides are shifted against each other by a line or two, or swapped.

Where line n of the source belongs to line n + k of the target, lengths correlate at the offset k and not at 0, and the
words of a line recur with the same partners at the offset k. Both are measured in blocks of neighbouring lines.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.doctor.corpora.rows import Row

_BLOCK: Final = 400  # rows that are compared at once
_LEAST: Final = 40  # rows from which a shift can be told from chance
_OFFSETS: Final = (1, -1, 2, -2)
_WORDS: Final = 150  # words per side
_FEW_WORDS: Final = 2  # words per side that do not tell rows apart
_COMMON: Final = 0.2  # words in more of the rows than this do not tell rows apart
_STRONGEST: Final = 8.0  # standard errors: neither kind of evidence counts more
_ENOUGH: Final = 6.0  # standard errors of both together
_CLEARER: Final = 1.2  # times as well as at the offset 0
_CORRELATED: Final = 0.3
_FLAT: Final = 0.05  # standard deviation of log lengths below which lengths do not tell rows apart
_LONG_WORD: Final = 12  # characters per word, where a language is written without spaces
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")

Floats = NDArray[np.float32]


def blocks(rows: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    """Yield at most `most` blocks of neighbouring rows at equal distances; a rest that is too short is left out."""
    starts = list(range(0, max(1, len(rows) - _LEAST), _BLOCK))
    for number in sorted({round(i * (len(starts) - 1) / max(1, most - 1)) for i in range(most)}):
        yield rows[starts[number] : starts[number] + _BLOCK]


def find_shift(rows: Sequence[Row]) -> int:
    """Return k where line n of the source belongs to line n + k of the target, as far as can be told; usually 0."""
    rows = [row for row in rows if row.first.strip() and row.second.strip()]
    if len(rows) < _LEAST:
        return 0
    lengths = _log_lengths([row.first for row in rows]), _log_lengths([row.second for row in rows])
    by_length = {k: _by_length(*lengths, k) for k in _OFFSETS}
    open_offsets = [k for k in _OFFSETS if by_length[k] + _STRONGEST >= _ENOUGH]
    if not open_offsets:  # whatever the words say: lengths alone decide for most sound corpora, at little cost
        return 0
    source, target = _incidence([row.first for row in rows]), _incidence([row.second for row in rows])
    if min(source.shape[1], target.shape[1]) < _FEW_WORDS:
        by_words = dict.fromkeys(open_offsets, 0.0)
    else:
        here = _partners(source, target)
        by_words = {k: _gain(here, _partners(*_at(source, target, k))) for k in open_offsets}
    best = max(open_offsets, key=lambda k: by_length[k] + by_words[k])
    return best if by_length[best] + by_words[best] >= _ENOUGH else 0


def _at(left: Floats, right: Floats, offset: int) -> tuple[Floats, Floats]:
    """Pair row n of the left with row n + offset of the right."""
    if offset >= 0:
        return left[: len(left) - offset], right[offset:]
    return left[-offset:], right[: len(right) + offset]


# --- lengths --------------------------------------------------------------------------------------------------------


def _log_lengths(texts: Sequence[str]) -> Floats:
    return np.log([len(text.strip()) + 1 for text in texts]).astype(np.float32)


def _by_length(source: Floats, target: Floats, offset: int) -> float:
    """Return by how many standard errors lengths correlate better at the offset than at 0      Fisher 1915"""
    if min(source.std(), target.std()) < _FLAT:
        return 0.0
    here, there = _correlation(*_at(source, target, 0)), _correlation(*_at(source, target, offset))
    errors = float((np.arctanh(there) - np.arctanh(here)) * np.sqrt((len(source) - 3) / 2))
    if errors > 0 and there < _CORRELATED:
        return 0.0
    return float(np.clip(errors, -_STRONGEST, _STRONGEST))


def _correlation(left: Floats, right: Floats) -> float:
    return float(np.clip(np.nan_to_num(np.corrcoef(left, right)[0, 1]), -0.999, 0.999))


# --- words ----------------------------------------------------------------------------------------------------------


def _incidence(texts: Sequence[str]) -> Floats:
    """Return which of the words that are neither unique nor common each text has."""
    tokens = [set(_tokens(text)) for text in texts]
    counts = Counter(token for of_text in tokens for token in of_text)
    telling = [(-count, token) for token, count in counts.items() if 2 <= count <= max(3, _COMMON * len(texts))]
    column = {token: number for number, (_, token) in enumerate(sorted(telling)[:_WORDS])}
    table = np.zeros((len(texts), len(column)), np.float32)
    for row, of_text in enumerate(tokens):
        table[row, [column[token] for token in of_text if token in column]] = 1
    return table


def _tokens(text: str) -> list[str]:
    words: list[str] = _TOKEN.findall(text.lower())
    return list(text) if sum(map(len, words)) > _LONG_WORD * len(words) else words


def _gain(here: Floats, there: Floats) -> float:
    """Return by how many standard errors words find a better partner at an offset than at 0."""
    gained = there - here
    error = float(gained.std()) / np.sqrt(len(gained)) + 1e-6
    errors = float(gained.mean()) / error
    if errors > 0 and there.mean() < _CLEARER * here.mean():
        return 0.0
    return float(np.clip(errors, -_STRONGEST, _STRONGEST))


def _partners(source: Floats, target: Floats) -> Floats:
    """Return how well each source word's best partner goes with it: 2 |both| / (|source| + |target|)      Dice 1945"""
    together = source.T @ target
    total = source.sum(0)[:, None] + target.sum(0)[None, :]
    best: Floats = (2 * together / np.maximum(total, 1)).max(axis=1)
    return best


# --- detects swapped sides by words that occur on one side of a corpus far more often than on the other ---------------


_MOST_TYPICAL: Final = 300  # words per side
_TIMES: Final = 4  # times as often as on the other side
_SHARE: Final = 0.002  # minimum fraction of the sentences that contain the word
_FOREIGN: Final = 2  # words of the other side that make a sentence look foreign


@dataclass(frozen=True)
class SideWords:
    """The typical words of each side: mostly function words, in languages with spaces."""

    source: frozenset[str]
    target: frozenset[str]

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]]) -> "SideWords":
        """Find the typical words by counting the sentences that contain each word."""
        source: Counter[str] = Counter()
        target: Counter[str] = Counter()
        sentences = 0
        for left, right in pairs:
            source.update(set(left.lower().split()))
            target.update(set(right.lower().split()))
            sentences += 1
        least = max(3, round(_SHARE * sentences))
        return cls(_typical(source, target, least), _typical(target, source, least))

    def looks_swapped(self, source: str, target: str) -> bool:
        """Whether each side has words of the other and none of its own."""
        left = source.lower().split()
        if not self.source.isdisjoint(left):
            return False
        right = target.lower().split()
        if not self.target.isdisjoint(right):
            return False
        return len(self.target.intersection(left)) >= _FOREIGN and len(self.source.intersection(right)) >= _FOREIGN


def _typical(own: Counter[str], other: Counter[str], least: int) -> frozenset[str]:
    typical = [(-count, word) for word, count in own.items() if count >= max(least, _TIMES * other[word])]
    return frozenset(
        word for _, word in sorted(typical)[:_MOST_TYPICAL]
    )  # ties in alphabetical order: the same in every process
