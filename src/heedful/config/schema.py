"""The schema of a recipe. Every key a recipe may hold is declared here, with its default and its bounds.

Classes are chosen by `kind` (or `family`), one class a kind, so that a key that means nothing for a kind is an error.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

from heedful.config.models import AnyModel, RecurrentModel, TransformerModel
from heedful.config.section import Section, Share

# A description is what the loader says of a value that does not match: "... but must be <description>".
Lines = Annotated[str, Field(pattern=r"^(\d+-\d+)?$", description='a range of lines such as "1-2000"')]
Name = Annotated[str, Field(pattern=r"^(\w[\w. -]*)?$", description="letters, digits, `.`, `-`, `_` and spaces")]
Language = Annotated[str, Field(pattern=r"^(\w[\w-]*)?$", description='a language such as "de"')]
Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description='"auto", "cpu", "cuda" or "cuda:0"')]


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

    @model_validator(mode="after")
    def _one_matrix_needs_one_vocabulary(self) -> Self:
        from_start = bool(self.train.start_from) and "model" not in self.model_fields_set  # checked again with it
        if self.model.tie == "all" and not self.tokenizer.joint and not from_start:
            raise ValueError('`model.tie` must be "decoder" or "none" as `tokenizer.joint` is false, but is "all"')
        return self

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        end = self.model.longest
        if end is not None and self.data.max_length >= end[0]:
            raise ValueError(
                f"`data.max_length` ({self.data.max_length}) and an end marker must fit into `model.{end[1]}`, "
                f"but that is {end[0]}"
            )
        if isinstance(self.model, RecurrentModel):
            self.model.check_widths(self.model.memory_width)
        if self.train.scheduled_sampling is not None:
            self._needs_steps()
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

    def _needs_steps(self) -> None:
        """Scheduled sampling is of decoders that take one step after the other anyway."""
        _, decoder = self.model.sides
        if not isinstance(decoder, RecurrentModel):
            raise ValueError(
                "`train.scheduled_sampling` needs a recurrent decoder, as a Transformer's is given all tokens at once: "
                'leave it out, or use `model.family = "recurrent"`'
            )
        if decoder.variational:
            raise ValueError(
                "`train.scheduled_sampling` draws tokens step by step, for which `variational` dropout has no masks: "
                "set `variational = false`"
            )
