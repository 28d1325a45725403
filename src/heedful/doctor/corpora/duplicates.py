"""Finds rows that occur more than once, in one part of the data or in two, by their hashes."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.doctor.corpora.corpus_lint import Hashes, LintedCorpus, Sighting, first_rows

_SHORT: Final = 12  # characters: texts as short as "Thank you." occur everywhere
_MOST: Final = 0.5  # fraction of the other texts
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: mixes the bits of the source hash
LocatedSightings = Iterator[tuple[LintedCorpus, Sighting]]


def find_repeats(part: Sequence[LintedCorpus]) -> LocatedSightings:
    """Find repeated pairs, and sources with several targets, across all corpora of a part."""
    if not part:
        return
    sources, pairs = _join_hashes(part)
    _, first_pairs = np.unique(pairs, return_index=True)
    known, first_sources = np.unique(sources, return_index=True)
    once, targets = np.unique(sources[first_pairs], return_counts=True)
    several = np.isin(known, once[targets > 1], assume_unique=True)
    first = _mask(first_sources, len(sources))
    yield from _sightings(part, "repeated", ~_mask(first_pairs, len(pairs)))
    yield from _sightings(part, "ambiguous", _mask(first_sources[several], len(sources)), first)


def find_overlap(part: Sequence[LintedCorpus], other: Sequence[LintedCorpus]) -> LocatedSightings:
    """Find sources and whole pairs of a part that also occur in another part.

    Texts that are short, and shorter than half of the part, do not count unless most others were seen too: they are
    the same by chance.
    """
    if not part or not other:
        return
    lengths = np.concatenate([linted.length[linted.filled] for linted in part])
    telling = lengths >= min(_SHORT, np.median(lengths) if len(lengths) else 0)
    for kind, here, there in zip(("source_seen", "pair_seen"), _join_hashes(part), _join_hashes(other), strict=True):
        seen = np.isin(here, there)
        if not (seen & telling).sum() >= _MOST * telling.sum():
            seen &= telling
        yield from _sightings(part, kind, seen, other=other[0].part)


def _join_hashes(part: Sequence[LintedCorpus]) -> tuple[Hashes, Hashes]:
    """Return the hashes of sources and of pairs, for all pairs with text."""
    sources = np.concatenate([linted.source[linted.filled] for linted in part])
    targets = np.concatenate([linted.target[linted.filled] for linted in part])
    return sources, sources * _ODD + targets


def _mask(indices: NDArray[np.intp], length: int) -> NDArray[np.bool_]:
    mask = np.zeros(length, np.bool_)
    mask[indices] = True
    return mask


def _sightings(
    part: Sequence[LintedCorpus],
    kind: str,
    seen: NDArray[np.bool_],
    of: NDArray[np.bool_] | None = None,
    other: str = "",
) -> LocatedSightings:
    """Assign the pairs marked in `seen` to their corpora; `of` marks the pairs examined, by default all."""
    end = 0
    for linted in part:
        rows = np.flatnonzero(linted.filled)
        start, end = end, end + len(rows)
        mine = rows[seen[start:end]]
        total = len(linted) if of is None else int(of[start:end].sum())
        if len(mine):
            yield linted, Sighting(kind, "both", len(mine), total, first_rows(mine), other)
