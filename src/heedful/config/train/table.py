"""The keys of [train]: how long, by which optimizer and schedule, what is saved, validated and averaged."""

from math import ceil
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from heedful.config.section import Section, Share, as_tuple
from heedful.config.train.adapters import Lora
from heedful.config.train.optimizers import Adam, AnyOptimizer
from heedful.config.train.schedules import (
    AnyDecay,
    AnySchedule,
    AnyWarmup,
    Noam,
)

# The description completes the loader's message about a value that does not match: "... but must be <description>".
Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description='"auto", "cpu", "cuda" or "cuda:0"')]

InitializationName = Literal["xavier", "plain_xavier", "he", "orthogonal", "bert", "gpt2"]


class Validation(Section):
    """When and by which metric the model is evaluated on `data.valid`, and when training stops early."""

    every: PositiveInt = 1000
    """Number of updates between validations."""
    metric: str = Field(default="loss", examples=["perplexity"])
    """Metric that decides which model is the best, of equal ones the loss; each task has its own metrics."""
    patience: PositiveInt | None = Field(default=None, examples=[5])
    """Early stopping: the number of validations in a row without a better model after which training stops."""
    translate: bool = False
    """Whether the scores of `evaluate.metrics` are reported too when the metric is loss or perplexity."""
    max_sentences: PositiveInt | None = Field(default=None, examples=[500])
    """Maximum number of sentences to evaluate, at equal distances over the validation corpora; by default all."""


class Average(Section):
    """Which checkpoints are averaged at the end of training: the last n, or the best n."""

    last: PositiveInt | None = Field(default=None, examples=[5])
    """Number of last checkpoints to average."""
    best: PositiveInt | None = Field(default=None, examples=[5])
    """Number of best checkpoints by the validation metric.

    Only those that were validated when they were saved count; ties go to the later ones.
    """

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.last is None) == (self.best is None):
            raise ValueError("must have one key: `last` or `best`, the number of checkpoints to average")
        return self


class NotFinite(Section):
    """What a run does about losses and gradients that are not finite; updates with them are never applied."""

    in_a_row: PositiveInt = 5
    """Number of such updates in a row after which a run returns to its last checkpoint and leaves their batches out."""
    returns: NonNegativeInt = 3
    """Number of returns after which the run ends instead."""


class Masking(Section):
    """Which tokens a masked language model predicts, and what replaces them      Devlin et al. 2019, 3.1"""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Fraction of tokens to predict."""
    masked: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Fraction of the tokens to predict that is replaced by `<mask>`."""
    random: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Fraction of the tokens to predict that is replaced by random pieces; the rest is left unchanged."""
    whole_words: bool = False
    """Whether all pieces of a word are predicted or none."""

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.masked + self.random > 1:
            raise ValueError(f"`masked` ({self.masked:g}) and `random` ({self.random:g}) must sum to 1 or less")
        return self


class Augmentation(Section):
    """Random changes of the images of a batch in training; by default there are none."""

    shift: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Maximum number of pixels that an image is shifted by, in each direction."""
    rotation: Annotated[float, Field(ge=0, le=180)] = 0.0
    """Maximum angle that an image is rotated by, in degrees, in each direction."""
    crop: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Minimum fraction of the area that a random crop keeps; it is enlarged to the size of the image."""
    flip: bool = False
    """Whether half of the images are mirrored: left and right exchanged."""
    mixup: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Parameter a of Beta(a, a), the weights of two images that are mixed (Zhang et al. 2018); 0 mixes none."""


class Distillation(Section):
    """A trained model whose probabilities the model learns too      Hinton et al. 2015, Kim and Rush 2016

    loss = (1 - weight) * loss of the data + weight * temperature^2 * KL(teacher || model)
    """

    teacher: Annotated[str, Field(min_length=1, examples=["runs/big"])]
    """Folder of the teacher, a model for the same task; its vocabulary becomes that of the model."""
    weight: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Weight of the teacher's probabilities in the loss; the data has the rest."""
    temperature: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """What the scores of both models are divided by; above 1, unlikely tokens count more."""
    start: bool = False
    """Whether the model begins with the teacher's weights; of more layers, evenly spaced ones, the ends included.

    So DistilBERT begins (Sanh et al. 2019). Both must be of one shape, except for their number of layers.
    """


