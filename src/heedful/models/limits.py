"""How long sentences may be for a network."""

from collections.abc import Iterator
from typing import cast

from torch import nn

from heedful.models.protocols import Generator
from heedful.nn.alignments.networks import Location
from heedful.nn.layers.positions import Learned


def source_limit(model: Generator) -> int | None:
    """Return the number of source tokens that a network has positions for; None if it is unlimited."""
    if model.encoder is None:
        return model.decoder.longest
    encoder = cast(nn.Module, model.encoder)
    return min((*position_limit(encoder), *place_limit(cast(nn.Module, model))), default=None)


def position_limit(part: nn.Module) -> Iterator[int]:
    """Yield the number of positions of each table of learned positions."""
    return (module.limit for module in part.modules() if isinstance(module, Learned))


def place_limit(part: nn.Module) -> Iterator[int]:
    """Yield the number of keys that each alignment by place can score."""
    return (module.weight.shape[1] for module in part.modules() if isinstance(module, Location))
