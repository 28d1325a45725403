"""The schema of a recipe. Every key a recipe may hold is declared here, with its default and its bounds.

Classes are chosen by `kind` (or `family`), one class a kind, so that a key that means nothing for a kind is an error.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

Share = Annotated[float, Field(ge=0, lt=1)]
# A description is what the loader says of a value that does not match: "... but must be <description>".
Lines = Annotated[str, Field(pattern=r"^(\d+-\d+)?$", description='a range of lines such as "1-2000"')]
Name = Annotated[str, Field(pattern=r"^(\w[\w. -]*)?$", description="letters, digits, `.`, `-`, `_` and spaces")]
Language = Annotated[str, Field(pattern=r"^(\w[\w-]*)?$", description='a language such as "de"')]
Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description='"auto", "cpu", "cuda" or "cuda:0"')]


class Section(BaseModel):
    """A table of a recipe: unknown keys are errors, `true` is no number and "6" neither, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False)


# --- data ---------------------------------------------------------------------------------------------------------


class Corpus(Section):
    """What every corpus may say."""

    name: Name = ""
    weight: PositiveFloat = 1.0  # how often an epoch shows each sentence, on average
    lines: Lines = ""  # "1-2000": only these, counted from 1, both included
    to: Language = ""  # "de" puts the tag <2de> before every source: one model for several target languages


class TextCorpus(Corpus):
    """Two files aligned by line: plain, .gz, .xz, or a member of a .zip ("corpus.zip:train.en")."""

    source: str
    target: str


class TsvCorpus(Corpus):
    """Tab-separated columns of one file, counted from 1."""

    tsv: str
    source: PositiveInt = 1
    target: PositiveInt = 2


class JsonlCorpus(Corpus):
    """Fields of one JSON object a line."""

    jsonl: str
    source: str = "source"
    target: str = "target"


class BuiltinCorpus(Corpus):
    """Sentences from a generator that ships with Heedful."""

    builtin: Literal["english-spanish"]
    part: Literal["train", "valid", "test"] = "train"
    count: PositiveInt = 1000


def _corpus_form(value: Any) -> str:
    for form in ("tsv", "jsonl", "builtin"):
        if (isinstance(value, dict) and form in value) or hasattr(value, form):
            return form
    return "text"


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


AnyCorpus = Annotated[
    Annotated[TextCorpus, Tag("text")]
    | Annotated[TsvCorpus, Tag("tsv")]
    | Annotated[JsonlCorpus, Tag("jsonl")]
    | Annotated[BuiltinCorpus, Tag("builtin")],
    Discriminator(_corpus_form),
]
Corpora = Annotated[tuple[AnyCorpus, ...], BeforeValidator(_as_tuple)]  # one table, or a list of them


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
    max_length: PositiveInt = 256  # training pairs with a side longer than this many tokens are dropped, and counted
    max_ratio: Annotated[float, Field(ge=1)] | None = None  # longer side over shorter side, in tokens
    temperature: Annotated[float, Field(ge=1)] = 1.0  # above 1, small corpora are shown more often: n^(1/temperature)
    nfc: bool = False  # normalise to Unicode's composed form
    lowercase: bool = False
    tokenized: Tokenized | None = None


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


# --- model --------------------------------------------------------------------------------------------------------

TRANSFORMER_PRESETS: dict[str, dict[str, Any]] = {
    "small": {"width": 256, "heads": 4, "layers": 3, "inner": 1024, "dropout": 0.1},
    "base": {"width": 512, "heads": 8, "layers": 6, "inner": 2048, "dropout": 0.1},
    "big": {"width": 1024, "heads": 16, "layers": 6, "inner": 4096, "dropout": 0.3},
}


