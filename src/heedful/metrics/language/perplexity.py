"""How well a model predicts text: perplexity, forced decoding, masked tokens.

perplexity = exp(-1/N * sum log P(token | tokens before it, source)),  over all N target tokens, `</s>` included
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from heedful.base.packed import IGNORED
from heedful.data.batches.masked import MaskedBatch
from heedful.data.batches.pairs import PairBatch
from heedful.data.batches.windows import StreamBatch, WindowBatch
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
        each = [
            label_log_probabilities(
                model.next_token_states(placed), model.output.weight, model.output.bias, placed.labels
            )
            for model in models
        ]
        mean_N = torch.stack(each).double().logsumexp(0) - math.log(len(models))
        yield [part.tolist() for part in mean_N.split(batch.target.layout.lengths.tolist())[: batch.sentences]]


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
