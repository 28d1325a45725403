"""Optimizers of a recipe, and their constants."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat

from heedful.config.section import Section, Share


class Adam(Section):
    """Adam (Kingma and Ba 2015), with the constants of Vaswani et al. 2017."""

    kind: Literal["adam"] = "adam"
    beta1: Share = 0.9
    """Decay rate of the mean of gradients."""
    beta2: Share = 0.98
    """Decay rate of the mean of squared gradients."""
    epsilon: PositiveFloat = 1e-9
    """Constant that is added to the denominator."""


class AdamW(Section):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); biases and norms do not decay."""

    kind: Literal["adamw"]
    beta1: Share = 0.9
    """Decay rate of the mean of gradients."""
    beta2: Share = 0.98
    """Decay rate of the mean of squared gradients."""
    epsilon: PositiveFloat = 1e-9
    """Constant that is added to the denominator."""
    weight_decay: NonNegativeFloat = 0.01
    """Coefficient of the weight decay, multiplied by the learning rate."""


AnyOptimizer = Annotated[Adam | AdamW, Field(discriminator="kind")]
