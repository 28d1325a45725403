"""The [model] table of a reader, which answers questions with spans of a text."""

from typing import Annotated, Literal

from pydantic import Field

from heedful.config.model.bert import BertModel
from heedful.config.model.encoders import OnEncoder, RecurrentEncoderTable, TransformerEncoderTable
from heedful.config.section import Section, Share


class ReaderModel(OnEncoder, Section):
    """An encoder, and two scores of every token: that the answer starts there, and that it ends there."""

    family: Literal["reader"]
    encoder: Annotated[TransformerEncoderTable | RecurrentEncoderTable | BertModel, Field(discriminator="family")] = (
        TransformerEncoderTable(segments=2)
    )
    """Family and shape of the encoder, which reads the question and the text together."""
    dropout: Share = 0.1
    """Dropout before the scores."""
    no_answer: bool = False
    """Whether a question may have no answer, as in SQuAD 2.0; the model then predicts the marker `<s>`."""

    mark_matches: bool = False
    """Whether tokens of the text that also occur in the question have a segment of their own (Chen et al. 2017, 3.2).

    It needs `encoder.segments = 3`. With it, a small model without pre-training learns much faster.
    """
