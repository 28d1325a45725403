"""The [model] table of a recipe that reads one sequence: classifiers and masked language models."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from heedful.config.models import (
    TRANSFORMER_PRESETS,
    MixedModel,
    RecurrentModel,
    TransformerModel,
    TransformerStack,
    filled,
)
from heedful.config.section import Section, Share

PoolName = Literal["first", "mean", "max", "last", "attention", "multi_dimensional"]

# --- encoders ---------------------------------------------------------------------------------------------------------


class TransformerEncoderTable(TransformerStack):
    """The encoder of a Transformer by itself; `preset` fills what the recipe leaves out."""

    family: Literal["transformer"] = "transformer"
    preset: Literal["small", "base", "big"] | None = None
    segments: Annotated[int, Field(ge=0)] = 0  # kinds of tokens with a vector each: 2 tells two texts apart

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        return filled(value, TRANSFORMER_PRESETS)


class RecurrentEncoderTable(Section):
    """A stack of recurrent layers by itself."""

    family: Literal["recurrent"] = "recurrent"
    cell: Literal["gru", "lstm", "tanh", "relu"] = "gru"
    width: PositiveInt = 256  # of states in one direction
    layers: PositiveInt = 1
    bidirectional: bool = True
    embedding: PositiveInt | None = None  # width of embeddings; by default that of states
    embeddings: PositiveInt = 1  # vectors of each token, mixed by learned weights (Kiela et al. 2018)
    dropout: Share = 0.2  # of embeddings, and between layers
    dropout_words: Share = 0.0  # of whole words (Iyyer et al. 2015)
    variational: bool = False  # the same masks at every step (Gal and Ghahramani 2016)

    @property
    def embedding_width(self) -> int:
        """Of the embedding."""
        return self.embedding or self.width

    @property
    def memory_width(self) -> int:
        """Of what the encoder puts out for a token."""
        return self.width * (2 if self.bidirectional else 1)

    @property
    def longest(self) -> tuple[int, str] | None:
        """Recurrence has no end."""
        return None


class HierarchicalEncoderTable(Section):
    """Words to sentences, sentences to a document      HAN, Yang et al. 2016"""

    family: Literal["hierarchical"]
    words: Annotated[RecurrentEncoderTable | TransformerEncoderTable, Field(discriminator="family")] = (
        RecurrentEncoderTable(width=50, embedding=200)
    )
    word_pool: PoolName = "attention"  # of a sentence's words
    sentences: RecurrentEncoderTable = RecurrentEncoderTable(width=50)  # over vectors of sentences
    max_sentence: PositiveInt = 100  # words of a sentence: what is longer goes on in a further one

    @property
    def embedding_width(self) -> int:
        """Of the embedding."""
        return self.words.embedding_width

    @property
    def memory_width(self) -> int:
        """Of what the encoder puts out for a sentence."""
        return self.sentences.memory_width

    @property
    def width(self) -> int:
        """Of the sentences' states."""
        return self.sentences.width

    @property
    def longest(self) -> tuple[int, str] | None:
        """The most tokens of a sentence, and the key that says so; None where there is no end."""
        end = self.words.longest
        return end and (end[0], f"words.{end[1]}")

    @model_validator(mode="after")
    def _sentences_are_vectors(self) -> Self:
        for key in ("embedding", "embeddings", "dropout_words"):
            if getattr(self.sentences, key) != RecurrentEncoderTable.model_fields[key].default:
                raise ValueError(
                    f"`sentences` reads vectors, not tokens, so `sentences.{key}` means nothing: leave it out"
                )
        end = self.words.longest
        if end is not None and self.max_sentence + 1 > end[0]:
            raise ValueError(
                f"`max_sentence` ({self.max_sentence}) and an end marker must fit into `words.{end[1]}`, "
                f"but that is {end[0]}"
            )
        return self


# --- masked language models -------------------------------------------------------------------------------------------

BERT_PRESETS: Final[dict[str, dict[str, Any]]] = {
    "tiny": {"width": 128, "heads": 2, "layers": 2, "inner": 512},  # these three: Turc et al. 2019
    "mini": {"width": 256, "heads": 4, "layers": 4, "inner": 1024},
    "small": {"width": 512, "heads": 8, "layers": 4, "inner": 2048},
    "base": {"width": 768, "heads": 12, "layers": 12, "inner": 3072},  # these two: Devlin et al. 2019
    "large": {"width": 1024, "heads": 16, "layers": 24, "inner": 4096},
}


class BertModel(TransformerStack):
    """BERT (Devlin et al. 2019): the paper's settings, and the base shape, where the recipe says nothing."""

    family: Literal["bert"]
    preset: Literal["tiny", "mini", "small", "base", "large"] | None = None
    width: PositiveInt = 768
    heads: PositiveInt = 12
    layers: PositiveInt = 12
    inner: PositiveInt = 3072
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "gelu"
    norm_epsilon: PositiveFloat = 1e-12
    positions: Literal["sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", "relative"] = "learned"
    max_positions: PositiveInt = 512
    embedding_scale: bool = False
    embedding_norm: bool = True
    dropout_attention: Share = 0.1
    segments: Annotated[int, Field(ge=0)] = 2  # kinds of tokens with a vector each: which of two texts they are of
    next_sentence: bool = True  # whether a head tells if the second text follows the first

    @property
    def task(self) -> Literal["fill"]:
        """What such a model does."""
        return "fill"

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        return filled(value, BERT_PRESETS)

    @model_validator(mode="after")
    def _two_texts_are_told_apart(self) -> Self:
        if self.next_sentence and self.segments < 2:
            raise ValueError(
                f"`segments` must be 2 where `next_sentence` is true, as two texts are told apart by it, "
                f"but is {self.segments}: set `next_sentence = false`, or leave `segments` out"
            )
        return self


# --- classifiers ------------------------------------------------------------------------------------------------------


class ClassifierModel(Section):
    """An encoder, a pool that makes one vector of what it puts out, and a linear map to classes."""

    family: Literal["classifier"]
    encoder: Annotated[
        TransformerEncoderTable | RecurrentEncoderTable | HierarchicalEncoderTable | BertModel,
        Field(discriminator="family"),
    ] = TransformerEncoderTable()
    pool: PoolName | None = (
        None  # by default that of the class token `<s>`, recurrent: "max", hierarchical: "attention"
    )
    pooler: bool = False  # tanh(W y + b) behind the pool, as BERT has it
    dropout: Share = 0.1  # before the linear map
    labels: Literal["one", "several"] = "one"  # of a text: classes that exclude each other, or any number of them

    @property
    def task(self) -> Literal["classify"]:
        """What such a model does."""
        return "classify"

    @property
    def width(self) -> int:
        """Of the encoder's states."""
        return self.encoder.width

    @property
    def longest(self) -> tuple[int, str] | None:
        """The most tokens of a text, markers included, and the key that says so; None where there is no end."""
        end = self.encoder.longest
        return end and (end[0], f"encoder.{end[1]}")

    @property
    def nested(self) -> bool:
        """Whether it reads words in sentences in documents."""
        return isinstance(self.encoder, HierarchicalEncoderTable)

    @property
    def pooled_by(self) -> PoolName:
        """The pool, by default the encoder's usual one."""
        usual: dict[str, PoolName] = {"recurrent": "max", "hierarchical": "attention"}
        return self.pool or usual.get(self.encoder.family, "first")


AnyModel = Annotated[
    TransformerModel | RecurrentModel | MixedModel | ClassifierModel | BertModel, Field(discriminator="family")
]
