"""Perplexity: how well a model predicts text.

perplexity = exp(-1/N * sum log P(token | tokens before it, source)),  over all N target tokens, `</s>` included
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from heedful.data.batches.pairs import PairBatch
from heedful.data.batches.streams import StreamBatch
from heedful.data.batches.windows import WindowBatch
from heedful.data.images.caption_batches import CaptionBatch
from heedful.models.protocols import NextTokenModel
from heedful.models.recurrent.language_model import RecurrentLanguageModel
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy


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
def likelihood(model: NextTokenModel[Any], batches: Iterable[PairBatch | WindowBatch | CaptionBatch]) -> Likelihood:
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
