"""What training minimises: a sum over countable units, divided once by whoever sees all units of an update."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from jaxtyping import Float
from torch import Tensor

from heedful.data.batches import PairBatch
from heedful.models.families import EncoderDecoder
from heedful.nn.loss import smoothed_cross_entropy

BatchType = TypeVar("BatchType", contravariant=True)


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over one micro-batch; `loss` has gradients."""

    loss: Float[Tensor, ""]
    likelihood: Float[Tensor, ""]  # summed negative log-likelihood, for perplexity


class Objective(Protocol[BatchType]):
    """Judges a model on a micro-batch."""

    def __call__(self, model: Any, batch: BatchType) -> Tally:
        """Sum the loss. An objective knows the family it is for; the loop does not."""
        ...

    def units(self, batch: BatchType) -> int:
        """How many units the sums are over, known without asking the device."""
        ...


class NextToken:
    """Label-smoothed cross-entropy of each target token given the source and the target before it."""

    def __init__(self, smoothing: float) -> None:
        self.smoothing = smoothing

    def __call__(self, model: EncoderDecoder, batch: PairBatch) -> Tally:
        """Sum over the target tokens of a micro-batch."""
        states = model.states(batch.source, batch.target)
        output = model.decoder.output
        return Tally(*smoothed_cross_entropy(states, output.weight, output.bias, batch.labels, self.smoothing))

    def units(self, batch: PairBatch) -> int:
        """The target tokens, end markers included."""
        return batch.target_tokens
