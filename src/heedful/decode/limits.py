"""How long sentences may be for a model."""

from collections.abc import Iterator
from typing import cast

from torch import nn

from heedful.models.networks import EncoderDecoder
from heedful.models.recurrent.decoder import RecurrentDecoder
from heedful.nn.alignments.networks import Location
from heedful.nn.layers.positions import Learned


def source_limit(model: EncoderDecoder) -> int | None:
    """The most source tokens that a model has positions for; None where there is no end."""
    encoder = cast(nn.Module, model.encoder)
    return min((*_positions(encoder), *_places(model)), default=None)


def target_limit(model: EncoderDecoder) -> int | None:
    """The most target tokens; what attends to the source alone does not bound them."""
    decoder = cast(nn.Module, model.decoder)
    places = () if isinstance(decoder, RecurrentDecoder) else _places(decoder)
    return min((*_positions(decoder), *places), default=None)


def _positions(part: nn.Module) -> Iterator[int]:
    return (module.limit for module in part.modules() if isinstance(module, Learned))


def _places(part: nn.Module) -> Iterator[int]:
    return (module.weight.shape[1] for module in part.modules() if isinstance(module, Location))
