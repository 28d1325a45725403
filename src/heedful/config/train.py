"""The [train] table of a recipe: optimizers, schedules, validation, averaging, masking."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from heedful.config.section import Section, Share

# The description completes the loader's message about a value that does not match: "... but must be <description>".
Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description='"auto", "cpu", "cuda" or "cuda:0"')]


class Adam(Section):
    """Adam (Kingma and Ba 2015), with the constants of Vaswani et al. 2017."""

    kind: Literal["adam"] = "adam"
    beta1: Share = 0.9  # decay rate of the mean of gradients
    beta2: Share = 0.98  # decay rate of the mean of squared gradients
    epsilon: PositiveFloat = 1e-9  # added to the denominator


class AdamW(Section):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); biases and norms do not decay."""

    kind: Literal["adamw"]
    beta1: Share = 0.9  # decay rate of the mean of gradients
    beta2: Share = 0.98  # decay rate of the mean of squared gradients
    epsilon: PositiveFloat = 1e-9  # added to the denominator
    weight_decay: NonNegativeFloat = 0.01  # coefficient of the weight decay, multiplied by the learning rate


AnyOptimizer = Annotated[Adam | AdamW, Field(discriminator="kind")]


class Noam(Section):
    """factor * width^-0.5 * min(step^-0.5, step * warmup^-1.5)      Vaswani et al. 2017, 5.3"""

    kind: Literal["noam"] = "noam"
    factor: PositiveFloat = 1.0  # factor of the learning rate
    warmup: PositiveInt = 4000  # number of warm-up updates


class InverseSqrt(Section):
    """lr * min(step / warmup, (warmup / step)^0.5)"""

    kind: Literal["inverse_sqrt"]
    lr: PositiveFloat  # maximum learning rate, reached at the end of the warm-up
    warmup: PositiveInt = 4000  # number of warm-up updates


class Linear(Section):
    """Rises linearly to lr over the warm-up, then falls linearly to `floor * lr` at the last step."""

    kind: Literal["linear"]
    lr: PositiveFloat  # maximum learning rate, reached at the end of the warm-up
    warmup: Annotated[int, Field(ge=0)] = 0  # number of warm-up updates
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0  # final learning rate as a fraction of lr


class Cosine(Section):
    """Rises linearly to lr over the warm-up, then falls by half a cosine to `floor * lr` at the last step."""

    kind: Literal["cosine"]
    lr: PositiveFloat  # maximum learning rate, reached at the end of the warm-up
    warmup: Annotated[int, Field(ge=0)] = 0  # number of warm-up updates
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0  # final learning rate as a fraction of lr


class Constant(Section):
    """Rises linearly to lr over the warm-up, then stays there."""

    kind: Literal["constant"]
    lr: PositiveFloat  # learning rate after the warm-up
    warmup: Annotated[int, Field(ge=0)] = 0  # number of warm-up updates


AnySchedule = Annotated[Noam | InverseSqrt | Linear | Cosine | Constant, Field(discriminator="kind")]


class LinearDecay(Section):
    """offset - slope * step, at most 1 and at least `floor`      Bengio et al. 2015, 2.4, as those below"""

    kind: Literal["linear"]
    slope: PositiveFloat  # decrease per update
    offset: PositiveFloat = 1.0  # value at step 0
    floor: Share = 0.0  # minimum value


class ExponentialDecay(Section):
    """base^step"""

    kind: Literal["exponential"]
    base: Annotated[float, Field(gt=0, lt=1)]  # factor per update


class InverseSigmoidDecay(Section):
    """span / (span + exp(step / span))"""

    kind: Literal["inverse_sigmoid"]
    span: Annotated[float, Field(ge=1)]  # time constant in updates


AnyDecay = Annotated[LinearDecay | ExponentialDecay | InverseSigmoidDecay, Field(discriminator="kind")]


class Validation(Section):
    """When and by which metric the model is evaluated on `data.valid`, and when training stops early."""

    every: PositiveInt = 1000  # number of updates between validations
    metric: str = "loss"  # metric that decides which model is the best; each task has its own metrics
    patience: PositiveInt | None = None  # number of validations without a better model after which training stops
    translate: bool = False  # also translate and report BLEU and chrF when the metric is loss or perplexity
    max_sentences: PositiveInt | None = None  # maximum number to evaluate: the first pairs, or texts at equal distances


class Average(Section):
    """Which checkpoints are averaged at the end of training: the last n, or the best n."""

    last: PositiveInt | None = None  # number of last checkpoints
    # Number of best checkpoints by the validation metric, among those validated when saved; ties go to the later ones.
    best: PositiveInt | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.last is None) == (self.best is None):
            raise ValueError("must have one key: `last` or `best`, the number of checkpoints to average")
        return self


class Masking(Section):
    """Which tokens a masked language model predicts, and what replaces them      Devlin et al. 2019, 3.1"""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15  # fraction of tokens to predict
    masked: Annotated[float, Field(ge=0, le=1)] = 0.8  # fraction of those that is replaced by `<mask>`
    random: Annotated[float, Field(ge=0, le=1)] = 0.1  # fraction replaced by random pieces; the rest is left unchanged
    whole_words: bool = False  # predict all pieces of a word or none

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.masked + self.random > 1:
            raise ValueError(f"`masked` ({self.masked:g}) and `random` ({self.random:g}) must sum to 1 or less")
        return self


class Train(Section):
    """How a model is trained."""

    steps: PositiveInt = 100_000  # number of updates
    accumulate: PositiveInt = 1  # number of micro-batches in one update
    optimizer: AnyOptimizer = Field(default_factory=Adam)  # kind of optimizer and its constants
    schedule: AnySchedule = Field(default_factory=Noam)  # learning rate as a function of the update
    label_smoothing: Share | None = None  # by default 0.1 for a translator, 0 for other models
    class_weights: Literal["balanced"] | dict[str, PositiveFloat] | None = None  # weight of each class in the loss
    masking: Masking = Field(default_factory=Masking)  # tokens that a masked language model predicts
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0  # learning rate of a layer relative to the layer above it
    # Weights that stay as in `start_from`: the whole encoder, or its embedding and the first n layers.
    freeze: Literal["encoder"] | Annotated[int, Field(ge=0)] | None = None
    scheduled_sampling: AnyDecay | None = None  # probability that a recurrent decoder is fed the true token
    clip_norm: PositiveFloat | None = None  # maximum norm of the gradient; by default it is not clipped
    seed: int = 1  # seed of all random choices
    device: Device = "auto"  # by default a GPU where there is one
    # Type of activations; by default bfloat16 on a GPU that supports it, the faster one of the two on a CPU.
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: Literal["auto"] | bool = "auto"  # whether updates are compiled by torch.compile
    capture: Literal["auto"] | bool = "auto"  # whether a GPU's updates are captured once as a graph and replayed
    deterministic: bool = False  # use deterministic kernels only
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None  # number of CPU threads; by default torch's choice
    log_every: PositiveInt = 50  # number of updates between logged metrics
    checkpoint_every: PositiveInt = 1000  # number of updates between checkpoints
    keep_checkpoints: PositiveInt = 1  # number of last checkpoints to keep, besides those to average
    average: Average | None = None  # checkpoints whose mean becomes the model if it is better than the best single one
    start_from: str = ""  # folder of a trained model to start from: its weights and its vocabulary
    validation: Validation = Field(default_factory=Validation)  # evaluation during training
