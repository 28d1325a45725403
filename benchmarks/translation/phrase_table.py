"""A phrase table from sentence pairs: words are aligned by IBM model 1 in both directions, phrases by those links.

    P(t | s) = product over target words j of  1/(I + 1) sum over source words i of  p(t_j | s_i)      Brown et al. 1993

A pair of phrases is extracted if no link leaves it (Koehn et al. 2003, 3), and the words at its ends are linked.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Pair = tuple[str, str]
Words = Sequence[str]
ROUNDS: Final = 5  # of expectation maximisation
LONGEST: Final = 4  # words of a phrase
_NULL: Final = ""  # the source of target words that no word of the source explains


def best_sources(pairs: Sequence[tuple[Words, Words]]) -> list[NDArray[np.int64]]:
    """Return the index of the most likely source word of each target word by IBM model 1; -1 where it is none."""
    ids: dict[str, int] = {}
    links: list[tuple[int, int, int]] = []  # target position, source word, target word
    position = 0
    for source, target in pairs:
        numbers = [ids.setdefault(word, len(ids)) for word in (_NULL, *source)]
        for word in target:
            other = ids.setdefault(f"\0{word}", len(ids))  # so that words of two languages are never the same
            links += [(position, one, other) for one in numbers]
            position += 1
    at, ours, theirs = np.array(links, np.int64).T
    kinds, kind = np.unique(ours * len(ids) + theirs, return_inverse=True)
    likely = np.ones(len(kinds))
    for _ in range(ROUNDS):
        share = likely[kind] / np.bincount(at, likely[kind])[at]
        counts = np.bincount(kind, share)
        likely = counts / np.bincount(kinds // len(ids), counts)[kinds // len(ids)]
    found, start, weights = [], 0, likely[kind]
    for source, target in pairs:
        end = start + (len(source) + 1) * len(target)
        found.append(weights[start:end].reshape(len(target), -1).argmax(axis=1) - 1)
        start = end
    return found


def aligned(pairs: Sequence[Pair]) -> Iterator[tuple[Words, Words, set[tuple[int, int]]]]:
    """Yield the words of each pair with the links that both directions have."""
    words = [(source.split(), target.split()) for source, target in pairs]
    forward = best_sources(words)
    backward = best_sources([(target, source) for source, target in words])
    for (source, target), of_targets, of_sources in zip(words, forward, backward, strict=True):
        links = {(int(i), j) for j, i in enumerate(of_targets) if i >= 0 and of_sources[i] == j}
        yield source, target, links


def phrases_of(source: Words, target: Words, links: set[tuple[int, int]]) -> Iterator[Pair]:
    """Yield the pairs of phrases of a sentence pair."""
    for first in range(len(source)):
        for last in range(first, min(first + LONGEST, len(source))):
            inside = [j for i, j in links if first <= i <= last]
            if not {first, last} <= {i for i, _ in links} or max(inside) - min(inside) >= LONGEST:
                continue
            low, high = min(inside), max(inside)
            if all(first <= i <= last for i, j in links if low <= j <= high):
                yield " ".join(source[first : last + 1]), " ".join(target[low : high + 1])


def phrase_table(pairs: Sequence[Pair], held_out: Sequence[Pair] = ()) -> tuple[Counter[Pair], Counter[Pair]]:
    """Return how often each pair of phrases is extracted from sentence pairs, and from others that are held out.

    All of them are aligned together: those that are held out are too few to be aligned alone.
    """
    counts = Counter[Pair](), Counter[Pair]()
    for number, sentence in enumerate(aligned([*pairs, *held_out])):
        counts[number >= len(pairs)].update(phrases_of(*sentence))
    return counts
