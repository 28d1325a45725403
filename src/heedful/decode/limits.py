"""How long sequences may be for a model."""

from torch import nn

from heedful.nn.positions import Learned


def position_limit(module: nn.Module) -> int | None:
    """The most tokens that a model, or a part of one, has positions for; None where there is no end."""
    return min((part.limit for part in module.modules() if isinstance(part, Learned)), default=None)
