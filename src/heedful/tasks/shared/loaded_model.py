"""What every model in use has, whatever it does."""

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
        """The model with all it needs, as it was read."""
        return self._bundle

    @property
    def recipe(self) -> Recipe:
        """The recipe that the model was trained with, every default filled in."""
        return self._bundle.recipe

    @property
    def vocabularies(self) -> Vocabularies:
        """The tokenizers by name: "source" and "target", or "text"; and the names of classes."""
        return self._bundle.vocabularies

    @property
    def network(self) -> NetworkType:
        """The PyTorch module: of an ensemble, the first."""
        return self._bundle.model
