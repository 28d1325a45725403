"""Pairs that stand in the data more than once, inside a part of it or in two parts, found by their hashes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from heedful.lab.corpus_lint import Hashes, LintedCorpus, Sighting, first_rows

_ODD = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: spreads the bits of the source's hash
Places = Iterator[tuple[LintedCorpus, Sighting]]


def find_repeats(part: Sequence[LintedCorpus]) -> Places:
    """Repeated pairs, and sources with several targets, through all corpora of a part."""
    if not part:
        return
    sources, pairs = _joined(part)
    _, first_pairs = np.unique(pairs, return_index=True)
    known, first_sources = np.unique(sources, return_index=True)
    once, targets = np.unique(sources[first_pairs], return_counts=True)
    several = np.isin(known, once[targets > 1], assume_unique=True)
    news = _marked(first_sources, len(sources))
    yield from _sightings(part, "repeated", ~_marked(first_pairs, len(pairs)))
    yield from _sightings(part, "ambiguous", _marked(first_sources[several], len(sources)), news)


def find_overlap(part: Sequence[LintedCorpus], other: Sequence[LintedCorpus]) -> Places:
    """Sources, and whole pairs, of a part that stand in another part too."""
    if not part or not other:
        return
    for kind, here, there in zip(("source_seen", "pair_seen"), _joined(part), _joined(other), strict=True):
        yield from _sightings(part, kind, np.isin(here, there), other=other[0].part)


def _joined(part: Sequence[LintedCorpus]) -> tuple[Hashes, Hashes]:
    """The hashes of sources and of pairs, of all pairs with text."""
    sources = np.concatenate([linted.source[linted.filled] for linted in part])
    targets = np.concatenate([linted.target[linted.filled] for linted in part])
    return sources, sources * _ODD + targets


def _marked(places: NDArray[np.intp], length: int) -> NDArray[np.bool_]:
    marked = np.zeros(length, np.bool_)
    marked[places] = True
    return marked


def _sightings(
    part: Sequence[LintedCorpus],
    kind: str,
    seen: NDArray[np.bool_],
    of: NDArray[np.bool_] | None = None,
    other: str = "",
) -> Places:
    """Deal what was seen out to the corpora; `of` marks what is counted, by default every pair."""
    end = 0
    for linted in part:
        rows = np.flatnonzero(linted.filled)
        begin, end = end, end + len(rows)
        mine = rows[seen[begin:end]]
        total = len(linted) if of is None else int(of[begin:end].sum())
        if len(mine):
            yield linted, Sighting(kind, "both", len(mine), total, first_rows(mine), other)
