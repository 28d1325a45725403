"""The [model] table of a recurrent encoder and decoder."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from heedful.config.model.attention import (
    EQUAL_WIDTHS,
    FIXED_LENGTH,
    NEEDS_DISTANCE,
    SEVERAL_PLACES,
    AlignmentName,
    Attending,
    Tie,
)
from heedful.config.model.parts import Part
from heedful.config.section import CellName, Layers, Positions, Share, Width


class RecurrentModel(Part, Attending):
    """A recurrent encoder and decoder, connected as in one of four papers, or as in a book.

    sutskever   the encoder's last state initialises the decoder                         Sutskever et al. 2014
    vector      it is an input of every step, and the decoder starts from zeros          Goodfellow et al. 2016
    cho         it is an input of every step and of the output layer                     Cho et al. 2014
    bahdanau    every step attends with the previous state; deep output with maxout      Bahdanau et al. 2015
    luong       every step attends with its own state, and feeds the result to the next  Luong et al. 2015
    """

    rewards: ClassVar[bool] = True
    family: Literal["recurrent"]
    wiring: Literal["sutskever", "vector", "cho", "bahdanau", "luong"] = "bahdanau"
    """Connection of encoder and decoder, by the paper that it is from; "vector" repeats one vector into every step."""
    cell: CellName = "gru"
    """Kind of recurrent cell.

    gru applies its reset gate after the product with the state, as cuDNN does; gru_paper before it, as Cho et al. 2014
    do, and slower.
    """
    width: Width = 512
    """Width of the decoder's states."""
    encoder_width: Width | None = Field(default=None, examples=[256])
    """Width of the encoder's states in one direction; by default `width`."""
    embedding: Width | None = Field(default=None, examples=[256])
    """Width of embeddings; by default that of states."""
    layers: Layers = 1
    """Number of layers of the encoder, and by default of the decoder."""
    decoder_layers: Layers | None = Field(default=None, examples=[2])
    """Number of layers of the decoder; by default `layers`."""
    bidirectional: bool = True
    """Whether the encoder reads the source in both directions."""
    reverse_source: bool = False
    """Whether the source is read from its end (Sutskever et al. 2014)."""
    alignment: AlignmentName | None = Field(default=None, examples=["general"])
    """Score of a state and a source position; by default the paper's: "additive" for bahdanau, "general" for luong."""
    window: Literal["global", "monotone", "predicted"] = "global"
    """Source positions that a step attends to: all, local-m or local-p (Luong et al. 2015)."""
    half_width: Positions = 10
    """Number of positions on each side of the centre of a local window."""
    input_feeding: bool = True
    """Whether the wiring "luong" feeds the attention's result to the next step."""
    embeddings: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of embeddings per token, mixed by learned weights (Kiela et al. 2018)."""
    tie: Tie = "none"
    """Shared matrices: both embeddings and the output layer, the target embedding and it, or none."""
    dropout: Share = 0.2
    """Dropout of embeddings, between layers, and before the output layer."""
    dropout_words: Share = 0.0
    """Dropout of whole words of the encoder's input (Iyyer et al. 2015)."""
    variational: bool = False
    """Whether dropout masks are the same at every step, recurrent ones too (Gal and Ghahramani 2016)."""

    @property
    def sides(self) -> tuple["RecurrentModel", "RecurrentModel"]:
        """The tables of the encoder and the decoder."""
        return self, self

    @property
    def attends(self) -> bool:
        """Whether the decoder has attention."""
        return self.wiring in ("bahdanau", "luong")

    @property
    def memory_width(self) -> int:
        """Width of the encoder's output for a token."""
        return (self.encoder_width or self.width) * (2 if self.bidirectional else 1)

    @property
    def aligned_by(self) -> AlignmentName:
        """Name of the alignment, by default that of the paper."""
        return self.alignment or ("additive" if self.wiring == "bahdanau" else "general")

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a sentence, `</s>` included, and the key that sets it; None where there is no limit."""
        bounded = self.attends and self.aligned_by in FIXED_LENGTH
        return (self.max_places or 0, "max_places") if bounded else None

    @model_validator(mode="after")
    def _widths_can_be_tied(self) -> Self:
        if self.tie != "none" and self.embedding_width != self.width:
            raise ValueError(
                f'`tie` must be "none" where embeddings ({self.embedding_width}) are not as wide as states '
                f'({self.width}), but is "{self.tie}": leave `embedding` out to tie'
            )
        return self

    @model_validator(mode="after")
    def _attention_can_be(self) -> Self:
        if not self.attends:
            defaults = {name: field.default for name, field in type(self).model_fields.items()}
            keys = ("alignment", "window", *(key for key in Attending.model_fields))
            for key in keys:
                if getattr(self, key) != defaults[key]:
                    raise ValueError(
                        f'`wiring = "{self.wiring}"` has no attention, so `{key}` does not apply: leave it out, or '
                        'choose the wiring "bahdanau" or "luong"'
                    )
            return self
        self.check_attention(self.aligned_by)
        if self.window != "global" and self.aligned_by in SEVERAL_PLACES:
            raise ValueError(
                f'`window = "{self.window}"` selects single positions, but `alignment = "{self.aligned_by}"` scores '
                'spans of them: use `window = "global"`'
            )
        return self

    def check_widths(self, memory_width: int) -> None:
        """Refuse an alignment that compares states with a memory of another width."""
        demanding: list[str] = [self.aligned_by] if self.aligned_by in EQUAL_WIDTHS else []
        demanding += [self.distribution] if self.distribution in NEEDS_DISTANCE else []
        if self.attends and demanding and memory_width != self.width:
            raise ValueError(
                f'"{demanding[0]}" compares the decoder\'s states ({self.width} wide) with the memory ({memory_width}) '
                'directly: make their widths equal (`encoder_width`, `bidirectional`), or use `alignment = "general"`'
            )
