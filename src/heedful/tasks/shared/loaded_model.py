"""What every model in use has, whatever it does."""

from typing import Generic

from heedful.config.recipe import Recipe
from heedful.models.bundle import Bundle, NetworkType, Tokenizers


class LoadedModel(Generic[NetworkType]):
    """A trained model with its recipe and tokenizers."""

    def __init__(self, bundle: Bundle[NetworkType]) -> None:
        self._bundle = bundle

    @property
    def recipe(self) -> Recipe:
        """The recipe that the model was trained with, every default filled in."""
        return self._bundle.recipe

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of the source and the target side: of models that read texts, one that stands on both."""
        return self._bundle.tokenizers

    @property
    def network(self) -> NetworkType:
        """The PyTorch module: of an ensemble, the first."""
        return self._bundle.model
