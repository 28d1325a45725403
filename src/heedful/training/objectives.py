"""Training objectives: a loss summed over countable units, which the trainer divides by the units of a whole update."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from heedful.models.protocols import NextTokenModel
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.nn.losses.predictions import (
    Prediction,
    TokenPrediction,
)

BatchType = TypeVar("BatchType", contravariant=True)
Inputs = TypeVar("Inputs")
Predicted = TypeVar("Predicted", bound=Prediction)


@dataclass(frozen=True, eq=False)
class Sums:
    """The loss, which has gradients, and the negative log-likelihood, for perplexity, summed over one micro-batch."""

    loss: Float[Tensor, ""]
    likelihood: Float[Tensor, ""]


class Objective(Protocol[BatchType]):
    """Computes the loss of a model on a micro-batch.

    One that carries a state from batch to batch is a `StatefulObjective` too. What it sums over is by default the
    sentences of a batch: texts, images or windows.
    """

    def __call__(self, model: Any, batch: BatchType) -> Sums:
        """Return the summed loss. An objective knows which models it is for; the training loop does not."""

    def units(self, batch: BatchType) -> int:
        """Return the number of units in the sums, without waiting for the device."""
        counted: Any = batch
        return int(counted.sentences)

    def tokens(self, batch: BatchType) -> int:
        """Return the number of tokens by which speed is measured."""
        counted: Any = batch
        return int(counted.tokens)


@runtime_checkable
class StatefulObjective(Protocol):
    """An objective that carries a state from one batch to the next, which checkpoints store."""

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return the state as tensors by name; empty if there is none."""

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore a state that `state_dict` returned."""


class PredictiveObjective(Objective[Inputs], ABC, Generic[Inputs, Predicted]):
    """An objective in two steps, what the network predicts and its loss, so that predictions can be compared."""

    def draw(self, batch: Inputs) -> Inputs:
        """Return the batch after the random changes that all predictions to compare have in common."""
        return batch

    @abstractmethod
    def predict(self, model: Any, batch: Inputs) -> Predicted:
        """Run the network."""

    @abstractmethod
    def score(self, predicted: Predicted, batch: Inputs) -> Sums:
        """Sum the loss over the units of a micro-batch."""

    def __call__(self, model: Any, batch: Inputs) -> Sums:
        """Sum the loss over the units of a micro-batch."""
        drawn = self.draw(batch)
        return self.score(self.predict(model, drawn), drawn)


class Applies(Protocol):
    """What changes the weights that a network computes with, inside a block."""

    def applied(self) -> AbstractContextManager[None]:
        """Let the network compute with other weights, which have gradients."""


class Adapted(Objective[Any]):
    """The loss of a network with an adapter, by any objective."""

    def __init__(self, objective: Objective[Any], adapter: Applies) -> None:
        self.objective, self.adapter = objective, adapter
        self.units, self.tokens = objective.units, objective.tokens  # type: ignore[method-assign]
        if isinstance(objective, StatefulObjective):
            self.state_dict, self.load_state_dict = objective.state_dict, objective.load_state_dict

    def __call__(self, model: Any, batch: Any) -> Sums:
        """Sum the loss over the units of a micro-batch."""
        with self.adapter.applied():
            return self.objective(model, batch)


class LabelledBatch(Protocol):
    """A batch with a label for each target token."""

    @property
    def labels(self) -> Int[Tensor, "N"]:
        """The tokens to predict; IGNORED where a batch is filled up."""

    @property
    def target_tokens(self) -> int:
        """The number of labels that count."""


class NextToken(PredictiveObjective[LabelledBatch, TokenPrediction]):
    """Label-smoothed cross-entropy of each target token, given the tokens before it and the source, if there is one."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def predict(self, model: NextTokenModel[Any], batch: LabelledBatch) -> TokenPrediction:
        """Predict every target token."""
        return TokenPrediction(model.next_token_states(batch), model.output, batch.labels)

    def score(self, predicted: TokenPrediction, batch: LabelledBatch) -> Sums:
        """Sum over the target tokens of a micro-batch."""
        return token_loss(predicted, self.smoothing)

    def units(self, batch: LabelledBatch) -> int:
        """The target tokens, end markers included."""
        return batch.target_tokens

    def tokens(self, batch: LabelledBatch) -> int:
        """The target tokens, end markers included."""
        return batch.target_tokens


def token_loss(predicted: TokenPrediction, smoothing: float) -> Sums:
    """Return the label-smoothed cross-entropy of predicted tokens."""
    output = predicted.output
    return Sums(*smoothed_cross_entropy(predicted.states_NE, output.weight, output.bias, predicted.labels_N, smoothing))
