"""The schema of a recipe. Every key a recipe may hold is declared here, with its default and its bounds.

Classes are chosen by `kind` (or `family`), one class a kind, so that a key that means nothing for a kind is an error.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from heedful.config.checks import check_recipe
from heedful.config.corpora import Corpora, Language
from heedful.config.encoders import AnyModel
from heedful.config.models import MixedModel, PairModel, RecurrentModel, TransformerModel
from heedful.config.section import Section, Share
from heedful.config.tasks import Metric, Task

# A description is what the loader says of a value that does not match: "... but must be <description>".
Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description='"auto", "cpu", "cuda" or "cuda:0"')]


# --- data ---------------------------------------------------------------------------------------------------------


class Tokenized(Section):
    """The text is tokenized already, by Moses' rules for these languages; a corpus's `to` says more of its target."""

    source: Annotated[Language, Field(min_length=1)]
    target: Annotated[Language, Field(min_length=1)]


class Data(Section):
    """Where the sentences are, which of them are used, and how many tokens make a batch."""

    folder: str = ""  # put before every relative file name
    train: Annotated[Corpora, Field(min_length=1)]
    valid: Corpora = ()
    test: Corpora = ()
    batch_tokens: PositiveInt = 4096  # source tokens, and separately target tokens, of one micro-batch
    # Training pairs with a side longer than this many tokens are dropped, and counted; longer texts are cut to so many,
    # markers included, or split where a masked language model reads them.
    max_length: PositiveInt = 256
    cut: Literal["end", "begin", "middle"] = "end"  # where a text to classify that is too long loses tokens
    max_ratio: Annotated[float, Field(ge=1)] | None = None  # longer side over shorter side, in tokens
    temperature: Annotated[float, Field(ge=1)] = 1.0  # above 1, small corpora are shown more often: n^(1/temperature)
    nfc: bool = False  # normalise to Unicode's composed form
    lowercase: bool = False
    tokenized: Tokenized | None = None

    @property
    def paired(self) -> bool:
        """Whether a classifier reads pairs of texts."""
        return any(getattr(corpus, "second", None) is not None for corpus in self.train)


# --- tokenizer ----------------------------------------------------------------------------------------------------


class TokenizerSection(Section):
    """What every tokenizer may say."""

    joint: bool = True  # one vocabulary for both sides
    sample: PositiveInt = 1_000_000  # texts that it is trained on, at most: evenly from all training corpora


class ByteBpe(TokenizerSection):
    """Byte-level byte-pair encoding: any text comes back exactly."""

    kind: Literal["byte_bpe"] = "byte_bpe"
    size: Annotated[int, Field(ge=260)] = 8000


class Bpe(TokenizerSection):
    """Byte-pair encoding of characters inside words split at spaces (Sennrich et al. 2016), for tokenized text."""

    kind: Literal["bpe"]
    size: PositiveInt = 10000


class WordPiece(TokenizerSection):
    """WordPiece (Schuster and Nakajima 2012), as BERT uses it."""

    kind: Literal["wordpiece"]
    size: PositiveInt = 32000


class Unigram(TokenizerSection):
    """The unigram language model's pieces (Kudo 2018)."""

    kind: Literal["unigram"]
    size: PositiveInt = 8000


class Words(TokenizerSection):
    """Whole words, split at spaces."""

    kind: Literal["word"]
    size: PositiveInt = 50000
    min_count: PositiveInt = 1


class Characters(TokenizerSection):
    """Single characters."""

    kind: Literal["char"]
    size: PositiveInt = 5000


AnyTokenizer = Annotated[
    ByteBpe | Bpe | WordPiece | Unigram | Words | Characters,
    Field(discriminator="kind"),
]


# --- training -----------------------------------------------------------------------------------------------------


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
    metric: Metric = "loss"  # which model is the best one
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


# --- decoding and evaluation --------------------------------------------------------------------------------------


class Decode(Section):
    """How translations are searched; the command line can say otherwise."""

    beam: PositiveInt = 4
    length_penalty: NonNegativeFloat = 0.6  # alpha
    length_penalty_kind: Literal["wu", "shifted"] = "wu"  # ((5 + n) / 6)^alpha, or ((1 + n) / (1 + shift))^alpha
    length_shift: NonNegativeFloat = 0.0  # of the shifted kind
    coverage: NonNegativeFloat = 0.0  # beta of the coverage penalty, Wu et al. 2016; 0 is none
    no_repeat: Annotated[int, Field(ge=0)] = 0  # no so many pieces in a row twice in a translation; 0 allows all
    min_length: Annotated[int, Field(ge=0)] = 0  # the fewest pieces
    max_extra: PositiveInt = 50  # at most this many tokens more than the source has
    batch_tokens: PositiveInt = 4096


class Evaluate(Section):
    """How scores are computed."""

    bleu_tokenize: Literal["13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"] = "13a"
    detokenize: bool = False  # score ordinary text where `data.tokenized`, as others' systems are scored


class Recipe(Section):
    """One model, from its data to its scores."""

    data: Data
    tokenizer: AnyTokenizer = Field(default_factory=ByteBpe)
    model: AnyModel = Field(default_factory=TransformerModel)
    train: Train = Field(default_factory=Train)
    decode: Decode = Field(default_factory=Decode)
    evaluate: Evaluate = Field(default_factory=Evaluate)

    @property
    def task(self) -> Task:
        """What the model is trained for: it follows from its family."""
        return self.model.task

    @property
    def pair_model(self) -> PairModel:
        """The model table of a translator."""
        assert isinstance(self.model, TransformerModel | RecurrentModel | MixedModel), f"a model that {self.task}s"
        return self.model

    @property
    def label_smoothing(self) -> float:
        """What the recipe says, or what is usual for its task."""
        said = self.train.label_smoothing
        return said if said is not None else 0.1 if self.task == "translate" else 0.0

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        check_recipe(self)
        return self
