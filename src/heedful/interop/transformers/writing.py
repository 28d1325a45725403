"""Writes a folder that `AutoModel...from_pretrained` and `pipeline` open, with tokenizer and model card."""

from pathlib import Path

from torch import nn

from heedful.interop.transformers.homes import module_of
from heedful.models.bundle import Bundle


def write(bundle: Bundle[nn.Module], folder: Path, precision: str) -> None:
    """Write a model that `refusals` accepts."""
    home = module_of(bundle.recipe.model.family, "writing")
    assert home is not None, "refused before"
    home.write(bundle, folder)
