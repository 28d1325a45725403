"""The [model] table of a language model: a decoder without an encoder."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from heedful.config.model.transformer import TransformerStack, filled
from heedful.config.section import Layers, Positions, Section, Share, Width

GPT_PRESETS: Final[dict[str, dict[str, Any]]] = {
    "tiny": {"width": 128, "heads": 4, "layers": 4, "inner": 512},
    "mini": {"width": 384, "heads": 6, "layers": 6, "inner": 1536},
    "gpt1": {  # Radford et al. 2018
        "width": 768,
        "heads": 12,
        "layers": 12,
        "inner": 3072,
        "norm": "post",
        "max_positions": 512,
    },
    "small": {"width": 768, "heads": 12, "layers": 12, "inner": 3072},  # these four: Radford et al. 2019
    "medium": {"width": 1024, "heads": 16, "layers": 24, "inner": 4096},
    "large": {"width": 1280, "heads": 20, "layers": 36, "inner": 5120},
    "xl": {"width": 1600, "heads": 25, "layers": 48, "inner": 6400},
}


class TransformerDecoderTable(TransformerStack):
    """A Transformer's decoder on its own; defaults are the settings of GPT-2 and its smallest shape."""

    family: Literal["transformer"] = "transformer"
    preset: Literal["tiny", "mini", "gpt1", "small", "medium", "large", "xl"] | None = None
    """Defaults of the keys that define the shape: `width`, `heads`, `layers` and `inner`."""
    width: Width = 768
    heads: Annotated[int, Field(ge=1, le=10_000)] = 12
    layers: Layers = 12
    inner: Width = 3072
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "gelu_tanh"
    norm: Literal["post", "pre"] = "pre"
    positions: Literal["sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", "relative"] = "learned"
    max_positions: Positions = 1024
    embedding_scale: bool = False
    dropout_attention: Share = 0.1

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        return filled(value, GPT_PRESETS)


class RecurrentDecoderTable(Section):
    """A recurrent language model      Mikolov et al. 2010; Zaremba et al. 2014"""

    family: Literal["recurrent"]
    cell: Literal["gru", "lstm", "tanh", "relu"] = "lstm"
    """Kind of recurrent cell."""
    width: Width = 650
    """Width of states."""
    layers: Layers = 2
    """Number of layers."""
    embedding: Width | None = None
    """Width of embeddings; by default that of states."""
    dropout: Share = 0.5
    """Dropout of embeddings, between layers, and before the output layer."""
    dropout_words: Share = 0.0
    """Dropout of whole words of the input (Iyyer et al. 2015)."""
    variational: bool = False
    """Whether dropout masks are the same at every step (Gal and Ghahramani 2016)."""

    @property
    def embedding_width(self) -> int:
        """Width of the embedding."""
        return self.embedding or self.width

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a text: None, as recurrence has no limit."""
        return None


class LanguageModelTable(Section):
    """A decoder that predicts every next token of a text from the tokens before it."""

    family: Literal["language"]
    decoder: Annotated[TransformerDecoderTable | RecurrentDecoderTable, Field(discriminator="family")] = (
        TransformerDecoderTable()
    )
    """Family and shape of the decoder."""
    tie: bool = True
    """Whether the output layer shares the matrix of the embedding."""

    @property
    def width(self) -> int:
        """Width of the decoder's states."""
        return self.decoder.width

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a window, and the key that sets it; None where there is no limit."""
        end = self.decoder.longest
        return end and (end[0], f"decoder.{end[1]}")

    @model_validator(mode="after")
    def _widths_can_be_tied(self) -> Self:
        if self.tie and self.decoder.embedding_width != self.decoder.width:
            raise ValueError(
                f"`tie` must be false where embeddings ({self.decoder.embedding_width}) are not as wide as states "
                f"({self.decoder.width}), but is true: leave `decoder.embedding` out to tie"
            )
        return self
