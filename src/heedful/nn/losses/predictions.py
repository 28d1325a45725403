"""What a network predicts for the units of a batch: objectives score it, and two predictions can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.base.packed import IGNORED
from heedful.nn.layers.embedding import Output
from heedful.nn.losses.divergence import (
    class_divergence,
    class_divergence_from,
    output_divergence,
    output_divergence_from,
    presence_divergence,
    presence_divergence_from,
)


class Prediction(Protocol):
    """The probabilities of one forward pass. Divergences are sums over the units of a batch."""

    def divergence(self, other: Any) -> Float[Tensor, ""]:
        """Return D = 1/2 KL(P || Q) + 1/2 KL(Q || P) to another pass of the same model, with gradients of both."""

    def divergence_from(self, teacher: Any, temperature: float) -> Float[Tensor, ""]:
        """Return t^2 KL(teacher || P), with scores divided by the temperature t; the teacher has no gradients."""


@dataclass(frozen=True, eq=False)
class TokenPrediction:
    """A token of the vocabulary for each state of an output layer; units are the labels that count."""

    states_NE: Float[Tensor, "N E"]
    output: Output
    labels_N: Int[Tensor, "N"]

    def divergence(self, other: "TokenPrediction") -> Float[Tensor, ""]:
        """Return D between both."""
        weight, bias = self.output.weight, self.output.bias
        return output_divergence(self.states_NE, other.states_NE, weight, bias, self.labels_N != IGNORED)

    def divergence_from(self, teacher: "TokenPrediction", temperature: float) -> Float[Tensor, ""]:
        """Return t^2 KL(teacher || self)."""
        taught = (teacher.states_NE, teacher.output.weight, teacher.output.bias)
        counts_N = self.labels_N != IGNORED
        return output_divergence_from(
            taught, self.states_NE, self.output.weight, self.output.bias, counts_N, temperature
        )


@dataclass(frozen=True, eq=False)
class ClassPrediction:
    """One class for each unit that counts."""

    scores_BC: Float[Tensor, "B C"]
    counts_B: Bool[Tensor, "B"]

    def divergence(self, other: "ClassPrediction") -> Float[Tensor, ""]:
        """Return D between both."""
        return class_divergence(self.scores_BC, other.scores_BC, self.counts_B)

    def divergence_from(self, teacher: "ClassPrediction", temperature: float) -> Float[Tensor, ""]:
        """Return t^2 KL(teacher || self)."""
        return class_divergence_from(teacher.scores_BC, self.scores_BC, self.counts_B, temperature)


@dataclass(frozen=True, eq=False)
class PresencePrediction:
    """Each class present or absent, in each unit that counts."""

    scores_BC: Float[Tensor, "B C"]
    counts_BC: Bool[Tensor, "B C"]

    def divergence(self, other: "PresencePrediction") -> Float[Tensor, ""]:
        """Return D between both, summed over the classes too."""
        return presence_divergence(self.scores_BC, other.scores_BC, self.counts_BC)

    def divergence_from(self, teacher: "PresencePrediction", temperature: float) -> Float[Tensor, ""]:
        """Return t^2 KL(teacher || self), summed over the classes too."""
        return presence_divergence_from(teacher.scores_BC, self.scores_BC, self.counts_BC, temperature)


@dataclass(frozen=True, eq=False)
class JointPrediction:
    """Several predictions, each with its weight in the sum."""

    parts: Sequence[tuple[float | Tensor, Any]]

    def divergence(self, other: "JointPrediction") -> Float[Tensor, ""]:
        """Return the weighted sum of the parts' divergences."""
        both = zip(self.parts, other.parts, strict=True)
        return _total([weight * mine.divergence(theirs) for (weight, mine), (_, theirs) in both])

    def divergence_from(self, teacher: "JointPrediction", temperature: float) -> Float[Tensor, ""]:
        """Return the weighted sum of the parts' divergences."""
        both = zip(self.parts, teacher.parts, strict=True)
        return _total([weight * mine.divergence_from(theirs, temperature) for (weight, mine), (_, theirs) in both])


def _total(parts: Sequence[Tensor]) -> Tensor:
    first, *others = parts
    return sum(others, start=first)
