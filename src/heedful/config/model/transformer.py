"""The [model] table of a Transformer, and of a stack of its blocks."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import Field, PositiveFloat, field_serializer, model_validator

from heedful.config.model.attention import (
    FIXED_LENGTH,
    SEVERAL_PLACES,
    AlignmentName,
    Attending,
    Site,
    SiteAttention,
    Tie,
)
from heedful.config.model.parts import Part
from heedful.config.model.positions import POSITIONS, PositionsKind, PositionsName
from heedful.config.section import Layers, Positions, Share, Width

NormName = Literal["post", "pre", "rezero", "tfixup", "deepnorm"]

SITES: Final[tuple[Site, ...]] = get_args(Site)
SITE_KEYS: Final = tuple(f"{site}_attention" for site in SITES)

Presets = Mapping[str, Mapping[str, Any]]  # values of keys, by the name of their preset
TRANSFORMER_PRESETS: Final[Presets] = {
    "small": {"width": 256, "heads": 4, "layers": 3, "inner": 1024, "dropout": 0.1},
    "base": {"width": 512, "heads": 8, "layers": 6, "inner": 2048, "dropout": 0.1},
    "big": {"width": 1024, "heads": 16, "layers": 6, "inner": 4096, "dropout": 0.3},
}


class TransformerBlocks(Part, Attending):
    """Blocks of self-attention and feed-forward networks."""

    presets: ClassVar[Presets] = {}  # of `preset`, where the table has that key
    translates: ClassVar[bool] = False  # whether it is the table of an encoder and a decoder
    norm_in_head: ClassVar[bool] = False  # whether what predicts from the states may have a norm of its own
    width: Width = 512
    """Width of embeddings and states."""
    heads: Annotated[int, Field(ge=1, le=10_000)] = 8
    """Number of attention heads."""
    key_value_heads: Annotated[int, Field(ge=1, le=10_000)] | None = Field(default=None, examples=[1])
    """Number of heads of keys and values, each shared by several attention heads (Ainslie et al. 2023).

    By default `heads`: each attention head has its own keys and values. 1 is multi-query attention (Shazeer 2019).
    """
    key_width: Width | None = Field(default=None, examples=[64])
    """Width of the queries and keys of a head (d_k); by default `width` / `heads`."""
    value_width: Width | None = Field(default=None, examples=[64])
    """Width of the values of a head (d_v); by default `width` / `heads`."""
    layers: Layers = 6
    """Number of blocks."""
    inner: Width = 2048
    """Width inside the feed-forward networks."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "relu"
    """Activation of the feed-forward networks."""
    norm: NormName = "post"
    """Place of norms: after each residual sum (post) or before each sublayer (pre); or what replaces them.

    rezero: no norms, but one learned factor for each sublayer, 0 at first (Bachlechner et al. 2021). tfixup: no norms,
    but small initial weights (Huang et al. 2020). deepnorm: norms after residual sums in which the input has a greater
    weight, and small initial weights (Wang et al. 2022).
    """
    norm_kind: Literal["layer", "rms"] = "layer"
    """Norm by mean and variance (Ba et al. 2016), or by the root mean square alone (Zhang and Sennrich 2019)."""
    norm_epsilon: PositiveFloat = 1e-5
    """Epsilon of norms."""
    final_norm: bool | None = Field(default=None, examples=[True])
    """Whether a layer norm follows the last block; by default with pre-norm only."""
    bias: bool = True
    """Whether linear maps and layer norms of the blocks have biases; gated networks and RMS norms never have them."""
    projection_bias: bool | None = Field(default=None, examples=[False])
    """Whether the maps to queries, keys and values have biases; by default as `bias` says."""
    alignment: AlignmentName = "scaled_dot"
    """Score of a query and a key, in all heads."""
    backend: Literal["auto", "fused", "explicit"] = "auto"
    """Kernel of attention; explicit is the equation as written."""
    dropout: Share = 0.1
    """Dropout of every sublayer's output."""
    dropout_embedding: Share | None = Field(default=None, examples=[0.1])
    """Dropout of embeddings; by default `dropout`."""
    dropout_attention: Share = 0.0
    """Dropout of attention weights."""
    dropout_inner: Share = 0.0
    """Dropout inside the feed-forward networks."""
    dropout_layers: Share = 0.0
    """Probability that a block is left out of an update (LayerDrop, Fan et al. 2020)."""

    @property
    def head_widths(self) -> tuple[int, int]:
        """Widths of a head: of its queries and keys, and of its values."""
        return self.key_width or self.width // self.heads, self.value_width or self.width // self.heads

    @property
    def plain(self) -> bool:
        """Whether this attention is a softmax of scaled dot products over all values, which kernels compute."""
        return self.alignment == "scaled_dot" and self.distribution == "softmax" and self.choice == "soft"

    @property
    def fused(self) -> bool:
        """Whether a fused kernel computes all attention."""
        return self.plain and self.backend != "explicit"

    def at(self, site: Site) -> Self:
        """Return the table whose keys of attention are those of one site."""
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        """Take the values of keys that the table leaves out from its preset."""
        preset = value.get("preset") if isinstance(value, dict) else None
        return {**cls.presets[preset], **value} if preset in tuple(cls.presets) else value

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads and (self.key_width is None or self.value_width is None):
            one = self.key_width is not None or self.value_width is not None
            raise ValueError(
                f"`width` must be a multiple of `heads` ({self.heads}), but is {self.width}"
                + (": change it, or set both `key_width` and `value_width`" if one else "")
            )
        if self.key_value_heads is not None and self.heads % self.key_value_heads:
            raise ValueError(
                f"`heads` must be a multiple of `key_value_heads` ({self.key_value_heads}), but is {self.heads}"
            )
        return self

    @model_validator(mode="after")
    def _norms_can_be(self) -> Self:
        norms = {"final_norm": self.final_norm, "embedding_norm": getattr(self, "embedding_norm", False)}
        kinds = {key: self._unusual(key) for key in ("norm_kind", "norm_epsilon")}
        key = next((key for key, asked in (norms | kinds).items() if asked), None)
        if self.norm == "rezero" and key in kinds and not self.norm_in_head:
            raise ValueError(
                f'`norm = "rezero"` has no norms that `{key}` could describe: leave it out, use another `norm`, or set '
                "`final_norm = true`"
            )
        if self.norm == "tfixup" and key is not None:
            raise ValueError(f'`norm = "tfixup"` is a start without norms: leave `{key}` out, or use another `norm`')
        if self.norm == "tfixup" and not self.translates:
            raise ValueError(
                '`norm = "tfixup"` is the start of an encoder with a decoder, which this model is not: use "rezero", '
                '"deepnorm" or "pre"'
            )
        return self

    @model_validator(mode="after")
    def _attention_can_be(self) -> Self:
        self.check_kind()
        return self

    def check_kind(self) -> None:
        """Refuse keys of attention that contradict each other."""
        self.check_attention(self.alignment)
        if self.backend == "fused" and not self.plain:
            key = next(key for key in ("choice", "distribution", "alignment") if self._unusual(key))
            raise ValueError(
                f'`backend = "fused"` computes a softmax of scaled dot products over all keys: `{key}` is '
                f'"{getattr(self, key)}", which needs `backend = "auto"`'
            )

    def _unusual(self, key: str) -> bool:
        return bool(getattr(self, key) != type(self).model_fields[key].default)


