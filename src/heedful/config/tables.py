"""The tables of a recipe, each right by itself; `recipe.Recipe` adds what they demand of each other."""

from pydantic import Field

from heedful.config.data import Data
from heedful.config.decode import Decode, Evaluate
from heedful.config.model.any import AnyModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.section import Section
from heedful.config.tokenizer import AnyTokenizer, ByteBpe
from heedful.config.train import Train


class Tables(Section):
    """All that a recipe may say."""

    task: str | None = None  # what the model is trained for; by default what its family is usually for
    data: Data
    tokenizer: AnyTokenizer = Field(default_factory=ByteBpe)
    model: AnyModel = Field(default_factory=TransformerModel)
    train: Train = Field(default_factory=Train)
    decode: Decode = Field(default_factory=Decode)
    evaluate: Evaluate = Field(default_factory=Evaluate)
