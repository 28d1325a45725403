"""The [model] tables of models with an encoder alone: BERT, taggers and readers."""

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from heedful.config.model.encoders import (
    AnyLetters,
    BagEncoderTable,
    RecurrentEncoderTable,
    TransformerEncoderTable,
)
from heedful.config.model.parts import OnPart
from heedful.config.model.positions import PositionsName
from heedful.config.model.transformer import Presets, TransformerStack
from heedful.config.section import Layers, Positions, Share, Width

# --- the [model] table of a masked language model ---------------------------------------------------------------------


BERT_PRESETS: Final[Presets] = {
    "tiny": {"width": 128, "heads": 2, "layers": 2, "inner": 512},  # these three: Turc et al. 2019
    "mini": {"width": 256, "heads": 4, "layers": 4, "inner": 1024},
    "small": {"width": 512, "heads": 8, "layers": 4, "inner": 2048},
    "base": {"width": 768, "heads": 12, "layers": 12, "inner": 3072},  # these two: Devlin et al. 2019
    "large": {"width": 1024, "heads": 16, "layers": 24, "inner": 4096},
}


class BertModel(TransformerStack):
    """BERT (Devlin et al. 2019); defaults are the paper's settings and its base shape."""

    presets = BERT_PRESETS
    norm_in_head: ClassVar[bool] = True
    family: Literal["bert"]
    preset: Literal["tiny", "mini", "small", "base", "large"] | None = Field(default=None, examples=["mini"])
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

    @model_validator(mode="after")
    def _two_texts_are_told_apart(self) -> Self:
        if self.next_sentence and self.segments < 2:
            raise ValueError(
                f"`segments` must be 2 where `next_sentence` is true, to tell two texts apart, "
                f"but is {self.segments}: set `next_sentence = false`, or leave `segments` out"
            )
        return self


# --- the [model] tables of models that score the tokens of a text: taggers and readers --------------------------------


TokenEncoder = Annotated[TransformerEncoderTable | RecurrentEncoderTable | BertModel, Field(discriminator="family")]


class TaggerModel(OnPart):
    """An encoder, and a linear map from its state at the first piece of each word to the word's label."""

    family: Literal["tagger"]
    encoder: Annotated[
        TransformerEncoderTable | RecurrentEncoderTable | BagEncoderTable | BertModel, Field(discriminator="family")
    ] = Field(default=TransformerEncoderTable(), examples=[{"family": "recurrent", "cell": "lstm", "width": 200}])
    """Family and shape of the encoder."""
    dropout: Share = 0.1
    """Dropout before the linear map."""
    head_hidden: Width | None = Field(default=None, examples=[128])
    """Width of a hidden layer with a ReLU before the linear map, with dropout before and after it; by default none."""
    letters: AnyLetters | None = Field(default=None, examples=[{"family": "convolutional", "width": 128}])
    """Reader of the letters of words, whose vector is added to the embedding of a word's first piece."""
    crf: bool = False
    """Whether the labels of a sentence are chosen together, by a linear-chain CRF (Lample et al. 2016).

    With BIO or BIOES labels, it never chooses a forbidden sequence, such as `I-PER` after `O`.
    """
    feedback: Literal["none", "output", "target"] = "none"
    """What a hidden layer reads of the word before, besides the encoder's state of a word: nothing, or one of these.

    target: its label, in training the true one, so that all words are computed at once (teacher forcing), and
    otherwise the model's own; output: the scores of its labels, always the model's own (Jordan 1986). The layer has a
    tanh, and is as wide as `head_hidden` or, by default, the encoder's states.
    """

    @model_validator(mode="after")
    def _labels_are_chosen_one_way(self) -> Self:
        if self.feedback != "none" and self.crf:
            raise ValueError(
                f'`feedback = "{self.feedback}"` chooses labels one after the other, and `crf = true` all together: '
                "leave one of them out"
            )
        if isinstance(self.encoder, BagEncoderTable) and self.encoder.weighting != "equal":
            raise ValueError(
                f'`encoder.weighting = "{self.encoder.weighting}"` weighs the n-grams of whole texts, but a tagger '
                "labels words: leave it out"
            )
        return self


class ReaderModel(OnPart):
    """An encoder, and two scores of every token: that the answer starts there, and that it ends there."""

    family: Literal["reader"]
    encoder: TokenEncoder = Field(
        default=TransformerEncoderTable(segments=2),
        examples=[{"family": "transformer", "preset": "small", "segments": 2}],
    )
    """Family and shape of the encoder, which reads the question and the text together."""
    dropout: Share = 0.1
    """Dropout before the scores."""
    head_hidden: Width | None = Field(default=None, examples=[128])
    """Width of a hidden layer with a ReLU before the scores, with dropout before and after it; by default none."""
    no_answer: bool = False
    """Whether a question may have no answer, as in SQuAD 2.0; the model then predicts the marker `<s>`."""
    mark_matches: bool = False
    """Whether tokens of the text that also occur in the question have a segment of their own (Chen et al. 2017, 3.2).

    It needs `encoder.segments = 3`. With it, a small model without pre-training learns much faster.
    """
