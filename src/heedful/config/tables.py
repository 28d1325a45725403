"""The tables of a recipe, each valid by itself; `recipe.Recipe` adds the checks across tables."""

from typing import TypeVar

from pydantic import Field

from heedful.config.data import Data
from heedful.config.decode import Decode, Evaluate
from heedful.config.model.any import AnyModel
from heedful.config.model.mixed import MixedModel, PairModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.section import Section
from heedful.config.tokenizer import AnyTokenizer, ByteBpe
from heedful.config.train.table import Train

Model = TypeVar("Model", bound=Section)


class Tables(Section):
    """All tables and keys of a recipe."""

    task: str | None = Field(default=None, examples=["translate"])
    """What the model is trained for, such as translate, classify or answer; by default the usual task of its family."""
    data: Data = Field(examples=[{"train": {"source": "train.en", "target": "train.de"}}])
    """Corpora, their form and the size of batches."""
    tokenizer: AnyTokenizer = Field(default_factory=ByteBpe, examples=[{"kind": "unigram", "size": 16000}])
    """Kind and size of the vocabularies."""
    model: AnyModel = Field(default_factory=TransformerModel, examples=[{"preset": "base"}])
    """Family and shape of the network."""
    train: Train = Field(default_factory=Train, examples=[{"steps": 20000}])
    """Optimisation, checkpoints and validation."""
    decode: Decode = Field(default_factory=Decode, examples=[{"beam": 5}])
    """Search for translations."""
    evaluate: Evaluate = Field(default_factory=Evaluate, examples=[{"bleu_tokenize": "13a"}])
    """Computation of scores."""


def model_of(recipe: Tables, kind: type[Model]) -> Model:
    """Return the [model] table of a recipe whose task implies its class."""
    assert isinstance(recipe.model, kind), f"{recipe.model.family} is not a {kind.__name__}"
    return recipe.model


def pair_model(recipe: Tables) -> PairModel:
    """Return the [model] table of a network that maps one sequence to another."""
    model = recipe.model
    assert isinstance(model, TransformerModel | RecurrentModel | MixedModel), f"{model.family} does not map sequences"
    return model
