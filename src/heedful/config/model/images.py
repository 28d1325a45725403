"""The [model] tables of models that read images, and those of their encoders: Transformer, convolutional network."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from heedful.config.model.attention import FIXED_LENGTH, SEVERAL_PLACES
from heedful.config.model.encoders import RecurrentEncoderTable, TransformerEncoderTable
from heedful.config.model.parts import OnPart, Part
from heedful.config.model.transformer import NormName, Presets, TransformerBlocks
from heedful.config.section import Layers, Share, Width

IMAGE_PRESETS: Final[Presets] = {  # ViT-Ti, S, B and L: Dosovitskiy et al. 2021, Touvron et al. 2021
    "tiny": {"width": 192, "heads": 3, "layers": 12, "inner": 768},
    "small": {"width": 384, "heads": 6, "layers": 12, "inner": 1536},
    "base": {"width": 768, "heads": 12, "layers": 12, "inner": 3072},
    "large": {"width": 1024, "heads": 16, "layers": 24, "inner": 4096},
}
Channels = Literal[1, 3]


class ImageTransformerTable(TransformerBlocks):
    """A Transformer over the patches of an image (Dosovitskiy et al. 2021).

    `preset` provides the keys that the recipe leaves out; its default is "tiny".
    """

    presets = IMAGE_PRESETS
    family: Literal["vit"] = "vit"
    preset: Literal["tiny", "small", "base", "large"] | None = Field(default=None, examples=["tiny"])
    """Defaults of the keys that define the shape."""
    width: Width = 192
    heads: Annotated[int, Field(ge=1, le=10_000)] = 3
    layers: Layers = 12
    inner: Width = 768
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu"] = "gelu"
    norm: NormName = "pre"
    channels: Channels = 3
    """Channels of an image: 3 are red, green and blue, 1 is gray. Images are converted to it."""
    patch: Annotated[int, Field(ge=1, le=1_000)] = 16
    """Height and width of a patch in pixels. Each patch is a token."""
    stem: Literal["patches", "convolutions"] = "patches"
    """What makes a vector of a patch: a linear map of its pixels, or small convolutions (Xiao et al. 2021)."""
    class_token: bool = True
    """Whether a learned token comes before the patches, whose last state represents the image."""
    class_position: bool = False
    """Whether a learned position is added to the class token too; what the model can learn does not change."""
    positions: Literal["learned", "sinusoidal"] = "learned"
    """How rows and columns of patches are represented: learned for each, or by sinusoids, half the width for each."""
    grid: Annotated[int, Field(ge=1, le=1_000)] = 14
    """Number of rows, and of columns, of learned positions; for images of other sizes they are interpolated."""

    @model_validator(mode="after")
    def _fits_images(self) -> Self:
        if self.alignment in (*FIXED_LENGTH, *SEVERAL_PLACES):
            raise ValueError(
                f'`alignment = "{self.alignment}"` scores places in a sentence, not patches: choose another'
            )
        if self.width % 4 and self.positions == "sinusoidal":
            raise ValueError(f"`width` must be a multiple of 4 for sinusoidal positions, but is {self.width}")
        if self.class_position and not self.class_token:
            raise ValueError("`class_position` is that of the class token, but there is none: leave it out")
        if self.stem == "convolutions" and (self.patch < 2 or self.patch & (self.patch - 1)):
            raise ValueError(f'`patch` must be a power of two with `stem = "convolutions"`, but is {self.patch}')
        return self


class ImageConvolutionsTable(Part):
    """A small convolutional network: stages of convolutions of 3 x 3 pixels, each followed by a maximum over 2 x 2."""

    family: Literal["convolutional"]
    channels: Channels = 3
    """Channels of an image: 3 are red, green and blue, 1 is gray. Images are converted to it."""
    width: Width = 128
    """Number of features after the last stage; each stage before has half as many as the next."""
    stages: Annotated[int, Field(ge=1, le=10)] = 3
    """Number of stages. Each halves height and width."""
    depth: Layers = 2
    """Number of convolutions of a stage."""
    positions: Literal["none", "sinusoidal"] = "none"
    """Whether sinusoids of row and column are added to the features, half the width for each.

    A decoder that attends to them needs positions to know where things are.
    """
    dropout: Share = 0.1
    """Dropout of the features after the last stage."""

    @model_validator(mode="after")
    def _positions_fit_width(self) -> Self:
        if self.width % 4 and self.positions == "sinusoidal":
            raise ValueError(f"`width` must be a multiple of 4 for sinusoidal positions, but is {self.width}")
        return self

    @property
    def patch(self) -> int:
        """Height and width of the pixels that the stages reduce to one vector."""
        return 2**self.stages

    @property
    def class_token(self) -> bool:
        """Whether a token comes before the patches."""
        return False


AnyImageEncoder = Annotated[ImageTransformerTable | ImageConvolutionsTable, Field(discriminator="family")]


class ImageAnswererModel(OnPart):
    """Encoders of images and of questions, co-attention between patches and words, and a linear map to answers."""

    family: Literal["image_answerer"]
    encoder: AnyImageEncoder = Field(
        default=ImageTransformerTable(class_token=False),
        examples=[{"family": "vit", "patch": 8, "grid": 8, "stem": "convolutions"}],
    )
    """Family and shape of the encoder of images."""
    question: Annotated[
        TransformerEncoderTable | RecurrentEncoderTable,
        Field(
            discriminator="family",
            examples=[{"family": "transformer", "width": 128, "heads": 4, "layers": 4, "inner": 512}],
        ),
    ] = TransformerEncoderTable(width=192, heads=3, layers=3, inner=768, norm="pre")
    """Family and shape of the encoder of questions."""
    cross: bool | None = Field(default=None, examples=[False])
    """Whether every layer of the encoder of questions attends to the patches of the image too (Lu et al. 2019).

    By default it does if it is a Transformer; a recurrent one cannot.
    """
    join: Literal["parallel", "alternating"] = "parallel"
    """How co-attention pools patches and words, each in view of the other: at once or in turns (Lu et al. 2016)."""
    dropout: Share = 0.1
    """Dropout before the linear map."""

    @property
    def crosses(self) -> bool:
        """Whether words attend to patches while a question is encoded."""
        return isinstance(self.question, TransformerEncoderTable) and self.cross is not False

    @property
    def longest(self) -> tuple[int, str] | None:
        """Maximum tokens of a question, markers included, and the key that sets it; None where there is no limit."""
        end = self.question.longest
        return end and (end[0], f"question.{end[1]}")

    @model_validator(mode="after")
    def _fits_questions(self) -> Self:
        if self.cross and isinstance(self.question, RecurrentEncoderTable):
            raise ValueError("`cross` needs a Transformer as the encoder of questions: leave it out")
        if isinstance(self.question, TransformerEncoderTable) and self.question.segments:
            raise ValueError(
                "`question.segments` tells the texts of a pair apart, but a question is one text: leave it out"
            )
        if self.crosses and getattr(self.question, "alignment", "") in (*FIXED_LENGTH, *SEVERAL_PLACES):
            raise ValueError(
                f'`question.alignment = "{getattr(self.question, "alignment", "")}"` scores places in a sentence, '
                "not patches: choose another, or set `cross = false`"
            )
        return self
