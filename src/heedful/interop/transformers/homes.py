"""Which folder writes, refuses and compares the models of a family."""

from importlib import import_module
from types import ModuleType
from typing import Final

_HOMES: Final = {  # by `model.family`; a folder has the modules `refusals`, `writing` and `comparing`
    "transformer": "pairs",
    "bert": "encoders",
    "classifier": "encoders",
    "tagger": "encoders",
    "reader": "encoders",
    "language": "language",
    "regressor": "encoders",
    "image_classifier": "images",
}


def module_of(family: str, name: str) -> ModuleType | None:
    """Return a module of the folder that a family has; None if `transformers` has no such models."""
    home = _HOMES.get(family)
    return None if home is None else import_module(f"{__package__}.{home}.{name}")
