"""A recipe: one model, from its data to its scores.

Every key that a recipe may hold is declared in the files of this folder, one file per table, with its default and
bounds. Classes are chosen by `kind` or `family`, one class per kind, so that a key that does not apply to a kind is an
error.
"""

from typing import Self

from pydantic import Field, model_validator

from heedful.config.checks import check_recipe
from heedful.config.data import Data
from heedful.config.decode import Decode, Evaluate
from heedful.config.model.any import AnyModel
from heedful.config.model.mixed import MixedModel, PairModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.section import Section
from heedful.config.tasks import Task
from heedful.config.tokenizer import AnyTokenizer, ByteBpe
from heedful.config.train import Train


class Recipe(Section):
    """One model, from its data to its scores."""

    data: Data
    tokenizer: AnyTokenizer = Field(default_factory=ByteBpe)
    model: AnyModel = Field(default_factory=TransformerModel)
    train: Train = Field(default_factory=Train)
    decode: Decode = Field(default_factory=Decode)
    evaluate: Evaluate = Field(default_factory=Evaluate)

    @property
    def task(self) -> Task:
        """What the model is trained for: it follows from its family."""
        return self.model.task

    @property
    def pair_model(self) -> PairModel:
        """The model table of a translator."""
        assert isinstance(self.model, TransformerModel | RecurrentModel | MixedModel), f"a model that {self.task}s"
        return self.model

    @property
    def label_smoothing(self) -> float:
        """What the recipe says, or what is usual for its task."""
        said = self.train.label_smoothing
        return said if said is not None else 0.1 if self.task == "translate" else 0.0

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        check_recipe(self)
        return self