class TransformerStack(TransformerBlocks):
    """Blocks of self-attention and feed-forward networks, with the embedding of tokens below them."""

    positions: PositionsName = "sinusoidal"
    """How positions are represented.

    The first three are added to embeddings, the next three are part of self-attention: Su et al. 2021, Press et al.
    2022, Shaw et al. 2018. With "none" an encoder does not see the order of tokens.
    """
    max_positions: Positions = 1024
    """Number of learned positions; the other kinds have no limit."""
    max_distance: Annotated[int, Field(ge=1, le=10_000)] = 16
    """Maximum distance of relative positions; greater ones are clipped to it."""
    rope_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the wavelengths of rotary positions: the longest is about 2 pi times it."""
    attention_radius: Positions | None = Field(default=None, examples=[16])
    """Maximum distance between a token and those that it attends to in self-attention; by default any.

    Time and memory then grow linearly with the length of a text (Vaswani et al. 2017, table 1). The distance counts on
    each side; in a decoder, only the tokens before count.
    """
    embeddings: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of embeddings per token, mixed by learned weights (Kiela et al. 2018)."""
    embedding_scale: bool = True
    """Whether embeddings are multiplied by sqrt(width) before positions are added."""
    embedding_norm: bool = False
    """Whether a layer norm follows the embedding."""
    dropout_words: Share = 0.0
    """Dropout of whole words of the input (Iyyer et al. 2015); in a translator, of the encoder's input."""

    @property
    def positions_kind(self) -> PositionsKind:
        """What the kind of positions needs and allows."""
        return POSITIONS[self.positions]

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a sentence, `</s>` included, and the key that sets it; None where there is no limit."""
        ends = [(self.max_positions, "max_positions")] if self.positions_kind.limited else []
        ends += [(self.max_places or 0, "max_places")] if self.alignment in FIXED_LENGTH else []
        return min(ends, default=None)

    @model_validator(mode="after")
    def _positions_fit_width(self) -> Self:
        kind, named = self.positions_kind, f'`positions = "{self.positions}"`'
        if self.width % 2 and kind.even_width:
            raise ValueError(f"`width` must be even for {named}, but is {self.width}")
        if self.head_widths[0] % 2 and kind.even_heads:
            if self.key_width is not None:
                raise ValueError(
                    f"`key_width` must be even for {named}, which turns pairs of columns, but is {self.key_width}"
                )
            raise ValueError(
                f"`width` must be an even multiple of `heads` ({self.heads}) for {named}, but is {self.width}"
            )
        return self

    @model_validator(mode="after")
    def _self_attention_can_be(self) -> Self:
        self.check_self_attention()
        return self

    def check_self_attention(self) -> None:
        """Refuse self-attention that does not fit the radius or the positions."""
        if self.attention_radius is not None:
            self._check_radius()
        if self.positions_kind.adds_to_scores and self.alignment in ("kernel", *SEVERAL_PLACES):
            raise ValueError(
                f'`positions = "{self.positions}"` adds to the score of each single position, which '
                f'`alignment = "{self.alignment}"` does not have: use `positions = "rope"` or "sinusoidal"'
            )

    def _check_radius(self) -> None:
        for key in ("alignment", "distribution", "choice"):
            if self._unusual(key):
                raise ValueError(
                    f'`attention_radius` restricts scaled dot products with a softmax, but `{key} = "'
                    f'{getattr(self, key)}"` is over the whole text: leave `attention_radius` out, or leave `{key}` out'
                )
        if self.positions_kind.adds_to_scores:
            raise ValueError(
                f'`positions = "{self.positions}"` adds to the scores of all pairs of positions, which '
                '`attention_radius` does not compute: use `positions = "rope"` or "sinusoidal"'
            )


class TransformerModel(TransformerStack):
    """The Transformer (Vaswani et al. 2017); `preset` provides the keys that the recipe leaves out."""

    presets = TRANSFORMER_PRESETS
    translates: ClassVar[bool] = True
    family: Literal["transformer"] = "transformer"
    preset: Literal["small", "base", "big"] | None = Field(default=None, examples=["base"])
    """Defaults of the keys that define the shape, and of `dropout`."""
    decoder_layers: Layers | None = Field(default=None, examples=[2])
    """Number of blocks of the decoder; by default `layers`."""
    encoder_layer: Literal["attention", "convolution", "separable"] = "attention"
    """What connects the tokens of the source in each block of the encoder (Vaswani et al. 2017, table 1).

    convolution: a matrix for each token around a token; separable: a factor for each column, then one matrix.
    """
    kernel: Annotated[int, Field(ge=1, le=1_001)] = 7
    """Number of tokens that a convolution of the encoder sees, the token itself in their middle; an odd number."""
    dilation: Annotated[int, Field(ge=1, le=1_001)] = 1
    """Factor by which these tokens are further apart in every block than in the one before it; 1: always neighbours.

    With 2, a kernel of 3 tokens sees distances of 1, 2, 4, 8 and so on, as in ByteNet (Kalchbrenner et al. 2016): the
    number of blocks that connect two tokens is the logarithm of their distance.
    """
    tie: Tie = "all"
    """Shared matrices: both embeddings and the output layer, the target embedding and it, or none."""
    output_bias: bool = False
    """Whether the output layer has a bias."""
    word_positions: bool = False
    """Whether embeddings also say how many words come before a token; brackets of trees are not words.

    The encoder counts the words of the source, and the decoder those that it has written, so that a parser knows which
    word comes next. Next to sinusoidal positions, each of the two has half of the width.
    """
    encoder_attention: SiteAttention | None = Field(default=None, examples=[{"alignment": "kernel", "features": 64}])
    """Self-attention of the encoder, where it differs: `alignment`, `distribution`, `choice` and their options."""
    decoder_attention: SiteAttention | None = Field(default=None, examples=[{"distribution": "entmax15"}])
    """Self-attention of the decoder, where it differs."""
    cross_attention: SiteAttention | None = Field(default=None, examples=[{"alignment": "additive"}])
    """Attention of the decoder to the source, where it differs."""

    @field_serializer(*SITE_KEYS)
    def _as_said(self, table: SiteAttention | None) -> dict[str, Any] | None:
        """Leave out what a site does not set, which is the model's."""
        return None if table is None else table.model_dump(exclude_unset=True)

    def at(self, site: Site) -> Self:
        """Return the table whose keys of attention are those of one site."""
        said: SiteAttention | None = getattr(self, f"{site}_attention")
        alone = dict.fromkeys(SITE_KEYS)
        return self.model_copy(update=alone | ({} if said is None else said.over(self, self.alignment)))

    @property
    def fused(self) -> bool:
        """Whether a fused kernel computes all attention."""
        return self.backend != "explicit" and all(self.at(site).plain for site in SITES)

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a sentence, `</s>` included, and the key that sets it; None where there is no limit."""
        ends = [end for end in (super().longest,) if end is not None]
        for site, key in zip(SITES, SITE_KEYS, strict=True):
            table = self.at(site)
            if getattr(self, key) is not None and table.alignment in FIXED_LENGTH and table.max_places is not None:
                own = getattr(self, key).max_places is not None
                ends.append((table.max_places, f"{key}.max_places" if own else "max_places"))
        return min(ends, default=None)

    @model_validator(mode="after")
    def _sites_can_be(self) -> Self:
        for site, key in zip(SITES, SITE_KEYS, strict=True):
            if getattr(self, key) is None:
                continue
            if site == "encoder" and self.encoder_layer != "attention":
                raise ValueError(
                    f'`encoder_layer = "{self.encoder_layer}"` replaces the self-attention of the encoder: leave '
                    f"`{key}` out"
                )
            table = self.at(site)
            try:
                table.check_kind()
                if site != "cross":  # which neither positions nor a radius change
                    table.check_self_attention()
            except ValueError as refusal:
                raise ValueError(f"`{key}`: {refusal}") from None
        return self

    @model_validator(mode="after")
    def _convolutions_can_be(self) -> Self:
        if self.encoder_layer == "attention":
            for key in ("kernel", "dilation"):
                if self._unusual(key):
                    raise ValueError(
                        f'`{key}` belongs to convolutions: leave it out, or set `encoder_layer = "convolution"` or '
                        '"separable"'
                    )
            return self
        if self.kernel % 2 == 0:
            raise ValueError(f"`kernel` must be odd, to have a token in its middle, but is {self.kernel}")
        if self.norm in ("tfixup", "deepnorm"):
            raise ValueError(
                f'`norm = "{self.norm}"` has constants for attention, but `encoder_layer` is "{self.encoder_layer}": '
                'use `norm = "pre"` or "rezero"'
            )
        return self

    @model_validator(mode="after")
    def _words_can_be_counted(self) -> Self:
        if self.word_positions and self.positions_kind.limited:
            raise ValueError(
                f'`word_positions` cannot be combined with `positions = "{self.positions}"`: use "sinusoidal", "rope", '
                '"alibi" or "relative"'
            )
        if self.word_positions and self.width % 4:
            raise ValueError(f"`width` must be a multiple of 4 for `word_positions`, but is {self.width}")
        return self

    @property
    def sides(self) -> tuple["TransformerModel", "TransformerModel"]:
        """The tables of the encoder and the decoder."""
        return self, self
