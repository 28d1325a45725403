"""Every [model] table that a recipe can have."""

from typing import Annotated, assert_never

from pydantic import Field

from heedful.config.model.bert import BertModel
from heedful.config.model.classifier import ClassifierModel
from heedful.config.model.encoders import HierarchicalEncoderTable, RecurrentEncoderTable, TransformerEncoderTable
from heedful.config.model.language import LanguageModelTable
from heedful.config.model.mixed import MixedModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.tagger import TaggerModel
from heedful.config.model.transformer import TransformerModel

AnyModel = Annotated[
    TransformerModel | RecurrentModel | MixedModel | ClassifierModel | TaggerModel | BertModel | LanguageModelTable,
    Field(discriminator="family"),
]
AnyEncoder = TransformerEncoderTable | RecurrentEncoderTable | HierarchicalEncoderTable | BertModel | LanguageModelTable


def text_encoder(model: AnyModel) -> AnyEncoder | None:
    """Return the table of the encoder that reads texts, on which another head can be put; None where there is none."""
    match model:
        case ClassifierModel() | TaggerModel():
            return model.encoder
        case BertModel() | LanguageModelTable():
            return model
        case TransformerModel() | RecurrentModel() | MixedModel():
            return None
        case _:
            assert_never(model)
