"""Alignment error rate: how far the links that attention finds are from gold ones.

AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)      Och and Ney 2003, 5

A are the links found, S the sure and P the possible gold links, sure ones included.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from heedful.base.errors import UserError

Link = tuple[int, int]  # index of the source word, index of the target word


class LinkCounts(NamedTuple):
    """Counts of links, to be added up over sentences."""

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @property
    def error_rate(self) -> float:
        """The alignment error rate."""
        if not self.found + self.sure:
            raise UserError("There are no links: neither found nor sure ones, so there is no error rate.")
        return 1 - (self.found_sure + self.found_possible) / (self.found + self.sure)


def count_links(found: Iterable[Link], sure: Collection[Link], possible: Collection[Link]) -> LinkCounts:
    """Count the links of one sentence."""
    links = set(found)
    return LinkCounts(len(links), len(sure), len(links & set(sure)), len(links & (set(possible) | set(sure))))


def add_up(counts: Iterable[LinkCounts]) -> LinkCounts:
    """Add up the counts of sentences."""
    return LinkCounts(*(sum(column) for column in zip(LinkCounts(), *counts, strict=True)))
