"""The weights of a model that another one starts from, by their names there."""

import re

from torch import Tensor, nn

from heedful.models.networks import reader_of


def weights_for(model: nn.Module, start: nn.Module) -> dict[str, Tensor]:
    """Return the start's weights by their names in a model: all, or with another head the encoder's and shared ones.

    A part outside the encoder whose shape differs, such as the pooler of pairs, is not shared.
    """
    weights: dict[str, Tensor] = dict(start.named_parameters())
    own = dict(model.named_parameters())
    if type(start) is not type(model):
        theirs, ours = encoder_prefix(start), encoder_prefix(model)
        moved = {re.sub(f"^{re.escape(theirs)}", ours, name): weight for name, weight in weights.items()}
        shared = {name for name in moved.keys() & own.keys() if moved[name].shape == own[name].shape}
        return {name: weight for name, weight in moved.items() if name.startswith(ours) or name in shared}
    optional = tuple(getattr(model, "optional_parts", ()))
    return {name: weight for name, weight in weights.items() if name in own or not name.startswith(optional)}


def encoder_prefix(network: nn.Module) -> str:
    """Return the prefix of the names of an encoder's parameters."""
    encoder = reader_of(network)
    return next(f"{name}." for name, module in network.named_modules() if module is encoder)
