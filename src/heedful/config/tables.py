"""The tables of a recipe, each valid by itself; `recipe.Recipe` adds the checks across tables."""

from pydantic import Field

from heedful.config.data import Data
from heedful.config.decode import Decode, Evaluate
from heedful.config.model.any import AnyModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.section import Section
from heedful.config.tokenizer import AnyTokenizer, ByteBpe
from heedful.config.train import Train


class Tables(Section):
    """All tables and keys of a recipe."""

    task: str | None = None  # what the model is trained for; by default the usual task of its family
    data: Data  # corpora, their form and the size of batches
    tokenizer: AnyTokenizer = Field(default_factory=ByteBpe)  # kind and size of the vocabularies
    model: AnyModel = Field(default_factory=TransformerModel)  # family and shape of the network
    train: Train = Field(default_factory=Train)  # optimisation, checkpoints and validation
    decode: Decode = Field(default_factory=Decode)  # search for translations
    evaluate: Evaluate = Field(default_factory=Evaluate)  # computation of scores
