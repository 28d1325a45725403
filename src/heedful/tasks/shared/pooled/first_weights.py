"""First weights of a bag of n-grams from its training texts: rarities, and the solution of a regression."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.data.batches.texts import TextBatch
from heedful.data.epochs.loader import Collator
from heedful.data.epochs.plan import Indices, spread
from heedful.data.token_store import TokenStore
from heedful.models.heads import OneScore
from heedful.models.networks import PooledNetwork
from heedful.nn.layers.ngrams import NgramBag
from heedful.nn.layers.pooling import MeanPool
from heedful.tasks.shared.pooled.sparse_regression import Features, Loss, minimise

_MOST_TEXTS: Final = 20_000  # of more, this number at equal distances is read
_TOGETHER: Final = 256


def set_first_weights(
    network: PooledNetwork,
    bag: NgramBag,
    collator: Collator[Any],
    stores: Sequence[TokenStore],
    kind: Loss,
    aims: Callable[[Indices], Tensor],
) -> None:
    """Set the weights of n-grams to their rarity and, where they can hold it, vectors to a regression's solution.

    `aims` returns what is true of rows, counted through all stores: rows x scores.
    """
    rows = spread(_MOST_TEXTS, sum(map(len, stores)))
    parts = np.array_split(rows, -(-len(rows) // _TOGETHER))
    batches: list[TextBatch] = [collator.batch(stores, some) for some in parts]
    _set_rarity(bag, batches)
    width, classes = network.output.in_features, network.output.out_features
    linear = isinstance(network.pooled.pool, MeanPool) and isinstance(network.hidden, nn.Identity)
    linear = linear and not isinstance(network.output, OneScore)  # the solution has a score for each class
    if linear and classes <= width and len(bag.embedding.weight[0]) == width:
        _set_solution(network, bag, batches, kind, aims(rows))


def _packed(batch: TextBatch) -> Packed:
    assert isinstance(batch.inputs, Packed), "a bag reads plain texts"
    return batch.inputs


@torch.no_grad()
def _set_rarity(bag: NgramBag, batches: Sequence[TextBatch]) -> None:
    """Set the weights of n-grams to log((1 + texts) / (1 + texts with the n-gram)) + 1; 0 without such a text."""
    assert bag.weights is not None, "a bag without weights"
    texts, device = sum(batch.sentences for batch in batches), bag.weights.device
    counts_J = torch.zeros(len(bag.weights), device=device)
    for batch in batches:
        counts_J += bag.count_texts(_packed(batch).to(device))
    rarity_J = ((1 + texts) / (1 + counts_J)).log() + 1
    bag.weights.copy_(rarity_J.masked_fill(counts_J == 0, 0))


@torch.no_grad()
def _set_solution(
    network: PooledNetwork, bag: NgramBag, batches: Sequence[TextBatch], kind: Loss, true_BC: Tensor
) -> None:
    """Let the first values of vectors be the scores of classes: output = [1 0], and vectors = [W 0]."""
    classes, device = network.output.out_features, network.output.weight.device
    parts = [[part.cpu() for part in bag.features(_packed(batch).to(device))] for batch in batches]
    starts = np.cumsum([0, *(batch.sentences for batch in batches)])
    text = torch.cat([part[0] + int(start) for part, start in zip(parts, starts[:-1], strict=True)])
    known, feature = torch.cat([part[1] for part in parts]).unique(return_inverse=True)
    x = Features(int(starts[-1]), text, feature, torch.cat([part[2] for part in parts]))
    weights_JC, bias_C = torch.zeros(len(known), classes), torch.zeros(classes)
    factor_J = minimise(x, known >= bag.tokens, true_BC, weights_JC, bias_C, kind, telling=True)
    assert bag.weights is not None
    vectors = bag.vector_rows(torch.arange(len(bag.weights), device=device))
    factors = torch.ones(int(vectors.max()) + 1, device=device)  # n-grams of no training text weigh nothing already
    factors[known.to(device)] = factor_J.to(device)
    bag.weights.mul_(factors[vectors])
    single = known < bag.tokens
    _put(bag.embedding.weight, known[single], weights_JC[single])
    if bag.hashed is not None:
        _put(bag.hashed.weight, known[~single] - bag.tokens, weights_JC[~single])
    network.output.weight[:, :classes] = torch.eye(classes).to(network.output.weight)
    assert network.output.bias is not None
    network.output.bias.copy_(bias_C)


def _put(weight: Tensor, rows: Tensor, values: Tensor) -> None:
    """Replace the first columns of a matrix: by values in some rows, and by zeros in the others."""
    weight[:, : values.shape[1]] = 0
    weight[rows.to(weight.device), : values.shape[1]] = values.to(weight)
