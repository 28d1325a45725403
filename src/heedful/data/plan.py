"""The micro-batches of an epoch and their order: a pure function of (corpus, seed, epoch).

Sentences are shuffled, cut into pools, sorted by length inside a pool and cut by token budget, so that the sentences of
a micro-batch are of similar length while their company changes every epoch.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from heedful.errors import UserError

Indices = NDArray[np.int64]  # sentences, counted through all stores one after the other
Counts = NDArray[np.integer]  # tokens of each sentence

POOL = 100  # micro-batches' worth of tokens that are sorted together
_SEED_MASK = (1 << 64) - 1  # a seed may be negative, numpy's may not


def plan(
    costs: Sequence[Counts],
    sizes: Sequence[int],
    weights: Sequence[float],
    *,
    seed: int,
    epoch: int,
    batch_tokens: int,
    max_sentences: int | None = None,
) -> list[Indices]:
    """List the micro-batches of an epoch, each an array of sentence indices.

    `costs` holds one array a side (source, target): the tokens of every sentence there, markers included, through all
    stores. `sizes` and `weights` hold one number a store. In every micro-batch each side stays within `batch_tokens`.
    """
    _refuse_sentences_over_budget(costs, batch_tokens)
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed & _SEED_MASK, epoch])))
    order = random.permutation(_occurrences(sizes, weights, random))
    pools = _pools([cost[order] for cost in costs], POOL * batch_tokens)
    order = order[np.lexsort((*(cost[order] for cost in costs), pools))]
    pool_ends = np.cumsum(np.bincount(pools))
    micro_batches = list(_cut(order, costs, pool_ends.tolist(), batch_tokens, max_sentences))
    return [micro_batches[i] for i in random.permutation(len(micro_batches))]


def batches_by_length(costs: Sequence[Counts], *, batch_tokens: int, max_sentences: int | None = None) -> list[Indices]:
    """Cover all sentences once, shortest first, within a budget a side: for validation and decoding.

    A sentence over the budget makes a batch of its own.
    """
    order = np.lexsort(tuple(costs)).astype(np.int64)
    return list(_cut(order, costs, [len(order)], batch_tokens, max_sentences))


def _refuse_sentences_over_budget(costs: Sequence[Counts], batch_tokens: int) -> None:
    longest = max((int(cost.max()) for cost in costs if len(cost)), default=0)
    if longest > batch_tokens:
        raise UserError(
            f"`data.batch_tokens` is {batch_tokens:,}, but the longest training sentence needs {longest:,} tokens with "
            "its end marker: raise `data.batch_tokens` or lower `data.max_length`."
        )


def _occurrences(sizes: Sequence[int], weights: Sequence[float], random: np.random.Generator) -> Indices:
    """Every sentence floor(weight) times, and a fresh random subset of the right size once more."""
    parts: list[Indices] = []
    first = 0
    for size, weight in zip(sizes, weights, strict=True):
        whole, part = divmod(weight, 1.0)
        parts.append(np.tile(np.arange(first, first + size), int(whole)))
        once_more = round(part * size)
        if once_more:
            parts.append(first + random.choice(size, once_more, replace=False, shuffle=False))
        first += size
    occurrences = np.concatenate(parts) if parts else np.empty(0, np.int64)
    if not len(occurrences):
        raise UserError(
            f"An epoch would show no sentence at all: `data.train` has {first:,} pairs with weights "
            f"{', '.join(f'{weight:g}' for weight in weights)}. Raise `weight`."
        )
    return occurrences


def _pools(costs: Sequence[Counts], pool_tokens: int) -> Indices:
    """The pool of each sentence, from 0, counted by its longer side."""
    longer = np.maximum.reduce([cost.astype(np.int64) for cost in costs])
    return (np.cumsum(longer) - longer) // pool_tokens


def _cut(
    order: Indices, costs: Sequence[Counts], pool_ends: Sequence[int], batch_tokens: int, max_sentences: int | None
) -> Iterator[Indices]:
    """Cut greedily: as many sentences as the budget of each side, the sentence bound and the pool allow."""
    totals = [np.concatenate(([0], np.cumsum(cost[order], dtype=np.int64))) for cost in costs]
    most = max_sentences or len(order)
    start = 0
    for pool_end in pool_ends:
        while start < pool_end:
            reach = min(int(total.searchsorted(total[start] + batch_tokens, side="right")) - 1 for total in totals)
            end = max(start + 1, min(reach, start + most, pool_end))
            yield order[start:end]
            start = end
