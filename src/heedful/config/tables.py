"""The tables of a recipe, each valid by itself; `recipe.Recipe` adds the checks across tables."""

from pydantic import Field

from heedful.config.data import Data
from heedful.config.decode import Decode, Evaluate
from heedful.config.model.any import AnyModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.section import Section
from heedful.config.tokenizer import AnyTokenizer, ByteBpe
from heedful.config.train.table import Train


class Tables(Section):
    """All tables and keys of a recipe."""

    task: str | None = None
    """What the model is trained for, such as translate, classify or answer; by default the usual task of its family."""
    data: Data
    """Corpora, their form and the size of batches."""
    tokenizer: AnyTokenizer = Field(default_factory=ByteBpe)
    """Kind and size of the vocabularies."""
    model: AnyModel = Field(default_factory=TransformerModel)
    """Family and shape of the network."""
    train: Train = Field(default_factory=Train)
    """Optimisation, checkpoints and validation."""
    decode: Decode = Field(default_factory=Decode)
    """Search for translations."""
    evaluate: Evaluate = Field(default_factory=Evaluate)
    """Computation of scores."""
