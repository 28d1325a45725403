"""The [model] table of a recipe that goes from one sequence to another: one class a family.

Combinations of attention that make no sense are refused here, before anything is built: what an alignment or a
distribution demands stands in `nn` beside it, and a test compares the two.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, field_serializer, model_validator

from heedful.config.section import Section, Share

AlignmentName = Literal[
    "content", "dot", "scaled_dot", "general", "biased_general", "activated_general", "kernel", "additive", "deep",
    "location", "area",
]  # fmt: skip
DistributionName = Literal[
    "softmax", "sigmoid", "normalised_sigmoid", "sparsemax", "entmax15", "entmax", "learned_entmax", "de_attention"
]
Tie = Literal["all", "decoder", "none"]

EQUAL_WIDTHS: Final = ("content", "dot", "scaled_dot", "kernel", "area")  # alignments of queries with keys as they are
FIXED_LENGTH: Final = ("location",)  # alignments that know a fixed number of places
SEVERAL_PLACES: Final = ("area",)  # alignments whose candidates are more than single places
NEEDS_DISTANCE: Final = ("de_attention",)  # distributions that subtract keys from queries
SCORES_BY_PLACE: Final = ("alibi", "relative")  # positions that add to the score of a single place


class Attending(Section):
    """How attention scores, weighs and chooses, in every family that has it."""

    distribution: DistributionName = "softmax"
    alpha: Annotated[float, Field(gt=1, le=4)] = 1.5  # of the distribution "entmax"
    choice: Literal["soft", "hard", "gumbel"] = "soft"  # hard: one place is drawn, gradients go through the weights
    temperature: PositiveFloat = 1.0  # of the choice "gumbel"
    features: PositiveInt = 256  # random ones of the alignment "kernel"
    area: PositiveInt = 3  # of the alignment "area": the most places side by side
    max_places: PositiveInt | None = None  # of the alignment "location": the longest source, `</s>` included

    def check_attention(self, alignment: str) -> None:
        """Refuse what this alignment cannot do."""
        if alignment == "kernel" and (self.distribution != "softmax" or self.choice != "soft"):
            key = "distribution" if self.distribution != "softmax" else "choice"
            raise ValueError(
                f'`alignment = "kernel"` stands for a softmax over its features: `{key}` must be '
                f'"{"softmax" if key == "distribution" else "soft"}", but is "{getattr(self, key)}"; with '
                '`alignment = "scaled_dot"` it may stay'
            )
        if alignment in FIXED_LENGTH and self.max_places is None:
            raise ValueError(
                f'`alignment = "{alignment}"` scores a fixed number of places, and sentences have any length: '
                "set `max_places` to `data.max_length` + 1, or choose another alignment"
            )
        if self.choice != "soft" and self.distribution in (*NEEDS_DISTANCE, "sigmoid"):
            raise ValueError(
                f'`choice = "{self.choice}"` draws one place by weights that sum to 1, but those of '
                f'`distribution = "{self.distribution}"` do not: choose "softmax" or an entmax'
            )


# --- the Transformer --------------------------------------------------------------------------------------------------

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
    def task(self) -> Literal["translate"]:
        """What such a model does."""
        return "translate"

    @property
    def sides(self) -> tuple["TransformerModel", "TransformerModel"]:
        """The tables of the encoder and the decoder."""
        return self, self

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        return filled(value, TRANSFORMER_PRESETS)


# --- recurrent models -------------------------------------------------------------------------------------------------


class RecurrentModel(Attending):
    """A recurrent encoder and decoder, joined as one of four papers has it.

    sutskever   the encoder's last state starts the decoder                               Sutskever et al. 2014
    cho         it is given to every step, and to the output layer                        Cho et al. 2014
    bahdanau    every step attends with the state before it; deep output with maxout      Bahdanau et al. 2015
    luong       every step attends with its own state, and feeds what it read to the next  Luong et al. 2015
    """

    family: Literal["recurrent"]
    wiring: Literal["sutskever", "cho", "bahdanau", "luong"] = "bahdanau"
    cell: Literal["gru", "lstm", "tanh", "relu"] = "gru"
    width: PositiveInt = 512  # of the decoder's states
    encoder_width: PositiveInt | None = None  # of the encoder's states in one direction; by default the same
    embedding: PositiveInt | None = None  # width of embeddings; by default that of states
    layers: PositiveInt = 1  # of the encoder, and of the decoder
    decoder_layers: PositiveInt | None = None
    bidirectional: bool = True  # the encoder
    reverse_source: bool = False  # read the source from its end, as Sutskever et al. do
    alignment: AlignmentName | None = None  # by default the paper's: "additive" of bahdanau, "general" of luong
    window: Literal["global", "monotone", "predicted"] = "global"  # local-m, local-p
    half_width: PositiveInt = 10  # of a window
    input_feeding: bool = True  # of luong: what was read goes into the next step
    embeddings: PositiveInt = 1  # vectors of each token, mixed by learned weights (Kiela et al. 2018)
    tie: Tie = "none"
    dropout: Share = 0.2  # of embeddings, between layers, and before the output layer
    dropout_words: Share = 0.0  # of whole words that the encoder reads (Iyyer et al. 2015)
    variational: bool = False  # the same masks at every step, on what is fed back too (Gal and Ghahramani 2016)

    @property
    def task(self) -> Literal["translate"]:
        """What such a model does."""
        return "translate"

    @property
    def sides(self) -> tuple["RecurrentModel", "RecurrentModel"]:
        """The tables of the encoder and the decoder."""
        return self, self

    @property
    def attends(self) -> bool:
        """Whether the decoder attends."""
        return self.wiring in ("bahdanau", "luong")

    @property
    def embedding_width(self) -> int:
        """Of both embeddings."""
        return self.embedding or self.width

    @property
    def memory_width(self) -> int:
        """Of what the encoder puts out for a token."""
        return (self.encoder_width or self.width) * (2 if self.bidirectional else 1)

    @property
    def aligned_by(self) -> AlignmentName:
        """The alignment, by default the paper's."""
        return self.alignment or ("additive" if self.wiring == "bahdanau" else "general")

    @property
    def longest(self) -> tuple[int, str] | None:
        """The most tokens of a sentence, `</s>` included, and the key that says so; None where there is no end."""
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
                        f'`wiring = "{self.wiring}"` has no attention, so `{key}` means nothing: leave it out, or '
                        'choose the wiring "bahdanau" or "luong"'
                    )
            return self
        self.check_attention(self.aligned_by)
        if self.window != "global" and self.aligned_by in SEVERAL_PLACES:
            raise ValueError(
                f'`window = "{self.window}"` is of single places, but those of `alignment = "{self.aligned_by}"` are '
                'several side by side: use `window = "global"`'
            )
        return self

    def check_widths(self, memory_width: int) -> None:
        """Refuse an alignment that compares states with a memory of another width."""
        demanding: list[str] = [self.aligned_by] if self.aligned_by in EQUAL_WIDTHS else []
        demanding += [self.distribution] if self.distribution in NEEDS_DISTANCE else []
        if self.attends and demanding and memory_width != self.width:
            raise ValueError(
                f'"{demanding[0]}" compares the decoder\'s states ({self.width} wide) with the memory ({memory_width}) '
                'as they are: make them equal (`encoder_width`, `bidirectional`), or use `alignment = "general"`'
            )


