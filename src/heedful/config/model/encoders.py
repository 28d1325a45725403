"""Tables of encoders for models that read one sequence, and of readers of letters.

The encoders are Transformer, recurrent, hierarchical, and bag of n-grams.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heedful.config.model.attention import AnyPool
from heedful.config.model.parts import Part
from heedful.config.model.transformer import TRANSFORMER_PRESETS, TransformerStack
from heedful.config.section import CellName, Layers, Positions, Section, Share, VocabularySize, Width

# --- readers of letters, the level below words ------------------------------------------------------------------------


class LettersTable(Section):
    """Keys of every reader of letters."""

    width: Width = 128
    """Width of a word's vector made from its letters."""
    embedding: Width = 32
    """Width of the embeddings of letters."""
    dropout: Share = 0.1
    """Dropout of the embeddings of letters."""


class ConvolutionalLettersTable(LettersTable):
    """A convolution over the letters of a word, and the maximum over its letters (Ma and Hovy 2016)."""

    family: Literal["convolutional"]
    kernel: Annotated[int, Field(ge=1, le=31)] = 3
    """Number of neighbouring letters that the convolution reads together; it must be odd."""

    @model_validator(mode="after")
    def _has_a_middle(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(f"`kernel` must be odd, so that it is centred on a letter, but is {self.kernel}")
        return self


class RecurrentLettersTable(LettersTable):
    """The last states of a recurrent layer that reads the letters of a word in both directions (Lample et al. 2016)."""

    family: Literal["recurrent"]
    cell: Literal["gru", "lstm", "tanh", "relu"] = "lstm"
    """Kind of recurrent cell."""

    @model_validator(mode="after")
    def _has_two_halves(self) -> Self:
        if self.width % 2:
            raise ValueError(f"`width` must be even, as each direction gives one half, but is {self.width}")
        return self


AnyLetters = Annotated[ConvolutionalLettersTable | RecurrentLettersTable, Field(discriminator="family")]


# --- encoders ---------------------------------------------------------------------------------------------------------


class TransformerEncoderTable(TransformerStack):
    """The encoder of a Transformer on its own; `preset` provides the keys that the recipe leaves out."""

    presets = TRANSFORMER_PRESETS
    family: Literal["transformer"] = "transformer"
    preset: Literal["small", "base", "big"] | None = Field(default=None, examples=["small"])
    """Defaults of the keys that define the shape, and of `dropout`."""
    segments: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Number of segment embeddings; 2 tells the texts of a pair apart."""


class RecurrentEncoderTable(Part):
    """A stack of recurrent layers on its own."""

    family: Literal["recurrent"] = "recurrent"
    cell: CellName = "gru"
    """Kind of recurrent cell.

    gru applies its reset gate after the product with the state, as cuDNN does; gru_paper before it, as Cho et al. 2014
    do, and slower.
    """
    width: Width = 256
    """Width of states in one direction."""
    layers: Layers = 1
    """Number of layers."""
    bidirectional: bool = True
    """Whether the text is read in both directions."""
    embedding: Width | None = Field(default=None, examples=[128])
    """Width of embeddings; by default that of states."""
    embeddings: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of embeddings per token, mixed by learned weights (Kiela et al. 2018)."""
    dropout: Share = 0.2
    """Dropout of embeddings and between layers."""
    dropout_words: Share = 0.0
    """Dropout of whole words (Iyyer et al. 2015)."""
    variational: bool = False
    """Whether dropout masks are the same at every step (Gal and Ghahramani 2016)."""

    @property
    def memory_width(self) -> int:
        """Width of the encoder's output for a token."""
        return self.width * (2 if self.bidirectional else 1)


class HierarchicalEncoderTable(Section):
    """An encoder of words into sentences, and one of sentences into a document      HAN, Yang et al. 2016"""

    family: Literal["hierarchical"]
    words: Annotated[
        RecurrentEncoderTable | TransformerEncoderTable,
        Field(discriminator="family", examples=[{"family": "recurrent", "width": 50, "embedding": 200}]),
    ] = RecurrentEncoderTable(width=50, embedding=200)
    """Encoder of the words of a sentence."""
    letters: AnyLetters | None = Field(default=None, examples=[{"family": "convolutional", "width": 64}])
    """Reader of the letters of each word, whose vector is added to the embedding of the word's first piece.

    By default letters are not read.
    """
    word_pool: AnyPool = "attention"
    """Pool of the words of a sentence: a name, or a table of attention with a learned query."""
    sentences: RecurrentEncoderTable = Field(default=RecurrentEncoderTable(width=50), examples=[{"width": 50}])
    """Encoder of the vectors of sentences."""
    max_sentence: Positions = 100
    """Maximum tokens of a sentence; longer sentences are split."""

    @property
    def embedding_width(self) -> int:
        """Width of the embedding."""
        return self.words.embedding_width

    @property
    def memory_width(self) -> int:
        """Width of the encoder's output for a sentence."""
        return self.sentences.memory_width

    @property
    def width(self) -> int:
        """Width of the states of sentences."""
        return self.sentences.width

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a sentence, and the key that sets it; None where there is no limit."""
        end = self.words.longest
        return end and (end[0], f"words.{end[1]}")

    @model_validator(mode="after")
    def _sentences_are_vectors(self) -> Self:
        for key in ("embedding", "embeddings", "dropout_words"):
            if getattr(self.sentences, key) != RecurrentEncoderTable.model_fields[key].default:
                raise ValueError(
                    f"`sentences` reads vectors, not tokens, so `sentences.{key}` does not apply: leave it out"
                )
        end = self.words.longest
        if end is not None and self.max_sentence + 1 > end[0]:
            raise ValueError(
                f"`max_sentence` ({self.max_sentence}) and an end marker must fit into `words.{end[1]}`, "
                f"but that is {end[0]}"
            )
        return self


class BagEncoderTable(Part):
    """A bag of n-grams: vectors of tokens and of n-grams of tokens, in any order      fastText, Joulin et al. 2017

    With the pool "mean" and the linear map above it, this is a linear classifier, which learns from little data.
    """

    family: Literal["bag"]
    width: Width = 64
    """Width of vectors."""
    ngrams: Annotated[int, Field(ge=1, le=10)] = 2
    """Maximum length of n-grams in tokens: words with the tokenizer "word", letters with "char", or pieces of words."""
    buckets: VocabularySize = 65536
    """Number of vectors of n-grams of two or more tokens, which share them by a hash."""
    weighting: Literal["equal", "rarity"] = "equal"
    """Weights of n-grams: all the same, or learned ones that begin with their rarity in the training texts (tf-idf).

    With "rarity" the vectors, too, begin with what the training texts say: the solution of logistic regression. This
    needs a `width` of at least the number of classes, and the pool "mean".
    """
    weights_per_bucket: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of weights for each of the `buckets`, with `weighting = "rarity"`.

    With more, fewer n-grams that no training text has are taken for one that shares their bucket.
    """
    dropout: Share = 0.0
    """Dropout of the values of vectors."""
    dropout_words: Share = 0.0
    """Dropout of whole tokens and whole n-grams, each by itself (Iyyer et al. 2015)."""
