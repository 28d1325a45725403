"""The Python interface: `load` a model and use it, `train` one from a recipe."""

from heedful.api.model import Model, load
from heedful.api.training import train

__all__ = ["Model", "load", "train"]
