"""The [tokenizer] table of a recipe: one class per kind."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from heedful.config.section import Section


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
