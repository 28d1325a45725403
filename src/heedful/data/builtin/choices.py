"""Random choices of the built-in corpora, and their parts."""

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import Final, TypeVar

from heedful.base.errors import UserError

Item = TypeVar("Item")
PARTS: Final = ("train", "valid", "test")


def check_part(corpus: str, part: str) -> None:
    """Refuse a part that a corpus does not have."""
    if part not in PARTS:
        raise UserError(f"{corpus} has no part `{part}`. Its parts are train, valid and test.")


def hash_of(text: str) -> int:
    """Return a hash that no platform or process changes: it decides what belongs to which part."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


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
