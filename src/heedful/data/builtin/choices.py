"""Random choices of the built-in corpora."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class Choices:
    """Random choices that are the same in every version of Python: all come from `Random.random`."""

    def __init__(self, seed: str) -> None:
        self.share = Random(seed).random

    def below(self, count: int) -> int:
        """Draw a whole number from 0 to below `count`."""
        return int(self.share() * count)

    def one(self, items: Sequence[Item]) -> Item:
        """Draw an item."""
        return items[self.below(len(items))]

    def several(self, items: Sequence[Item], count: int) -> list[Item]:
        """Draw different items."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]
