"""The [model] tables of models that score the tokens of a text: taggers and readers."""

from typing import Annotated, Literal

from pydantic import Field

from heedful.config.model.bert import BertModel
from heedful.config.model.encoders import OnEncoder, RecurrentEncoderTable, TransformerEncoderTable
from heedful.config.model.letters import AnyLetters
from heedful.config.section import Section, Share, Width


class TaggerModel(OnEncoder, Section):
    """An encoder, and a linear map from its state at the first piece of each word to the word's label."""

    family: Literal["tagger"]
    encoder: Annotated[TransformerEncoderTable | RecurrentEncoderTable | BertModel, Field(discriminator="family")] = (
        TransformerEncoderTable()
    )
    """Family and shape of the encoder."""
    dropout: Share = 0.1
    """Dropout before the linear map."""
    head_hidden: Width | None = None
    """Width of a hidden layer with a ReLU before the linear map, with dropout before and after it; by default none."""
    letters: AnyLetters | None = None
    """Reader of the letters of words, whose vector is added to the embedding of a word's first piece."""
    crf: bool = False
    """Whether the labels of a sentence are chosen together, by a linear-chain CRF (Lample et al. 2016).

    With BIO or BIOES labels, it never chooses a forbidden sequence, such as `I-PER` after `O`.
    """


class ReaderModel(OnEncoder, Section):
    """An encoder, and two scores of every token: that the answer starts there, and that it ends there."""

    family: Literal["reader"]
    encoder: Annotated[TransformerEncoderTable | RecurrentEncoderTable | BertModel, Field(discriminator="family")] = (
        TransformerEncoderTable(segments=2)
    )
    """Family and shape of the encoder, which reads the question and the text together."""
    dropout: Share = 0.1
    """Dropout before the scores."""
    head_hidden: Width | None = None
    """Width of a hidden layer with a ReLU before the scores, with dropout before and after it; by default none."""
    no_answer: bool = False
    """Whether a question may have no answer, as in SQuAD 2.0; the model then predicts the marker `<s>`."""
    mark_matches: bool = False
    """Whether tokens of the text that also occur in the question have a segment of their own (Chen et al. 2017, 3.2).

    It needs `encoder.segments = 3`. With it, a small model without pre-training learns much faster.
    """
