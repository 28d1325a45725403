"""Which target unit a source unit is translated by, learned from pairs of texts by EM.

    P(source unit i | target unit j) ~ t(target unit | source unit) exp(-4 |i / I - j / J|)

t is that of IBM model 1 (Brown et al. 1993), with the preference for the diagonal of Dyer et al. 2013. Nothing is drawn
at random.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.data.collate import places_of
from heedful.metrics.language.kneser_ney import distinct

_ITERATIONS: Final = 5
_DIAGONAL: Final = 4.0

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Links:
    """Every source unit of a pair of texts with every target unit of it."""

    keys: Ids  # of the distinct pairs of units, sorted: source unit * target units + target unit
    pair: NDArray[np.int32]  # number of each link's pair of units
    place: NDArray[np.int32]  # target place of each link, counted through all texts
    near: Floats  # preference for the diagonal
    target_units: int  # how many there are

    @classmethod
    def of(cls, sources: Sequence[Ids], targets: Sequence[Ids], target_units: int) -> "Links":
        """Link the units of texts."""
        rows_I, rows_J = (np.array([len(one) for one in side]) for side in (sources, targets))
        return cls.of_rows(np.concatenate(sources), rows_I, np.concatenate(targets), rows_J, target_units)

    @classmethod
    def of_rows(cls, source: Ids, rows_I: Ids, target: Ids, rows_J: Ids, target_units: int) -> "Links":
        """Link the units of texts that are given end to end, with the length of each."""
        many = np.repeat(rows_I, rows_J)  # source units of each target place
        place = np.repeat(np.arange(len(target)), many)
        from_source = places_of(np.repeat(np.cumsum(rows_I) - rows_I, rows_J), many)
        i = places_of(np.zeros(len(many), np.int64), many) / np.repeat(many, many)
        j = places_of(np.zeros(len(rows_J), np.int64), rows_J) / np.repeat(rows_J, rows_J)
        near = np.exp(-_DIAGONAL * np.abs(i - j[place]))
        keys, pair = distinct(source[from_source] * target_units + target[place])
        return cls(keys, pair.astype(np.int32), place.astype(np.int32), near, target_units)

    def learn(self) -> Floats:
        """Return t(target unit | source unit) of each distinct pair."""
        return learn([self])[1]

    def counts(self, t: Floats) -> Floats:
        """Return how often the units of each distinct pair are linked, as far as one can tell from t."""
        return np.bincount(self.pair, self.posteriors(t), len(t)).astype(np.float64, copy=False)

    def posteriors(self, t: Floats) -> Floats:
        """Return how likely each link is the one of its target place."""
        p = t[self.pair] * self.near
        return p / np.bincount(self.place, p)[self.place]


def learn(parts: Sequence[Links]) -> tuple[Ids, Floats]:
    """Return the distinct pairs of units of all parts, sorted, and t of each, by EM from equal values."""
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    numbers = [np.searchsorted(keys, part.keys) for part in parts]
    source, t = keys // parts[0].target_units, np.ones(len(keys))
    for _ in range(_ITERATIONS):
        counts = np.zeros(len(keys))
        for part, number in zip(parts, numbers, strict=True):
            counts[number] += part.counts(t[number])  # the keys of a part are distinct
        t = counts / np.bincount(source, counts)[source]
    return keys, t
