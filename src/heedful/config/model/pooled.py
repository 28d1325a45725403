"""The [model] tables of models with one output for a text, a pair of texts or an image: classifiers and regressors."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from heedful.config.model.attention import SEVERAL_PLACES, AnyPool, PoolName
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.encoders import (
    BagEncoderTable,
    HierarchicalEncoderTable,
    RecurrentEncoderTable,
    TransformerEncoderTable,
)
from heedful.config.model.images import AnyImageEncoder, ImageConvolutionsTable, ImageTransformerTable
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.parts import OnPart
from heedful.config.section import Share, Width

AnyEncoder = Annotated[
    TransformerEncoderTable
    | RecurrentEncoderTable
    | HierarchicalEncoderTable
    | BagEncoderTable
    | BertModel
    | LanguageModelTable,
    Field(discriminator="family"),
]


class PooledModel(OnPart):
    """An encoder, a pool that reduces its output to one vector, and a linear map."""

    encoder: Any
    pool: AnyPool | None = Field(default=None, examples=["mean"])
    """Function from states to one vector: a name, or a table of attention with a learned query.

    By default "first", the state of `<s>` or of the class token of an image; "max" for a recurrent encoder, "attention"
    for a hierarchical one, "mean" for a bag of n-grams and for images without a class token, and "last" for a language
    model.
    """
    dropout: Share = 0.1
    """Dropout before the linear map."""
    head_hidden: Width | None = Field(default=None, examples=[128])
    """Width of a hidden layer with a ReLU before the linear map, with dropout before and after it; by default none."""

    @property
    def reads_images(self) -> bool:
        """Whether the encoder reads images, and not texts."""
        return isinstance(self.encoder, ImageTransformerTable | ImageConvolutionsTable)

    @property
    def joins_after_reading(self) -> bool:
        """Whether the texts of a pair are read one by one, and joined by co-attention."""
        return getattr(self, "join", "sequence") != "sequence"

    @property
    def nested(self) -> bool:
        """Whether the encoder reads documents as sentences of words."""
        return isinstance(self.encoder, HierarchicalEncoderTable)

    @property
    def reads_letters(self) -> bool:
        """Whether the encoder reads the letters of words."""
        return isinstance(self.encoder, HierarchicalEncoderTable) and self.encoder.letters is not None

    @property
    def pooled_by(self) -> AnyPool:
        """Name or table of the pool, by default the usual one of the encoder."""
        usual: dict[str, PoolName] = {
            "recurrent": "max",
            "hierarchical": "attention",
            "bag": "mean",
            "language": "last",
        }
        if self.reads_images and not self.encoder.class_token:
            return self.pool or "mean"
        return self.pool or usual.get(self.encoder.family, "first")

    @model_validator(mode="after")
    def _pool_fits_the_encoder(self) -> Self:
        if self.joins_after_reading and self.pool is not None:
            raise ValueError(
                f'`join = "{getattr(self, "join", "")}"` pools both texts by co-attention: leave `pool` out'
            )
        if self.pool in ("first", "last") and isinstance(self.encoder, BagEncoderTable):
            raise ValueError(
                f'`pool` is "{self.pool}", but the state of a token in a bag sees no context beyond its n-grams: leave '
                'it out, or use "mean", "max" or "attention"'
            )
        if self.pool == "first" and isinstance(self.encoder, LanguageModelTable):
            raise ValueError(
                '`pool` is "first", but the first state of a language model is the same for every text: leave it out, '
                'or use "last" or "mean"'
            )
        if self.pool == "first" and self.reads_images and not self.encoder.class_token:
            raise ValueError(
                '`pool` is "first", the state of the class token, but there is none: leave it out, or use "mean" '
                'or "max"'
            )
        if self.reads_images and getattr(self.pool, "alignment", "") in SEVERAL_PLACES:
            raise ValueError('`pool.alignment = "area"` scores adjacent words, not patches: choose another')
        return self


class TextModel(PooledModel):
    """Keys of models that read texts, or pairs of texts."""

    encoder: AnyEncoder = Field(
        default=TransformerEncoderTable(), examples=[{"family": "transformer", "preset": "small"}]
    )
    """Family and shape of the encoder; "language" is a language model, which reads a text from left to right."""
    join: Literal["sequence", "parallel", "alternating"] = "sequence"
    """How the texts of a pair are joined.

    sequence: they are read as one sequence, `<s> text </s> second </s>`; parallel, alternating: each is read by itself,
    and co-attention pools both, at once or in turns (Lu et al. 2016).
    """
    pooler: bool = False
    """Whether tanh(W y + b) follows the pool, as in BERT."""


class ImageModel(PooledModel):
    """Keys of models that read images."""

    encoder: AnyImageEncoder = Field(
        default=ImageTransformerTable(),
        examples=[{"family": "vit", "preset": "tiny", "patch": 4, "channels": 1, "grid": 7}],
    )
    """Family and shape of the encoder."""
    dropout: Share = 0.0
    """Dropout before the linear map."""


class ClassifierModel(TextModel):
    """An encoder, a pool that reduces its output to one vector, and a linear map to classes."""

    family: Literal["classifier"]
    labels: Literal["one", "several"] = "one"
    """Whether a text has exactly one label, or any number of them."""
    one_score: bool = False
    """Whether two classes share one score, whose sigmoid is the probability of the second; by default each has its own.

    It is the head of a binary classifier; what the model can learn does not change.
    """

    @model_validator(mode="after")
    def _one_score_is_of_two_classes(self) -> Self:
        if self.one_score and self.labels == "several":
            raise ValueError('`one_score` decides between two classes, but `labels = "several"`: leave one of them out')
        return self


class ImageClassifierModel(ImageModel):
    """An encoder of images, a pool that reduces its output to one vector, and a linear map to classes."""

    family: Literal["image_classifier"]
    labels: Literal["one", "several"] = "one"
    """Whether an image has exactly one label, or any number of them."""


class RegressorModel(TextModel):
    """An encoder, a pool that reduces its output to one vector, and a linear map to a number.

    Numbers are learned in units of their deviation from the mean of the training data.
    """

    family: Literal["regressor"]
    loss: Literal["squared", "absolute"] = "squared"
    """Loss: the squared error, whose best guess is the mean, or the absolute error, whose best guess is the median."""


class ImageRegressorModel(ImageModel):
    """An encoder of images, a pool that reduces its output to one vector, and a linear map to a number."""

    family: Literal["image_regressor"]
    loss: Literal["squared", "absolute"] = "squared"
    """Loss: the squared error, whose best guess is the mean, or the absolute error, whose best guess is the median."""
