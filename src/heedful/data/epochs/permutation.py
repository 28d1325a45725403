"""A shuffled order that is computed where it is asked for, so that shuffling a large corpus takes no memory.

A Feistel network whose rounds are keyed by random numbers permutes all numbers of n bits (Luby and Rackoff 1988).
Where there are fewer numbers than that, one that falls outside is permuted again until it falls inside: what remains is
a permutation of the numbers inside ("cycle walking", Black and Rogaway 2002, 3).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_ROUNDS: Final = 8  # of half the bits; four would do for large sets
_SMALL: Final = 1 << 12  # numbers whose order may as well be stored
_MULTIPLIERS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # Steele et al. 2014, SplitMix64
_HALF_WORD: Final = np.uint64(32)

_Words = NDArray[np.uint64]


Order = Callable[[NDArray[np.int64]], NDArray[np.int64]]  # from positions to the numbers at them


def random_order(size: int, random: np.random.Generator) -> Order:
    """Draw a random order of 0 to `size` - 1: stored where it is short, so that any is possible, else computed."""
    if size <= _SMALL:
        return random.permutation(size).take
    return Permutation.drawn(size, random)


@dataclass(frozen=True, eq=False)
class Permutation:
    """A random order of 0 to `size` - 1, computed."""

    size: int
    keys: _Words  # one per round

    @classmethod
    def drawn(cls, size: int, random: np.random.Generator) -> "Permutation":
        """Draw one at random."""
        return cls(size, random.integers(0, 1 << 64, _ROUNDS, dtype=np.uint64))

    def __call__(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers at these positions."""
        numbers = self._permuted(places.astype(np.uint64))
        while len(outside := np.flatnonzero(numbers >= self.size)):
            numbers[outside] = self._permuted(numbers[outside])
        return numbers.astype(np.int64)

    def _permuted(self, numbers: _Words) -> _Words:
        """Permute all numbers of as many bits as the largest has."""
        bits = max(2, (self.size - 1).bit_length())
        low_bits = np.uint64(bits // 2)
        low_mask, high_mask = (np.uint64((1 << width) - 1) for width in (bits // 2, bits - bits // 2))
        low, high = numbers & low_mask, numbers >> low_bits
        for low_key, high_key in self.keys.reshape(-1, 2):
            low ^= _mixed(high, low_key) & low_mask
            high ^= _mixed(low, high_key) & high_mask
        return (high << low_bits) | low


def _mixed(half: _Words, key: np.uint64) -> _Words:
    """Random bits that depend on every bit of a half and of the key."""
    word = (half ^ key) * _MULTIPLIERS[0]
    word ^= word >> _HALF_WORD
    word *= _MULTIPLIERS[1]
    return word >> _HALF_WORD
