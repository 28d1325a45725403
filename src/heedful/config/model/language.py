"""The [model] table of a language model: a decoder without an encoder."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, NonNegativeFloat, model_validator

from heedful.config.model.parts import OnPart, Part
from heedful.config.model.positions import PositionsName
from heedful.config.model.transformer import NormName, Presets, TransformerStack
from heedful.config.section import CellName, Layers, Positions, Share, Width

GPT_PRESETS: Final[Presets] = {
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

    presets = GPT_PRESETS
    family: Literal["transformer"] = "transformer"
    preset: Literal["tiny", "mini", "gpt1", "small", "medium", "large", "xl"] | None = Field(
        default=None, examples=["small"]
    )
    """Defaults of the keys that define the shape: `width`, `heads`, `layers` and `inner`.

    small is GPT-2; gpt1, the first GPT, also has post-norm and 512 positions.
    """
    width: Width = 768
    heads: Annotated[int, Field(ge=1, le=10_000)] = 12
    layers: Layers = 12
    inner: Width = 3072
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "gelu_tanh"
    norm: NormName = "pre"
    positions: PositionsName = "learned"
    max_positions: Positions = 1024
    embedding_scale: bool = False
    dropout_attention: Share = 0.1


class RecurrentDecoderTable(Part):
    """A recurrent language model      Mikolov et al. 2010; Zaremba et al. 2014"""

    family: Literal["recurrent"]
    cell: CellName = "lstm"
    """Kind of recurrent cell; gru_paper is the GRU of Cho et al. 2014, with the reset gate before the product."""
    feedback: Literal["hidden", "output"] = "hidden"
    """What a step knows of the step before: its states, or only its output (Jordan 1986).

    "output" needs one layer of tanh or ReLU cells.
    """
    width: Width = 650
    """Width of states."""
    layers: Layers = 2
    """Number of layers."""
    embedding: Width | None = Field(default=None, examples=[400])
    """Width of embeddings; by default that of states."""
    last_width: Width | None = Field(default=None, examples=[400])
    """Width of the last layer, or of outputs that are fed back; by default `width`.

    With `model.tie` it must be the width of embeddings.
    """
    dropout: Share = 0.5
    """Dropout of embeddings, between layers, and before the output layer."""
    dropout_input: Share | None = Field(default=None, examples=[0.65])
    """Dropout of embeddings; by default `dropout`."""
    dropout_hidden: Share | None = Field(default=None, examples=[0.2])
    """Dropout between layers; by default `dropout`."""
    dropout_output: Share | None = Field(default=None, examples=[0.4])
    """Dropout before the output layer; by default `dropout`."""
    dropout_words: Share = 0.0
    """Dropout of whole words of the input: of single tokens (Iyyer et al. 2015).

    With `variational`, all occurrences of a word are dropped together (Gal and Ghahramani 2016).
    """
    dropout_weights: Share = 0.0
    """Dropout of the recurrent matrices, with one mask per batch (Merity et al. 2018)."""
    dropout_state: Share = 0.0
    """Dropout of the states that a layer feeds back; needs `variational`, and is slow."""
    variational: bool = False
    """Whether dropout masks are the same at every step (Gal and Ghahramani 2016)."""
    penalty_activation: NonNegativeFloat = 0.0
    """Penalty in the loss: factor of the mean square of the last layer's outputs (Merity et al. 2017, alpha)."""
    penalty_change: NonNegativeFloat = 0.0
    """Penalty in the loss: factor of the mean square of the change of the last layer's outputs between tokens.

    It is beta of Merity et al. 2017.
    """

    def share(self, where: Literal["input", "hidden", "output"]) -> float:
        """Return the dropout at a place."""
        own: float | None = getattr(self, f"dropout_{where}")
        return self.dropout if own is None else own

    @property
    def output_width(self) -> int:
        """Width of the states that the output layer scores."""
        return self.last_width or self.width

    @property
    def penalized(self) -> bool:
        """Whether the loss has a penalty on the outputs of the last layer."""
        return self.penalty_activation > 0 or self.penalty_change > 0

    @model_validator(mode="after")
    def _outputs_are_all_that_is_fed_back(self) -> Self:
        wanted = {
            "cell": (self.cell in ("tanh", "relu"), '"tanh" or "relu", as gates read and write a memory of their own'),
            "layers": (self.layers == 1, "1, as only the last layer has an output"),
            "variational": (not self.variational, "false"),
            "dropout_weights": (not self.dropout_weights, "0"),
        }
        wrong = [f"`{key}` must be {what}" for key, (holds, what) in wanted.items() if not holds]
        if self.feedback == "output" and wrong:
            raise ValueError(f'{wrong[0]}, where `feedback` is "output"')
        return self

    @model_validator(mode="after")
    def _states_have_variational_masks(self) -> Self:
        if self.dropout_state and not self.variational:
            raise ValueError(
                f"`dropout_state` is {self.dropout_state:g}, but only masks that are the same at every step can drop "
                "states: set `variational = true`, or leave it out"
            )
        return self


class ConvolutionalDecoderTable(Part):
    """A convolutional language model: each layer sees a few tokens      Dauphin et al. 2017"""

    family: Literal["convolutional"]
    width: Width = 256
    """Width of embeddings and of all layers."""
    layers: Layers = 4
    """Number of layers."""
    kernel: Annotated[int, Field(ge=1, le=1000)] = 4
    """Number of tokens that a layer sees: a token, and those before it."""
    activation: Literal["relu", "glu"] = "glu"
    """Activation after a convolution: the ReLU, or a gated linear unit."""
    dropout: Share = 0.1
    """Dropout of embeddings, after each layer, and before the output layer."""
    dropout_words: Share = 0.0
    """Dropout of whole words of the input (Iyyer et al. 2015)."""


class LanguageModelTable(OnPart):
    """A decoder that predicts every next token of a text from the tokens before it."""

    part = "decoder"
    family: Literal["language"]
    decoder: Annotated[
        TransformerDecoderTable | RecurrentDecoderTable | ConvolutionalDecoderTable,
        Field(discriminator="family", examples=[{"family": "transformer", "preset": "small"}]),
    ] = TransformerDecoderTable()
    """Family and shape of the decoder."""
    tie: bool = True
    """Whether the output layer shares the matrix of the embedding."""
    output_bias: bool = False
    """Whether the output layer has a bias."""

    @property
    def embedding_width(self) -> int:
        """Width of the embedding."""
        return self.decoder.embedding_width

    @property
    def memory_width(self) -> int:
        """Width of the states that a head reads."""
        return self.decoder.output_width

    @model_validator(mode="after")
    def _widths_can_be_tied(self) -> Self:
        table = self.decoder
        if self.tie and table.embedding_width != table.output_width:
            last = " or set `decoder.last_width`" if isinstance(table, RecurrentDecoderTable) else ""
            raise ValueError(
                f"`tie` must be false where embeddings ({table.embedding_width}) are not as wide as states "
                f"({table.output_width}), but is true: leave `decoder.embedding` out{last} to tie"
            )
        return self