class Instruments(Section):
    """What a run measures of its layers, recorded in `instruments.jsonl`; training does not change."""

    every: PositiveInt = 100
    """Number of updates between measurements."""
    at: Annotated[tuple[Annotated[int, Field(ge=1, le=10**12)], ...], BeforeValidator(as_tuple)] = Field(
        default=(), examples=[[1, 2, 5, 10]]
    )
    """Further updates to measure, such as the first ones: [1, 2, 5, 10]."""
    histograms: bool = True
    """Whether histograms of the optimizer's steps are recorded, by the logarithm of each weight's change."""
    probe: bool = True
    """Whether a small batch shows the entropy of attention heads, and random inputs how far back recurrence learns."""


class Train(Section):
    """How a model is trained."""

    steps: PositiveInt = 100_000
    """Number of updates."""
    epochs: Annotated[float, Field(gt=0, le=1_000_000)] | None = Field(default=None, examples=[10])
    """Number of passes over the training data, instead of `steps`; by default `steps` sets the length of a run."""
    accumulate: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of micro-batches in one update (gradient accumulation)."""
    optimizer: AnyOptimizer = Field(default_factory=Adam, examples=[{"kind": "adamw", "weight_decay": 0.01}])
    """Kind of optimizer and its constants."""
    schedule: AnySchedule = Field(
        default_factory=Noam, examples=[{"kind": "inverse_sqrt", "lr": 0.0005, "warmup": 4000}]
    )
    """Learning rate as a function of the update."""
    warmup: AnyWarmup | None = Field(default=None, examples=[{"kind": "untuned_linear"}])
    """Factor of any schedule without a warm-up of its own, which rises to 1; by default there is none."""
    r_drop: Annotated[float, Field(gt=0, le=1000)] | None = Field(default=None, examples=[5.0])
    """Factor alpha of R-Drop (Liang et al. 2021): the divergence between two passes with different dropout.

    An update takes about twice as long; 5 for translators and 1 for classifiers there. By default there is one pass.
    """
    initialization: InitializationName | None = Field(default=None, examples=["gpt2"])
    """Distribution of the initial weights; by default that of the family.

    xavier: uniform (Glorot and Bengio 2010), smaller in projections of attention; plain_xavier: not smaller there;
    he: uniform, for ReLUs (He et al. 2015); orthogonal (Saxe et al. 2014); bert: N(0, 0.02²), truncated; gpt2:
    N(0, 0.02²), smaller where residual sums are written.
    """
    distill: Distillation | None = Field(default=None, examples=[{"teacher": "runs/big", "weight": 0.5}])
    """Teacher whose probabilities the model learns besides the data; by default there is none."""
    bpe_dropout: Share = 0.0
    """Probability that a merge of the BPE vocabulary is left out (Provilkov et al. 2020), drawn anew in every epoch.

    0.1 there. Only training texts are cut that way; validation and use are not.
    """
    label_smoothing: Share | None = Field(default=None, examples=[0.1])
    """Probability that is spread over all classes; by default 0.1 for a translator, 0 for other models."""
    class_weights: Literal["balanced"] | dict[str, PositiveFloat] | None = Field(default=None, examples=["balanced"])
    """Weight of each class in the loss; "balanced" is inverse to its frequency. By default all weigh the same."""
    auxiliary: NonNegativeFloat = Field(default=0.0, examples=[0.5])
    """Factor of the language-model loss that a classifier with a language model as its encoder minimises as well.

    0.5 in Radford et al. 2018, 3.2.
    """
    masking: Masking = Field(default_factory=Masking, examples=[{"share": 0.15}])
    """Tokens that a masked language model predicts."""
    augmentation: Augmentation = Field(default_factory=Augmentation, examples=[{"shift": 2, "rotation": 10.0}])
    """Random changes of training images."""
    layer_decay: Annotated[float, Field(gt=0, le=1, examples=[0.95])] = 1.0
    """Learning rate of a layer relative to the layer above it."""
    freeze: Literal["encoder"] | Annotated[int, Field(ge=0)] | None = Field(default=None, examples=["encoder"])
    """Weights that stay as in `start_from`: the whole encoder, or its embedding and n layers; by default none."""
    scheduled_sampling: AnyDecay | None = Field(default=None, examples=[{"kind": "inverse_sigmoid", "span": 3000.0}])
    """Probability that a recurrent decoder is fed the true token, as it decays with the update; by default always."""
    clip_norm: PositiveFloat | None = Field(default=None, examples=[1.0])
    """Maximum norm of the gradient; by default it is not clipped."""
    not_finite: NotFinite = Field(default_factory=NotFinite, examples=[{"in_a_row": 10, "returns": 1}])
    """What to do if several updates in a row have a loss or a gradient that is not finite."""
    seed: int = 1
    """Seed of all random choices."""
    device: Device = "auto"
    """Device to train on; "auto" is a GPU where there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of activations; "auto" is bfloat16 on a GPU that supports it, the faster of the two on a CPU."""
    compile: Literal["auto"] | bool = "auto"
    """Whether updates are compiled by torch.compile."""
    capture: Literal["auto"] | bool = "auto"
    """Whether a GPU's updates are captured once as a graph and replayed."""
    deterministic: bool = False
    """Whether only deterministic kernels are used."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(default=None, examples=[4])
    """Number of CPU threads; by default torch's choice."""
    log_every: PositiveInt = 50
    """Number of updates between logged metrics."""
    checkpoint_every: PositiveInt = 1000
    """Number of updates between checkpoints."""
    keep_checkpoints: PositiveInt = 2
    """Number of last checkpoints to keep, besides those to average.

    If the last one is damaged, a run resumes from the one before; with 1 there is none.
    """
    report: bool = True
    """Whether the run writes its curves to report.html in its folder, after validations and at its end."""
    average: Average | None = Field(default=None, examples=[{"last": 5}])
    """Checkpoints whose mean becomes the model if it is better than the best single one; by default none."""
    moving_average: Annotated[float, Field(gt=0, lt=1)] | None = Field(default=None, examples=[0.999])
    """Decay of a moving average of the weights, which is validated and saved instead of them; by default none.

    0.999 averages over some thousand updates (Polyak and Juditsky 1992).
    """
    instruments: Instruments | None = Field(default=None, examples=[{"every": 100, "at": [1, 10]}])
    """Measurements of every layer at chosen updates, recorded in the run; by default there are none."""
    start_from: str = Field(default="", examples=["runs/general"])
    """Folder of a trained model to start from: its weights and its vocabulary; empty starts from random weights."""
    adapter: Lora | None = Field(default=None, examples=[{"kind": "lora", "rank": 8}])
    """Small matrices that are trained and saved instead of the weights of `start_from`, which stay as they are.

    By default all weights of the start are trained.
    """
    validation: Validation = Field(
        default_factory=Validation, examples=[{"every": 1000, "metric": "bleu", "patience": 5}]
    )
    """Evaluation during training."""

    @model_validator(mode="after")
    def _a_run_has_one_length(self) -> Self:
        if self.epochs is not None and "steps" in self.model_fields_set:
            raise ValueError("`steps` and `epochs` are both set, but a run has one length: leave one of them out")
        return self

    @model_serializer(mode="wrap")
    def _with_one_length(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the default of `steps` where `epochs` is set: a table with both is refused when it is read."""
        values: dict[str, Any] = serialize(self)
        return values if self.epochs is None else {key: value for key, value in values.items() if key != "steps"}

    def in_steps(self, updates_per_epoch: int) -> "Train":
        """Return the table with `steps` instead of `epochs`, where it has that."""
        if self.epochs is None:
            return self
        steps = max(1, ceil(self.epochs * updates_per_epoch - 1e-9))  # 0.1 * 30 is a little more than 3
        return self.model_copy(update={"steps": steps, "epochs": None})
