"""The base class of loaded models of all tasks."""

from typing import Generic

from heedful.config.recipe import Recipe
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle, NetworkType


class LoadedModel(Generic[NetworkType]):
    """A trained model with its recipe and vocabularies."""

    def __init__(self, bundle: Bundle[NetworkType]) -> None:
        self._bundle = bundle

    @property
    def bundle(self) -> Bundle[NetworkType]:
        """Bundle that the model was loaded from."""
        return self._bundle

    @property
    def recipe(self) -> Recipe:
        """Recipe that the model was trained with, with all defaults."""
        return self._bundle.recipe

    @property
    def vocabularies(self) -> Vocabularies:
        """Tokenizers by name: "source" and "target", or "text"; and the names of classes."""
        return self._bundle.vocabularies

    @property
    def network(self) -> NetworkType:
        """PyTorch module; the first one of an ensemble."""
        return self._bundle.model