# --- both -------------------------------------------------------------------------------------------------------------


class MixedModel(Section):
    """The encoder of one family with the decoder of the other; each table says what its own family may say."""

    family: Literal["mixed"]
    encoder: Annotated[TransformerModel | RecurrentModel, Field(discriminator="family")]
    decoder: Annotated[TransformerModel | RecurrentModel, Field(discriminator="family")]
    tie: Tie = "none"

    @field_serializer("encoder", "decoder")
    def _without_tie(self, table: TransformerModel | RecurrentModel) -> dict[str, Any]:
        """Tying belongs to the whole model: a table that says it is refused, also when it is read again."""
        return table.model_dump(exclude={"tie"})

    @property
    def task(self) -> Literal["translate"]:
        """What such a model does."""
        return "translate"

    @property
    def sides(self) -> tuple[TransformerModel | RecurrentModel, TransformerModel | RecurrentModel]:
        """The tables of the encoder and the decoder."""
        return self.encoder, self.decoder

    @property
    def width(self) -> int:
        """Of the decoder's states."""
        return self.decoder.width

    @property
    def memory_width(self) -> int:
        """Of what the encoder puts out for a token."""
        return self.encoder.memory_width

    @property
    def longest(self) -> tuple[int, str] | None:
        """The most tokens of a sentence, `</s>` included, and the key that says so; None where there is no end."""
        both = (("encoder", self.encoder.longest), ("decoder", self.decoder.longest))
        ends = [(end[0], f"{side}.{end[1]}") for side, end in both if end is not None]
        return min(ends, default=None)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        for side, table in (("encoder", self.encoder), ("decoder", self.decoder)):
            if "tie" in table.model_fields_set:
                raise ValueError(f"`tie` belongs to the whole model: move it out of `{side}`")
        if self.tie == "all" and self.encoder.embedding_width != self.decoder.embedding_width:
            raise ValueError(
                f'`tie` must be "decoder" or "none" where embeddings are {self.encoder.embedding_width} and '
                f'{self.decoder.embedding_width} wide, but is "all"'
            )
        if isinstance(self.decoder, RecurrentModel):
            if self.tie != "none" and self.decoder.embedding_width != self.decoder.width:
                raise ValueError(
                    f'`tie` must be "none" where the decoder\'s embeddings ({self.decoder.embedding_width}) are not as '
                    f'wide as its states ({self.decoder.width}), but is "{self.tie}"'
                )
            self.decoder.check_widths(self.memory_width)
        return self


PairModel = TransformerModel | RecurrentModel | MixedModel  # from one sequence to another
