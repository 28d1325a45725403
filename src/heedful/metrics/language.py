"""How well a model predicts text: perplexity, forced decoding, masked tokens, and counts of n-grams as a baseline.

perplexity = exp(-1/N * sum log P(token | tokens before it, source)),  over all N target tokens, `</s>` included
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import IGNORED
from heedful.data.batches.masked import MaskedBatch
from heedful.data.batches.pairs import PairBatch
from heedful.data.batches.streams import StreamBatch
from heedful.data.batches.windows import WindowBatch
from heedful.models.networks import MaskedModel
from heedful.models.protocols import NextTokenModel
from heedful.models.recurrent.language_model import RecurrentLanguageModel
from heedful.nn.losses.cross_entropy import label_log_probabilities, smoothed_cross_entropy


@dataclass(frozen=True)
class Likelihood:
    """The negative log-likelihood of a text, summed over its tokens."""

    total: float
    tokens: int

    @property
    def loss(self) -> float:
        """The mean over the tokens, in nats."""
        return self.total / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """The exponential of the mean."""
        try:
            return math.exp(self.loss)
        except OverflowError:
            return math.inf

    def __add__(self, other: "Likelihood") -> "Likelihood":
        return Likelihood(self.total + other.total, self.tokens + other.tokens)


@torch.inference_mode()
def likelihood(model: NextTokenModel[Any], batches: Iterable[PairBatch | WindowBatch]) -> Likelihood:
    """Sum over the target tokens of all batches. The model is used as it is: put it into `eval` mode."""
    device = next(model.parameters()).device
    total = torch.zeros((), dtype=torch.float64, device=device)
    tokens = 0
    output = model.output
    for batch in batches:
        placed = batch.to(device)
        states_NE = model.next_token_states(placed)
        _, summed = smoothed_cross_entropy(states_NE, output.weight, output.bias, placed.labels, smoothing=0.0)
        total += summed
        tokens += placed.target_tokens
    return Likelihood(float(total), tokens)


@torch.inference_mode()
def carried_likelihood(model: RecurrentLanguageModel, segments: Iterable[StreamBatch]) -> Likelihood:
    """Sum over the tokens of streams, segment by segment; each continues with the state that the one before left.

    The first segment starts from zeros. The model is used as it is: put it into `eval` mode.
    """
    output, state, tokens = model.output, None, 0
    device = output.weight.device
    total = torch.zeros((), dtype=torch.float64, device=device)
    for segment in segments:
        placed = segment.to(device)
        states_NE, state = model.read(placed.inputs, state and state.restart(placed.fresh))
        _, summed = smoothed_cross_entropy(states_NE, output.weight, output.bias, placed.labels, smoothing=0.0)
        total += summed
        tokens += placed.tokens
    return Likelihood(float(total), tokens)


# --- forced decoding: how probable given targets are, token by token --------------------------------------------------
#
# log P(y | x) = sum_t log P(y_t | y_<t, x),  for several models with their mean probability


@torch.inference_mode()
def token_log_probabilities(
    models: Sequence[NextTokenModel[PairBatch]], batches: Iterable[PairBatch]
) -> Iterator[list[list[float]]]:
    """Yield for each batch the log probabilities of each target's tokens, `</s>` last. Put models into `eval` mode."""
    device = next(models[0].parameters()).device
    for batch in batches:
        placed = batch.to(device)
        each = torch.stack([_labels(model, placed) for model in models])
        mean_N = each.double().logsumexp(0) - math.log(len(models))
        yield [part.tolist() for part in mean_N.split(batch.target.layout.lengths.tolist())[: batch.sentences]]


def _labels(model: NextTokenModel[PairBatch], batch: PairBatch) -> Float[Tensor, "N"]:
    output = model.output
    return label_log_probabilities(model.next_token_states(batch), output.weight, output.bias, batch.labels)


# --- scores of a masked language model: its predictions of masked tokens and of next sentences ------------------------


@dataclass(frozen=True)
class MaskedPredictions:
    """Sums over masked tokens and over pairs of texts."""

    likelihood: Likelihood
    right: int  # masked tokens whose most likely prediction is correct
    pairs: int
    right_pairs: int

    @property
    def accuracy(self) -> float:
        """The fraction of masked tokens that were predicted correctly."""
        return self.right / max(1, self.likelihood.tokens)

    @property
    def next_accuracy(self) -> float | None:
        """The fraction of correct next-sentence predictions; None if there were none."""
        return self.right_pairs / self.pairs if self.pairs else None


@torch.inference_mode()
def predict_masked(model: MaskedModel, batches: Iterable[MaskedBatch]) -> MaskedPredictions:
    """Evaluate the predictions on all batches. The model must be in `eval` mode."""
    device, output = next(model.parameters()).device, model.head.output
    total = torch.zeros((), dtype=torch.float64, device=device)
    right, right_pairs = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))
    masked = pairs = 0
    for batch in batches:
        placed = batch.to(device)
        encoded = model(placed.text)
        states_PE = model.masked(encoded, placed.places)
        _, summed = smoothed_cross_entropy(states_PE, output.weight, output.bias, placed.labels, smoothing=0.0)
        total += summed
        right += (output(states_PE).argmax(dim=1) == placed.labels).sum()
        masked += batch.masked
        if model.follows is not None:
            asked = placed.next != IGNORED
            right_pairs += ((model.following(encoded).argmax(dim=1) == placed.next) & asked).sum()
            pairs += batch.sentences
    return MaskedPredictions(Likelihood(float(total), masked), int(right), pairs, int(right_pairs))


