"""The line to beat: simple rules that are learned once per run from its training rows, in seconds, without chance."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from heedful.base.errors import counted
from heedful.data.epochs.plan import Indices, spread

BASELINE: Final = "baseline_"  # before the name of a metric, in records: the score of the line to beat

Counted = TypeVar("Counted", int, str, tuple[str, ...])


class Line(NamedTuple):
    """What the line to beat scores on the rows of a validation."""

    scores: Mapping[str, float]  # by name, the usual metric first
    learned_from: str  # in words


def sample_rows(count: int, most: int, noun: str) -> tuple[Indices, str]:
    """Return at most `most` of `count` training rows, at equal distances, and which these are, in words."""
    rows, nouns = spread(min(count, most), count), counted(count, f"training {noun}")
    return rows, f"{len(rows):,} of {nouns}" if len(rows) < count else f"the {nouns}"


def most_frequent(counts: Mapping[Counted, int]) -> Counted:
    """Return what has the highest count; of several, the least."""
    return min(counts, key=lambda one: (-counts[one], one))