class TransformerModel(Section):
    """The Transformer (Vaswani et al. 2017); `preset` fills what the recipe leaves out."""

    family: Literal["transformer"] = "transformer"
    preset: Literal["small", "base", "big"] | None = None
    width: PositiveInt = 512
    heads: PositiveInt = 8
    layers: PositiveInt = 6  # of the encoder, and of the decoder
    decoder_layers: PositiveInt | None = None  # when the decoder is shallower or deeper
    inner: PositiveInt = 2048
    activation: Literal["relu", "gelu", "swiglu"] = "relu"
    norm: Literal["post", "pre"] = "post"
    final_norm: bool | None = None  # a norm after the last block; by default with pre-norm alone
    # Added to embeddings (the first three), or known to self-attention: Su 2021, Press 2022, Shaw et al. 2018.
    positions: Literal["sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", "relative"] = "sinusoidal"
    max_positions: PositiveInt = 1024  # of learned positions; the others have no end
    max_distance: PositiveInt = 16  # of relative positions: what is farther apart counts as so far apart
    tie: Literal["all", "decoder", "none"] = "all"  # three-way, target embedding with output, or no shared matrix
    dropout: Share = 0.1  # on every sublayer's output
    dropout_embedding: Share | None = None  # by default the same
    dropout_attention: Share = 0.0
    dropout_inner: Share = 0.0

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        preset = value.get("preset") if isinstance(value, dict) else None
        return TRANSFORMER_PRESETS[preset] | value if preset in tuple(TRANSFORMER_PRESETS) else value

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"`width` must be a multiple of `heads` ({self.heads}), but is {self.width}")
        if self.width % 2 and self.positions in ("sinusoidal", "sinusoidal_halves"):
            raise ValueError(f"`width` must be even for sinusoidal positions, but is {self.width}")
        if self.width // self.heads % 2 and self.positions == "rope":
            raise ValueError(
                f'`width` must be an even multiple of `heads` ({self.heads}) for `positions = "rope"`, '
                f"but is {self.width}"
            )
        return self


AnyModel = TransformerModel


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

Metric = Literal["loss", "perplexity", "bleu", "chrf"]


class Validation(Section):
    """When the model is judged on `data.valid`, by what, and when training gives up."""

    every: PositiveInt = 1000  # updates
    metric: Metric = "loss"  # which model is the best one
    patience: PositiveInt | None = None  # stop after this many validations without a better one
    translate: bool = False  # also translate and report BLEU and chrF when the metric is loss or perplexity
    max_sentences: PositiveInt | None = None  # judge the first so many pairs only


class Average(Section):
    """Which checkpoints are averaged, weight by weight, at the end of training: the last so many, or the best."""

    last: PositiveInt | None = None
    best: PositiveInt | None = None  # by the validation's metric, of those validated when saved; of equals the later

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.last is None) == (self.best is None):
            raise ValueError("must have one key: `last` or `best`, the number of checkpoints to average")
        return self


class Train(Section):
    """How the weights are found."""

    steps: PositiveInt = 100_000  # updates
    accumulate: PositiveInt = 1  # micro-batches in one update
    optimizer: AnyOptimizer = Field(default_factory=Adam)
    schedule: AnySchedule = Field(default_factory=Noam)
    label_smoothing: Share = 0.1
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

    @model_validator(mode="after")
    def _one_matrix_needs_one_vocabulary(self) -> Self:
        from_start = bool(self.train.start_from) and "model" not in self.model_fields_set  # checked again with it
        if self.model.tie == "all" and not self.tokenizer.joint and not from_start:
            raise ValueError('`model.tie` must be "decoder" or "none" as `tokenizer.joint` is false, but is "all"')
        return self

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        if self.model.positions == "learned" and self.data.max_length >= self.model.max_positions:
            raise ValueError(
                f"`data.max_length` ({self.data.max_length}) and an end marker must fit into `model.max_positions`, "
                f"but that is {self.model.max_positions}"
            )
        splits = {split: getattr(self.data, split) for split in ("train", "valid", "test")}
        tagged = {f"data.{split}": [bool(corpus.to) for corpus in corpora] for split, corpora in splits.items()}
        lacking = [split for split, has in tagged.items() if not all(has)]
        if lacking and any(any(has) for has in tagged.values()):
            raise ValueError(f"`to` must stand in all corpora or in none, but one of `{lacking[0]}` lacks it")
        for split, corpora in splits.items():
            names = [corpus.name or str(number) for number, corpus in enumerate(corpora, start=1)]
            twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
            if twice:
                raise ValueError(f"`data.{split}` has two corpora named `{twice}`: give each its own `name`")
        if self.evaluate.detokenize and self.data.tokenized is None:
            raise ValueError("`evaluate.detokenize` needs `data.tokenized`, which names the languages")
        if self.train.average and self.train.average.best and not self.data.valid:
            raise ValueError("`train.average.best` needs `data.valid`, by which they are the best")
        if self.train.validation.metric != "loss" and not self.data.valid:
            raise ValueError(f'`train.validation.metric` is "{self.train.validation.metric}", which needs `data.valid`')
        return self
