"""The weights of a model that another one starts from, by their names there."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.data.tokenize.extending import Extended
from heedful.data.tokenize.vocabularies import Vocabularies
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


def with_new_pieces(weights: Mapping[str, Tensor], model: nn.Module, vocabularies: Vocabularies) -> dict[str, Tensor]:
    """Return the weights of a start for a model whose vocabularies have grown.

    The row of a new piece, in embeddings, outputs and their biases, is the mean of those of the pieces it replaces.
    """
    own, grown = dict(model.named_parameters()), dict(weights)
    for name, weight in weights.items():
        if name not in own or own[name].shape == weight.shape:
            continue
        reads = "source" if name.startswith("encoder.") else "target"
        tokenizer = vocabularies[reads if reads in vocabularies.tokenizers else "text"]
        parts = tokenizer.parts if isinstance(tokenizer, Extended) else ()
        if len(weight) + len(parts) != tokenizer.size or own[name].shape != (tokenizer.size, *weight.shape[1:]):
            raise UserError(
                f"`tokenizer.extend` adds rows to embeddings, but `{name}` of this model does not have one row per "
                "piece: leave it out."
            )
        new = [weight[list(ids)].mean(0) for ids in parts]
        grown[name] = torch.cat([weight.detach(), torch.stack(new).detach()])
    return grown


def encoder_prefix(network: nn.Module) -> str:
    """Return the prefix of the names of an encoder's parameters."""
    encoder = reader_of(network)
    return next(f"{name}." for name, module in network.named_modules() if module is encoder)
