"""The micro-batches of an epoch and their order: a pure function of (corpus, seed, epoch).

Sentences are shuffled, cut into pools, sorted by length inside a pool and cut by token budget, so that the sentences of
a micro-batch are of similar length while their company changes every epoch. The order is computed piece by piece and
lengths are looked up on the way: a plan takes the memory of one pool, however large the corpus is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError, counted
from heedful.data.collate import rows_by_owner

# --- a shuffled order that is computed where it is asked for, so that shuffling a large corpus takes no memory --------
#
# A Feistel network whose rounds are keyed by random numbers permutes all numbers of n bits (Luby and Rackoff 1988).
# Where there are fewer numbers than that, one that falls outside is permuted again until it falls inside: what remains
# is a permutation of the numbers inside ("cycle walking", Black and Rogaway 2002, 3).


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


# --- the micro-batches of an epoch and their order: a pure function of (corpus, seed, epoch) --------------------------


Indices = NDArray[np.int64]  # sentences, counted through all stores one after the other
Counts = NDArray[np.integer]  # tokens of each sentence
Costs = Callable[[Indices], Sequence[Counts]]  # the tokens of some sentences, markers included: one array per side

ORDER: Final = 2  # raise it when the same corpus, seed and epoch give another order
POOL: Final = 100  # micro-batches' worth of tokens that are sorted together
_BLOCK: Final = 1 << 15  # sentences that are looked up at once
_SEED_MASK: Final = (1 << 64) - 1  # a seed may be negative, numpy's may not


def plan(
    costs: Costs,
    sizes: Sequence[int],
    weights: Sequence[float],
    *,
    seed: int,
    epoch: int,
    batch_tokens: int,
    max_sentences: int | None = None,
    noun: str = "pair",
) -> Iterator[Indices]:
    """Yield the micro-batches of an epoch, each an array of sentence indices.

    `sizes` and `weights` hold one number per store; `noun` is what a row is called in messages. In every micro-batch
    each side stays within `batch_tokens`.
    """
    random = generator(seed, epoch)
    sentences = shuffled(sizes, weights, random, noun)
    _refuse_over_budget(costs, sum(sizes), batch_tokens, noun)
    # A pool is a random sample, so it is enough to shuffle the micro-batches inside it.
    filled = pools(sentences, costs, POOL * batch_tokens)
    return (rows for pool in filled for rows in batches_of_pool(pool, costs(pool), random, batch_tokens, max_sentences))


def generator(*seeds: int) -> np.random.Generator:
    """Return a generator of the same numbers on every machine; zeros after the other seeds change nothing."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed & _SEED_MASK for seed in seeds])))


def shuffled(
    sizes: Sequence[int], weights: Sequence[float], random: np.random.Generator, noun: str
) -> Iterator[Indices]:
    """Yield the rows of all stores as often as the weights say, in one random order, block by block."""
    occurrences = _occurrences(sizes, weights, random)
    if not any(part.count for part in occurrences):
        raise UserError(
            f"An epoch would show no {noun}: `data.train` has {counted(sum(sizes), noun)} with weights "
            f"{', '.join(f'{weight:g}' for weight in weights)}. Raise `weight`."
        )
    return _blocks(occurrences, random)


def batches_by_length(costs: Sequence[Counts], *, batch_tokens: int, max_sentences: int | None = None) -> list[Indices]:
    """Cover all sentences once, shortest first, within a budget per side: for validation and decoding.

    `costs` holds the tokens of all sentences. A sentence over the budget makes a batch of its own.
    """
    order = np.lexsort(tuple(costs)).astype(np.int64)
    return list(_cut(order, [cost[order] for cost in costs], batch_tokens, max_sentences))


def spread(most: int, count: int) -> Indices:
    """Return at most `most` of `count` rows, at equal distances."""
    taken = min(most, count)
    return np.arange(taken) * count // taken


