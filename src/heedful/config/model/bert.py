"""The [model] table of a masked language model."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from heedful.config.model.positions import PositionsName
from heedful.config.model.transformer import TransformerStack, filled
from heedful.config.section import Layers, Positions, Share, Width

BERT_PRESETS: Final[dict[str, dict[str, Any]]] = {
    "tiny": {"width": 128, "heads": 2, "layers": 2, "inner": 512},  # these three: Turc et al. 2019
    "mini": {"width": 256, "heads": 4, "layers": 4, "inner": 1024},
    "small": {"width": 512, "heads": 8, "layers": 4, "inner": 2048},
    "base": {"width": 768, "heads": 12, "layers": 12, "inner": 3072},  # these two: Devlin et al. 2019
    "large": {"width": 1024, "heads": 16, "layers": 24, "inner": 4096},
}


class BertModel(TransformerStack):
    """BERT (Devlin et al. 2019); defaults are the paper's settings and its base shape."""

    norm_in_head: ClassVar[bool] = True
    family: Literal["bert"]
    preset: Literal["tiny", "mini", "small", "base", "large"] | None = None
    """Defaults of the keys that define the shape: `width`, `heads`, `layers` and `inner`."""
    width: Width = 768
    heads: Annotated[int, Field(ge=1, le=10_000)] = 12
    layers: Layers = 12
    inner: Width = 3072
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "gelu"
    norm_epsilon: PositiveFloat = 1e-12
    positions: PositionsName = "learned"
    max_positions: Positions = 512
    embedding_scale: bool = False
    embedding_norm: bool = True
    dropout_attention: Share = 0.1
    segments: Annotated[int, Field(ge=0, le=1_000)] = 2
    """Number of segment embeddings, which tell the texts of a pair apart."""
    next_sentence: bool = True
    """Whether a head is trained that predicts whether the second text follows the first."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        return filled(value, BERT_PRESETS)

    @model_validator(mode="after")
    def _two_texts_are_told_apart(self) -> Self:
        if self.next_sentence and self.segments < 2:
            raise ValueError(
                f"`segments` must be 2 where `next_sentence` is true, to tell two texts apart, "
                f"but is {self.segments}: set `next_sentence = false`, or leave `segments` out"
            )
        return self
