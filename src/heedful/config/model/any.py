"""Every [model] table that a recipe can have."""

from typing import Annotated

from pydantic import Field

from heedful.config.model.bert import BertModel
from heedful.config.model.classifier import ClassifierModel
from heedful.config.model.mixed import MixedModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel

AnyModel = Annotated[
    TransformerModel | RecurrentModel | MixedModel | ClassifierModel | BertModel, Field(discriminator="family")
]
