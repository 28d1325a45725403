"""The [train] table of a recipe: optimizers, schedules, validation, averaging, masking."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from heedful.config.section import Section, Share

# A description is what the loader says of a value that does not match: "... but must be <description>".
Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description='"auto", "cpu", "cuda" or "cuda:0"')]


class Adam(Section):
    """Adam (Kingma and Ba 2015), with the constants of Vaswani et al. 2017."""

    kind: Literal["adam"] = "adam"
    beta1: Share = 0.9
    beta2: Share = 0.98
    epsilon: PositiveFloat = 1e-9


class AdamW(Section):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); biases and norms do not decay."""

    kind: Literal["adamw"]
    beta1: Share = 0.9
    beta2: Share = 0.98
    epsilon: PositiveFloat = 1e-9
    weight_decay: NonNegativeFloat = 0.01


AnyOptimizer = Annotated[Adam | AdamW, Field(discriminator="kind")]


class Noam(Section):
    """factor * width^-0.5 * min(step^-0.5, step * warmup^-1.5)      Vaswani et al. 2017, 5.3"""

    kind: Literal["noam"] = "noam"
    factor: PositiveFloat = 1.0
    warmup: PositiveInt = 4000


class InverseSqrt(Section):
    """lr * min(step / warmup, (warmup / step)^0.5)"""

    kind: Literal["inverse_sqrt"]
    lr: PositiveFloat
    warmup: PositiveInt = 4000


class Linear(Section):
    """Up to lr over the warm-up, then straight down to `floor * lr` at the last step."""

    kind: Literal["linear"]
    lr: PositiveFloat
    warmup: Annotated[int, Field(ge=0)] = 0
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0


class Cosine(Section):
    """Up to lr over the warm-up, then half a cosine down to `floor * lr` at the last step."""

    kind: Literal["cosine"]
    lr: PositiveFloat
    warmup: Annotated[int, Field(ge=0)] = 0
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0


class Constant(Section):
    """lr, after a linear warm-up."""

    kind: Literal["constant"]
    lr: PositiveFloat
    warmup: Annotated[int, Field(ge=0)] = 0


AnySchedule = Annotated[Noam | InverseSqrt | Linear | Cosine | Constant, Field(discriminator="kind")]


class LinearDecay(Section):
    """offset - slope * step, at most 1 and at least `floor`      Bengio et al. 2015, 2.4, as those below"""

    kind: Literal["linear"]
    slope: PositiveFloat
    offset: PositiveFloat = 1.0
    floor: Share = 0.0


class ExponentialDecay(Section):
    """base^step"""

    kind: Literal["exponential"]
    base: Annotated[float, Field(gt=0, lt=1)]


class InverseSigmoidDecay(Section):
    """span / (span + exp(step / span))"""

    kind: Literal["inverse_sigmoid"]
    span: Annotated[float, Field(ge=1)]


AnyDecay = Annotated[LinearDecay | ExponentialDecay | InverseSigmoidDecay, Field(discriminator="kind")]


class Validation(Section):
    """When the model is judged on `data.valid`, by what, and when training gives up."""

    every: PositiveInt = 1000  # updates
    metric: str = "loss"  # which model is the best one; a task's rules say which metrics it has
    patience: PositiveInt | None = None  # stop after this many validations without a better one
    translate: bool = False  # also translate and report BLEU and chrF when the metric is loss or perplexity
    max_sentences: PositiveInt | None = None  # judge so many only: the first pairs; texts at equal distances


class Average(Section):
    """Which checkpoints are averaged, weight by weight, at the end of training: the last so many, or the best."""

    last: PositiveInt | None = None
    best: PositiveInt | None = None  # by the validation's metric, of those validated when saved; of equals the later

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.last is None) == (self.best is None):
            raise ValueError("must have one key: `last` or `best`, the number of checkpoints to average")
        return self


class Masking(Section):
    """Which tokens a masked language model is asked for, and what stands in their place      Devlin et al. 2019, 3.1"""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15  # of all tokens
    masked: Annotated[float, Field(ge=0, le=1)] = 0.8  # of those: replaced by `<mask>`
    random: Annotated[float, Field(ge=0, le=1)] = 0.1  # replaced by a random piece; the rest stays as it is
    whole_words: bool = False  # all pieces of a word or none

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.masked + self.random > 1:
            raise ValueError(f"`masked` ({self.masked:g}) and `random` ({self.random:g}) must be 1 or less together")
        return self


class Train(Section):
    """How the weights are found."""

    steps: PositiveInt = 100_000  # updates
    accumulate: PositiveInt = 1  # micro-batches in one update
    optimizer: AnyOptimizer = Field(default_factory=Adam)
    schedule: AnySchedule = Field(default_factory=Noam)
    label_smoothing: Share | None = None  # by default 0.1 of a translator, 0 of the others
    class_weights: Literal["balanced"] | dict[str, PositiveFloat] | None = None  # how much a class counts in the loss
    masking: Masking = Field(default_factory=Masking)  # of a masked language model
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0  # the rate of each layer, of that of the layer above it
    freeze: Literal["encoder"] | Annotated[int, Field(ge=0)] | None = (
        None  # 0: the embedding, 2: and the first 2 layers
    )
    scheduled_sampling: AnyDecay | None = None  # the chance that a recurrent decoder is given the true token
    clip_norm: PositiveFloat | None = None
    seed: int = 1
    device: Device = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: Literal["auto"] | bool = "auto"
    capture: Literal["auto"] | bool = "auto"  # whether a GPU's steps are recorded once and replayed
    deterministic: bool = False
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None  # of the CPU; by default what torch chooses
    log_every: PositiveInt = 50
    checkpoint_every: PositiveInt = 1000
    keep_checkpoints: PositiveInt = 1  # the last so many; those to average are kept beside them
    average: Average | None = None  # at the end: the mean of checkpoints is the model, if it is better than the best
    start_from: str = ""  # a model to go on from: its weights and its vocabulary
    validation: Validation = Field(default_factory=Validation)