# --- counts of n-grams as a language model: the baseline of every neural one ------------------------------------------
#
#     p_n(w | h) = max(c(h w) - D_n, 0) / c(h .) + D_n * types(h .) / c(h .) * p_{n-1}(w | h')
#     p_0(w) = 1 / V,    D_n = s_1 / (s_1 + 2 s_2)
#
# Kneser and Ney 1995 in the interpolated form of Chen and Goodman 1998. h are the n - 1 tokens before w, and h' all of
# them but the first. c(h w) is how often h w occurs for the highest order; for lower orders it is the number of
# different tokens that h w follows. c(h .) sums it over all w, types(h .) counts the w for which it is not 0, and s_1
# and s_2 count the n-grams of an order for which it is 1 and 2; D_n is 0.5 where s_1 is 0. Where c(h .) is 0, p_n is
# p_{n-1}.


Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Order:
    """The n-grams of one length: what is counted of each, and of each of their histories.

    The last entry of `counts`, `totals` and `types` is 0, for what was not seen: number -1.
    """

    keys: Ids  # sorted: the number of the history among the shorter n-grams, times V, plus the last token
    counts: Floats
    totals: Floats  # of each history: c(h .)
    types: Floats  # of each history: types(h .)
    discount: float


@dataclass(frozen=True, eq=False)
class KneserNey:
    """An n-gram model of texts of token ids."""

    orders: tuple[_Order, ...]  # from single tokens up
    vocabulary: int

    @classmethod
    def of(cls, texts: Sequence[Sequence[int] | Ids], order: int, vocabulary: int) -> "KneserNey":
        """Count the n-grams of texts, up to `order` tokens, of a vocabulary of this size."""
        if order < 1:
            raise ValueError(f"the order of an n-gram model is {order}, but must be at least 1")
        tokens = np.concatenate([np.asarray(text, np.int64) for text in texts])
        starts = np.cumsum([0, *map(len, texts)])[:-1]
        tables: list[Ids] = []  # the keys of each order
        ends: list[Ids] = []  # the number of the n-gram that ends at each token
        before = np.zeros(len(tokens), np.int64)  # the number of the history of each token
        for _ in range(order):
            found = _keys(before, tokens, vocabulary)
            tables.append(np.unique(found[found >= 0]))
            ends.append(_numbers(tables[-1], found))
            before = _shift(ends[-1], starts[starts < len(tokens)])
        orders, histories = [], 1
        for length, keys in enumerate(tables):
            counted = ends[length] if length + 1 == order else _once_per_neighbour(ends[length], ends[length + 1])
            counts = np.bincount(counted[counted >= 0], minlength=len(keys)).astype(np.float64)
            owners = keys // vocabulary
            totals, types = (np.append(np.bincount(owners, some, histories), 0.0) for some in (counts, counts > 0))
            orders.append(_Order(keys, np.append(counts, 0.0), totals, types, _discount(counts)))
            histories = len(keys)
        return cls(tuple(orders), vocabulary)

    def log_probabilities(self, text: Sequence[int] | Ids) -> Floats:
        """Return log p of every token of a text, given those before it; before the first there are none."""
        tokens = np.asarray(text, np.int64)
        p, before = np.full(len(tokens), 1 / self.vocabulary), np.zeros(len(tokens), np.int64)
        for order in self.orders:
            ends = _numbers(order.keys, _keys(before, tokens, self.vocabulary))
            total = order.totals[before]
            seen = np.maximum(order.counts[ends] - order.discount, 0)
            p = np.where(total > 0, (seen + order.discount * order.types[before] * p) / np.maximum(total, 1), p)
            before = _shift(ends, np.zeros(min(1, len(tokens)), np.int64))
        logs: Floats = np.log(p)
        return logs


def _keys(before: Ids, tokens: Ids, vocabulary: int) -> Ids:
    """Return the key of the n-gram that ends at each token; -1 where its history was not seen."""
    return np.where(before >= 0, before * vocabulary + tokens, -1)


def _numbers(keys: Ids, found: Ids) -> Ids:
    """Return the number of each key, from 0; -1 where there is none."""
    if not len(keys):
        return np.full(len(found), -1)
    places = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
    return np.where(keys[places] == found, places, -1)


def _shift(ends: Ids, starts: Ids) -> Ids:
    """Return what ends before each token: nothing where a text starts."""
    before = np.roll(ends, 1)
    before[starts] = -1
    return before


def _once_per_neighbour(ends: Ids, longer: Ids) -> Ids:
    """Return the n-grams, each as often as there are n-grams longer by one token before it."""
    places = np.flatnonzero(longer >= 0)
    _, first = np.unique(longer[places], return_index=True)
    return ends[places[first]]


def _discount(counts: Floats) -> float:
    once, twice = (int((counts == number).sum()) for number in (1, 2))
    return once / (once + 2 * twice) if once else 0.5
