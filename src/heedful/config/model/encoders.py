"""Encoders of models that read one sequence: Transformer, recurrent, hierarchical."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from heedful.config.model.transformer import TRANSFORMER_PRESETS, TransformerStack, filled
from heedful.config.section import Section, Share

PoolName = Literal["first", "mean", "max", "last", "attention", "multi_dimensional"]


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
