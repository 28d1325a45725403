"""Optimizers of a recipe, and their constants.

The learning rate is that of the schedule. Weight decay is decoupled (Loshchilov and Hutter 2019) except in SGD; biases
and norms do not decay.
"""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat

from heedful.config.section import Section, Share


class Sgd(Section):
    """Stochastic gradient descent with momentum (Sutskever et al. 2013)."""

    kind: Literal["sgd"]
    momentum: Share = 0.9
    """Share of the last step that the next one keeps; 0 is plain gradient descent."""
    nesterov: bool = False
    """Whether the momentum is Nesterov's."""
    weight_decay: NonNegativeFloat = 0.0
    """Coefficient of the squared weights in the loss, times two."""
    decay_embeddings: bool = True
    """Whether embeddings decay like other matrices."""

    @property
    def moments(self) -> int:
        """How many values are kept for every weight."""
        return 1 if self.momentum else 0


class Adagrad(Section):
    """Steps divided by the root of the sum of all squared gradients (Duchi et al. 2011)."""

    kind: Literal["adagrad"]
    initial: NonNegativeFloat = 0.0
    """Value of each sum before the first update."""
    epsilon: PositiveFloat = 1e-10
    """Constant that is added to the denominator."""

    @property
    def moments(self) -> int:
        """How many values are kept for every weight."""
        return 1


class RmsProp(Section):
    """Steps divided by the root of the mean of squared gradients (Hinton 2012)."""

    kind: Literal["rmsprop"]
    decay: Share = 0.99
    """Decay rate of the mean of squared gradients."""
    momentum: Share = 0.0
    """Share of the last step that the next one keeps."""
    epsilon: PositiveFloat = 1e-8
    """Constant that is added to the denominator."""

    @property
    def moments(self) -> int:
        """How many values are kept for every weight."""
        return 2 if self.momentum else 1


class Moments(Section):
    """Constants of Adam and its relatives, those of Vaswani et al. 2017."""

    kind: str
    beta1: Share = 0.9
    """Decay rate of the mean of gradients."""
    beta2: Share = 0.98
    """Decay rate of the mean of squared gradients."""
    epsilon: PositiveFloat = 1e-9
    """Constant that is added to the denominator."""

    @property
    def moments(self) -> int:
        """How many values are kept for every weight."""
        return 2


class Adam(Moments):
    """Adam (Kingma and Ba 2015), with the constants of Vaswani et al. 2017."""

    kind: Literal["adam"] = "adam"


class AdamW(Moments):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); biases and norms do not decay."""

    kind: Literal["adamw"]
    weight_decay: NonNegativeFloat = 0.01
    """Coefficient of the weight decay, multiplied by the learning rate."""
    decay_embeddings: bool = True
    """Whether embeddings decay like other matrices."""


class RAdam(Moments):
    """Adam that waits for its variance, without a warm-up (Liu et al. 2020)."""

    kind: Literal["radam"]
    weight_decay: NonNegativeFloat = 0.0
    """Coefficient of the weight decay, multiplied by the learning rate."""
    decay_embeddings: bool = True
    """Whether embeddings decay like other matrices."""


class Muon(Section):
    """Momentum made orthogonal, for the matrices of hidden layers (Jordan et al. 2024); AdamW for all other weights.

    Steps are scaled to the size of AdamW's (Liu et al. 2025), so that both have one learning rate.
    """

    kind: Literal["muon"]
    momentum: Share = 0.95
    """Share of the last momentum that the next one keeps; it is Nesterov's."""
    beta1: Share = 0.9
    """Decay rate of AdamW's mean of gradients."""
    beta2: Share = 0.98
    """Decay rate of AdamW's mean of squared gradients."""
    epsilon: PositiveFloat = 1e-9
    """Constant that is added to AdamW's denominator."""
    weight_decay: NonNegativeFloat = 0.01
    """Coefficient of the weight decay of hidden matrices, multiplied by the learning rate; others do not decay."""

    @property
    def moments(self) -> int:
        """How many values are kept for every weight, at most: hidden matrices have one."""
        return 2


AnyOptimizer = Annotated[Adam | AdamW | RAdam | Muon | RmsProp | Adagrad | Sgd, Field(discriminator="kind")]
