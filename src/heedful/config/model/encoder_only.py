"""The [model] tables of models with an encoder alone: BERT, classifiers, taggers and readers."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from heedful.config.model.attention import AnyPool, PoolName
from heedful.config.model.encoders import (
    AnyLetters,
    BagEncoderTable,
    HierarchicalEncoderTable,
    OnEncoder,
    RecurrentEncoderTable,
    TransformerEncoderTable,
)
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.positions import PositionsName
from heedful.config.model.transformer import TransformerStack, filled
from heedful.config.section import Layers, Positions, Section, Share, Width

# --- the [model] table of a masked language model ---------------------------------------------------------------------


BERT_PRESETS: Final[dict[str, dict[str, Any]]] = {
    "tiny": {"width": 128, "heads": 2, "layers": 2, "inner": 512},  # these three: Turc et al. 2019
    "mini": {"width": 256, "heads": 4, "layers": 4, "inner": 1024},
    "small": {"width": 512, "heads": 8, "layers": 4, "inner": 2048},
    "base": {"width": 768, "heads": 12, "layers": 12, "inner": 3072},  # these two: Devlin et al. 2019
    "large": {"width": 1024, "heads": 16, "layers": 24, "inner": 4096},
}


class BertModel(TransformerStack):
    """BERT (Devlin et al. 2019); defaults are the paper's settings and its base shape."""

    norm_in_head: ClassVar[bool] = True
    family: Literal["bert"]
    preset: Literal["tiny", "mini", "small", "base", "large"] | None = None
    """Defaults of the keys that define the shape: `width`, `heads`, `layers` and `inner`."""
    width: Width = 768
    heads: Annotated[int, Field(ge=1, le=10_000)] = 12
    layers: Layers = 12
    inner: Width = 3072
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "gelu"
    norm_epsilon: PositiveFloat = 1e-12
    positions: PositionsName = "learned"
    max_positions: Positions = 512
    embedding_scale: bool = False
    embedding_norm: bool = True
    dropout_attention: Share = 0.1
    segments: Annotated[int, Field(ge=0, le=1_000)] = 2
    """Number of segment embeddings, which tell the texts of a pair apart."""
    next_sentence: bool = True
    """Whether a head is trained that predicts whether the second text follows the first."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        return filled(value, BERT_PRESETS)

    @model_validator(mode="after")
    def _two_texts_are_told_apart(self) -> Self:
        if self.next_sentence and self.segments < 2:
            raise ValueError(
                f"`segments` must be 2 where `next_sentence` is true, to tell two texts apart, "
                f"but is {self.segments}: set `next_sentence = false`, or leave `segments` out"
            )
        return self


# --- the [model] table of a classifier --------------------------------------------------------------------------------


class ClassifierModel(OnEncoder, Section):
    """An encoder, a pool that reduces its output to one vector, and a linear map to classes."""

    family: Literal["classifier"]
    encoder: Annotated[
        TransformerEncoderTable
        | RecurrentEncoderTable
        | HierarchicalEncoderTable
        | BagEncoderTable
        | BertModel
        | LanguageModelTable,
        Field(discriminator="family"),
    ] = TransformerEncoderTable()
    """Family and shape of the encoder; "language" is a language model, which reads a text from left to right."""
    pool: AnyPool | None = None
    """Function from states to one vector: a name, or a table of attention with a learned query.

    By default "first", the state of `<s>`; "max" for a recurrent encoder, "attention" for a hierarchical one, "mean"
    for a bag of n-grams, and "last" for a language model.
    """
    join: Literal["sequence", "parallel", "alternating"] = "sequence"
    """How the texts of a pair are joined.

    sequence: they are read as one sequence, `<s> text </s> second </s>`; parallel, alternating: each is read by itself,
    and co-attention pools both, at once or in turns (Lu et al. 2016).
    """
    pooler: bool = False
    """Whether tanh(W y + b) follows the pool, as in BERT."""
    dropout: Share = 0.1
    """Dropout before the linear map."""
    head_hidden: Width | None = None
    """Width of a hidden layer with a ReLU before the linear map, with dropout before and after it; by default none."""
    labels: Literal["one", "several"] = "one"
    """Whether a text has exactly one label, or any number of them."""

    @model_validator(mode="after")
    def _co_attention_pools(self) -> Self:
        if self.joins_after_reading and self.pool is not None:
            raise ValueError(f'`join = "{self.join}"` pools both texts by co-attention: leave `pool` out')
        return self

    @property
    def joins_after_reading(self) -> bool:
        """Whether the texts of a pair are read one by one, and joined by co-attention."""
        return self.join != "sequence"

    @property
    def nested(self) -> bool:
        """Whether the encoder reads documents as sentences of words."""
        return isinstance(self.encoder, HierarchicalEncoderTable)

    @property
    def reads_letters(self) -> bool:
        """Whether the encoder reads the letters of words."""
        return isinstance(self.encoder, HierarchicalEncoderTable) and self.encoder.letters is not None

    @property
    def pooled_by(self) -> AnyPool:
        """Name or table of the pool, by default the usual one of the encoder."""
        usual: dict[str, PoolName] = {
            "recurrent": "max",
            "hierarchical": "attention",
            "bag": "mean",
            "language": "last",
        }
        return self.pool or usual.get(self.encoder.family, "first")

    @model_validator(mode="after")
    def _first_state_knows_the_text(self) -> Self:
        if self.pool in ("first", "last") and isinstance(self.encoder, BagEncoderTable):
            raise ValueError(
                f'`pool` is "{self.pool}", but the state of a token in a bag knows its n-grams alone: leave it out, or '
                'use "mean", "max" or "attention"'
            )
        if self.pool == "first" and isinstance(self.encoder, LanguageModelTable):
            raise ValueError(
                '`pool` is "first", but the first state of a language model is the same for every text: leave it out, '
                'or use "last" or "mean"'
            )
        return self


# --- the [model] tables of models that score the tokens of a text: taggers and readers --------------------------------


class TaggerModel(OnEncoder, Section):
    """An encoder, and a linear map from its state at the first piece of each word to the word's label."""

    family: Literal["tagger"]
    encoder: Annotated[TransformerEncoderTable | RecurrentEncoderTable | BertModel, Field(discriminator="family")] = (
        TransformerEncoderTable()
    )
    """Family and shape of the encoder."""
    dropout: Share = 0.1
    """Dropout before the linear map."""
    head_hidden: Width | None = None
    """Width of a hidden layer with a ReLU before the linear map, with dropout before and after it; by default none."""
    letters: AnyLetters | None = None
    """Reader of the letters of words, whose vector is added to the embedding of a word's first piece."""
    crf: bool = False
    """Whether the labels of a sentence are chosen together, by a linear-chain CRF (Lample et al. 2016).

    With BIO or BIOES labels, it never chooses a forbidden sequence, such as `I-PER` after `O`.
    """


class ReaderModel(OnEncoder, Section):
    """An encoder, and two scores of every token: that the answer starts there, and that it ends there."""

    family: Literal["reader"]
    encoder: Annotated[TransformerEncoderTable | RecurrentEncoderTable | BertModel, Field(discriminator="family")] = (
        TransformerEncoderTable(segments=2)
    )
    """Family and shape of the encoder, which reads the question and the text together."""
    dropout: Share = 0.1
    """Dropout before the scores."""
    head_hidden: Width | None = None
    """Width of a hidden layer with a ReLU before the scores, with dropout before and after it; by default none."""
    no_answer: bool = False
    """Whether a question may have no answer, as in SQuAD 2.0; the model then predicts the marker `<s>`."""
    mark_matches: bool = False
    """Whether tokens of the text that also occur in the question have a segment of their own (Chen et al. 2017, 3.2).

    It needs `encoder.segments = 3`. With it, a small model without pre-training learns much faster.
    """