@dataclass(frozen=True)
class _Occurrences:
    """The sentences of a store as often as an epoch shows them: `count` of them, taken from the order in turns.

    So every sentence comes as often as the whole turns say, and a random subset once more.
    """

    first: int  # of the store's sentences, counted through all stores
    size: int
    count: int
    order: Order

    def __call__(self, places: Indices) -> Indices:
        return self.first + self.order(places % self.size)


def _occurrences(sizes: Sequence[int], weights: Sequence[float], random: np.random.Generator) -> list[_Occurrences]:
    occurrences, first = [], 0
    for size, weight in zip(sizes, weights, strict=True):
        whole, part = divmod(weight, 1.0)
        count = int(whole) * size + round(part * size)
        occurrences.append(_Occurrences(first, size, count, random_order(size, random)))
        first += size
    return occurrences


def _blocks(occurrences: Sequence[_Occurrences], random: np.random.Generator) -> Iterator[Indices]:
    """Yield all occurrences of all stores in one random order, block by block."""
    counts = [part.count for part in occurrences]
    count = sum(counts)
    order = random_order(count, random)
    for begin in range(0, count, _BLOCK):
        places = order(np.arange(begin, min(begin + _BLOCK, count)))
        block = np.empty_like(places)
        for part, (mine, own) in zip(occurrences, rows_by_owner(counts, places), strict=True):
            block[mine] = part(own)
        yield block


def batches_of_pool(
    pool: Indices,
    costs: Sequence[Counts],
    random: np.random.Generator,
    batch_tokens: int,
    max_sentences: int | None,
) -> Iterator[Indices]:
    """Yield the micro-batches of a pool, similar lengths in each, in random order."""
    order = np.lexsort(tuple(costs))
    micro_batches = list(_cut(pool[order], [cost[order] for cost in costs], batch_tokens, max_sentences))
    yield from (micro_batches[i] for i in random.permutation(len(micro_batches)))


def pools(blocks: Iterable[Indices], costs: Costs, pool_tokens: int) -> Iterator[Indices]:
    """Cut a stream of sentences wherever the tokens of their longer sides have filled another pool."""
    begun: list[Indices] = []
    number, before = 0, 0  # of the begun pool, and the tokens before the block
    for block in blocks:
        longer = np.maximum.reduce([count.astype(np.int64) for count in costs(block)])
        ends = before + np.cumsum(longer)
        numbers = (ends - longer) // pool_tokens
        *ended, rest = np.split(block, np.flatnonzero(np.diff(numbers, prepend=number)))
        for part in ended:
            yield np.concatenate((*begun, part))
            begun = []
        begun.append(rest)
        number, before = int(numbers[-1]), int(ends[-1])
    if begun:
        yield np.concatenate(begun)


def _cut(order: Indices, costs: Sequence[Counts], batch_tokens: int, max_sentences: int | None) -> Iterator[Indices]:
    """Cut greedily: as many sentences as the budget of each side and the sentence bound allow."""
    totals = [np.concatenate(([0], np.cumsum(cost, dtype=np.int64))) for cost in costs]
    most = max_sentences or len(order)
    start = 0
    while start < len(order):
        reach = min(int(total.searchsorted(total[start] + batch_tokens, side="right")) - 1 for total in totals)
        end = max(start + 1, min(reach, start + most))
        yield order[start:end]
        start = end


def _refuse_over_budget(costs: Costs, sentences: int, batch_tokens: int, noun: str) -> None:
    blocks = (np.arange(begin, min(begin + _BLOCK, sentences)) for begin in range(0, sentences, _BLOCK))
    longest = max(int(count.max()) for block in blocks for count in costs(block))
    if longest > batch_tokens:
        raise UserError(
            f"`data.batch_tokens` is {batch_tokens:,}, but a {noun} in `data.train` needs {longest:,} tokens, markers "
            "included: raise `data.batch_tokens` or lower `data.max_length`."
        )
