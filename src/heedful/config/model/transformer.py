"""The [model] table of a Transformer, and of a stack of its blocks."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import PositiveFloat, PositiveInt, model_validator

from heedful.config.model.attention import FIXED_LENGTH, SCORES_BY_PLACE, SEVERAL_PLACES, AlignmentName, Attending, Tie
from heedful.config.section import Share

TRANSFORMER_PRESETS: dict[str, dict[str, Any]] = {
    "small": {"width": 256, "heads": 4, "layers": 3, "inner": 1024, "dropout": 0.1},
    "base": {"width": 512, "heads": 8, "layers": 6, "inner": 2048, "dropout": 0.1},
    "big": {"width": 1024, "heads": 16, "layers": 6, "inner": 4096, "dropout": 0.3},
}


def filled(value: Any, presets: Mapping[str, Mapping[str, Any]]) -> Any:
    """A table's values, with those of its preset where it says nothing."""
    preset = value.get("preset") if isinstance(value, dict) else None
    return {**presets[preset], **value} if preset in tuple(presets) else value


class TransformerStack(Attending):
    """Blocks of self-attention and position-wise networks, and the embedding below them, in every family of them."""

    width: PositiveInt = 512
    heads: PositiveInt = 8
    layers: PositiveInt = 6
    inner: PositiveInt = 2048
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    norm: Literal["post", "pre"] = "post"
    norm_epsilon: PositiveFloat = 1e-5
    final_norm: bool | None = None  # a norm after the last block; by default with pre-norm alone
    # Added to embeddings (the first three), or known to self-attention: Su 2021, Press 2022, Shaw et al. 2018.
    positions: Literal["sinusoidal", "sinusoidal_halves", "learned", "rope", "alibi", "relative"] = "sinusoidal"
    max_positions: PositiveInt = 1024  # of learned positions; the others have no end
    max_distance: PositiveInt = 16  # of relative positions: what is farther apart counts as so far apart
    alignment: AlignmentName = "scaled_dot"  # of all heads
    backend: Literal["auto", "fused", "explicit"] = "auto"  # of attention; explicit: the equation as written
    embeddings: PositiveInt = 1  # vectors of each token, mixed by learned weights (Kiela et al. 2018)
    embedding_scale: bool = True  # embeddings times sqrt(width), before positions are added
    embedding_norm: bool = False  # a norm behind the embedding
    dropout: Share = 0.1  # on every sublayer's output
    dropout_embedding: Share | None = None  # by default the same
    dropout_words: Share = 0.0  # of whole words that the encoder reads (Iyyer et al. 2015)
    dropout_attention: Share = 0.0
    dropout_inner: Share = 0.0

    @property
    def embedding_width(self) -> int:
        """Of both embeddings."""
        return self.width

    @property
    def memory_width(self) -> int:
        """Of what the encoder puts out for a token."""
        return self.width

    @property
    def fused(self) -> bool:
        """Whether a fused kernel computes this attention."""
        plain = self.alignment == "scaled_dot" and self.distribution == "softmax" and self.choice == "soft"
        return plain and self.backend != "explicit"

    @property
    def longest(self) -> tuple[int, str] | None:
        """The most tokens of a sentence, `</s>` included, and the key that says so; None where there is no end."""
        ends = [(self.max_positions, "max_positions")] if self.positions == "learned" else []
        ends += [(self.max_places or 0, "max_places")] if self.alignment in FIXED_LENGTH else []
        return min(ends, default=None)

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"`width` must be a multiple of `heads` ({self.heads}), but is {self.width}")
        if self.width % 2 and self.positions in ("sinusoidal", "sinusoidal_halves"):
            raise ValueError(f"`width` must be even for sinusoidal positions, but is {self.width}")
        if self.width // self.heads % 2 and self.positions == "rope":
            raise ValueError(
                f'`width` must be an even multiple of `heads` ({self.heads}) for `positions = "rope"`, '
                f"but is {self.width}"
            )
        return self

    @model_validator(mode="after")
    def _attention_can_be(self) -> Self:
        self.check_attention(self.alignment)
        if self.backend == "fused" and not self.fused:
            key = next(key for key in ("choice", "distribution", "alignment") if self._unusual(key))
            raise ValueError(
                f'`backend = "fused"` computes a softmax of scaled dot products, all keys weighed: `{key}` is '
                f'"{getattr(self, key)}", which needs `backend = "auto"`'
            )
        if self.positions in SCORES_BY_PLACE and self.alignment in ("kernel", *SEVERAL_PLACES):
            raise ValueError(
                f'`positions = "{self.positions}"` adds to the score of each single place, which '
                f'`alignment = "{self.alignment}"` has not: use `positions = "rope"` or "sinusoidal"'
            )
        return self

    def _unusual(self, key: str) -> bool:
        return bool(getattr(self, key) != type(self).model_fields[key].default)


class TransformerModel(TransformerStack):
    """The Transformer (Vaswani et al. 2017); `preset` fills what the recipe leaves out."""

    family: Literal["transformer"] = "transformer"
    preset: Literal["small", "base", "big"] | None = None
    decoder_layers: PositiveInt | None = None  # when the decoder is shallower or deeper than the encoder's `layers`
    tie: Tie = "all"  # three-way, target embedding with output, or no shared matrix
    output_bias: bool = False  # of every word's score

    @property
    def sides(self) -> tuple["TransformerModel", "TransformerModel"]:
        """The tables of the encoder and the decoder."""
        return self, self

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        return filled(value, TRANSFORMER_PRESETS)
