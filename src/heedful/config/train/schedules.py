"""What changes with the update: schedules of the learning rate, and the decay of scheduled sampling."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from heedful.config.section import Section, Share


class Noam(Section):
    """factor * width^-0.5 * min(step^-0.5, step * warmup^-1.5)      Vaswani et al. 2017, 5.3"""

    kind: Literal["noam"] = "noam"
    factor: PositiveFloat = 1.0
    """Factor that the learning rate is multiplied by."""
    warmup: PositiveInt = 4000
    """Number of warm-up updates."""


class InverseSqrt(Section):
    """lr * min(step / warmup, (warmup / step)^0.5)"""

    kind: Literal["inverse_sqrt"]
    lr: PositiveFloat = Field(examples=[0.0005])
    """Maximum learning rate, reached at the end of the warm-up."""
    warmup: PositiveInt = 4000
    """Number of warm-up updates."""


class Linear(Section):
    """Rises linearly to lr over the warm-up, then falls linearly to `floor * lr` at the last step."""

    kind: Literal["linear"]
    lr: PositiveFloat = Field(examples=[0.0005])
    """Maximum learning rate, reached at the end of the warm-up."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Number of warm-up updates."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Final learning rate as a fraction of `lr`."""


class Cosine(Section):
    """Rises linearly to lr over the warm-up, then falls by half a cosine to `floor * lr` at the last step.

    With `span = "run"` the cosine begins at the first update, and the warm-up is a factor of it.
    """

    kind: Literal["cosine"]
    lr: PositiveFloat = Field(examples=[0.0005])
    """Maximum learning rate, reached at the end of the warm-up."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Number of warm-up updates."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Final learning rate as a fraction of `lr`."""
    span: Literal["after_warmup", "run"] = "after_warmup"
    """Updates over which the cosine falls: those after the warm-up, or all of the run."""


class Constant(Section):
    """Rises linearly to lr over the warm-up, then stays there."""

    kind: Literal["constant"]
    lr: PositiveFloat = Field(examples=[0.0001])
    """Learning rate after the warm-up."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Number of warm-up updates."""


AnySchedule = Annotated[Noam | InverseSqrt | Linear | Cosine | Constant, Field(discriminator="kind")]


class LinearWarmup(Section):
    """min(1, step / steps)"""

    kind: Literal["linear"]
    steps: PositiveInt = Field(examples=[4000])
    """Number of warm-up updates."""


class ExponentialWarmup(Section):
    """1 - exp(-step / steps)      Ma and Yarats 2019, 4, as those below"""

    kind: Literal["exponential"]
    steps: PositiveInt = Field(examples=[1000])
    """Time constant in updates."""


class UntunedLinearWarmup(Section):
    """min(1, step * (1 - beta2) / 2), with Adam's beta2"""

    kind: Literal["untuned_linear"]


class UntunedExponentialWarmup(Section):
    """1 - exp(-step * (1 - beta2)), with Adam's beta2"""

    kind: Literal["untuned_exponential"]


class Wait(Section):
    """0 up to the update `steps`, then 1: the moments of Adam settle while weights stay fixed      Liu et al. 2020, 3.1

    Adam-2k of the paper is `steps = 2000, momentum = false`: only the mean of squares settles.
    """

    kind: Literal["wait"]
    steps: PositiveInt = Field(examples=[200])
    """Number of updates that do not change the weights."""
    momentum: bool = True
    """Whether the mean of gradients settles too; otherwise it starts from 0 with the first change of a weight."""


AnyWarmup = Annotated[
    LinearWarmup | ExponentialWarmup | UntunedLinearWarmup | UntunedExponentialWarmup | Wait,
    Field(discriminator="kind"),
]


class LinearDecay(Section):
    """offset - slope * step, at most 1 and at least `floor`      Bengio et al. 2015, 2.4, as those below"""

    kind: Literal["linear"]
    slope: PositiveFloat = Field(examples=[0.0001])
    """Decrease per update."""
    offset: PositiveFloat = 1.0
    """Value at step 0."""
    floor: Share = 0.0
    """Minimum value."""


class ExponentialDecay(Section):
    """base^step"""

    kind: Literal["exponential"]
    base: Annotated[float, Field(gt=0, lt=1, examples=[0.9999])]
    """Factor per update."""


class InverseSigmoidDecay(Section):
    """span / (span + exp(step / span))"""

    kind: Literal["inverse_sigmoid"]
    span: Annotated[float, Field(ge=1, examples=[3000.0])]
    """Time constant in updates."""


AnyDecay = Annotated[LinearDecay | ExponentialDecay | InverseSigmoidDecay, Field(discriminator="kind")]
