"""Tables of readers of letters, the level below words."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heedful.config.section import Section, Share, Width


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
