"""Tables of readers of letters, the level below the words of a tagger."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heedful.config.section import Section, Share, Width


class LettersTable(Section):
    """Keys of every reader of letters."""

    width: Width = 128
    """Width of the vector that a word gets from its letters."""
    embedding: Width = 32
    """Width of the embeddings of letters."""
    dropout: Share = 0.1
    """Dropout of the embeddings of letters."""


class ConvolutionalLettersTable(LettersTable):
    """A convolution over the letters of a word, and the maximum over its letters (Ma and Hovy 2016)."""

    family: Literal["convolutional"]
    kernel: Annotated[int, Field(ge=1, le=31)] = 3
    """Number of neighbouring letters that are read together; it must be odd."""

    @model_validator(mode="after")
    def _has_a_middle(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(f"`kernel` must be odd, so that a letter is in its middle, but is {self.kernel}")
        return self


class RecurrentLettersTable(LettersTable):
    """A recurrent layer over the letters of a word in both directions: its last states (Lample et al. 2016)."""

    family: Literal["recurrent"]
    cell: Literal["gru", "lstm", "tanh", "relu"] = "lstm"
    """Kind of recurrent cell."""

    @model_validator(mode="after")
    def _has_two_halves(self) -> Self:
        if self.width % 2:
            raise ValueError(f"`width` must be even, as each direction gives one half, but is {self.width}")
        return self


AnyLetters = Annotated[ConvolutionalLettersTable | RecurrentLettersTable, Field(discriminator="family")]
