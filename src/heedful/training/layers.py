"""Which layers of an encoder learn, and how fast: freezing, and rates that fall from the top down."""

from typing import Literal

from torch import nn

from heedful.errors import UserError, counted
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.training.optimizers import Scales


def layer_scales(model: nn.Module, decay: float) -> Scales:
    """The learning rate of a layer is `decay` times that of the layer above it      Howard and Ruder 2018, 3.2

    What stands on an encoder has the whole rate, its last block `decay` of it, its embedding the least.
    """
    if decay == 1:
        return {}
    depths = _by_depth(_encoder(model, "train.layer_decay"))
    return {parameter: decay**height for height, part in enumerate(reversed(depths), start=1) for parameter in part}


def freeze(model: nn.Module, what: Literal["encoder"] | int | None) -> None:
    """Keep weights as they are: the whole encoder, or its embedding and so many of its first blocks."""
    if what is None:
        return
    depths = _by_depth(_encoder(model, "train.freeze"))
    if what != "encoder" and what >= len(depths):
        raise UserError(
            f"`train.freeze` is {what}, but the encoder has {counted(len(depths) - 1, 'layer')}: use a smaller "
            'number, or "encoder" for all of it.'
        )
    for part in depths if what == "encoder" else depths[: what + 1]:
        for parameter in part:
            parameter.requires_grad_(False)


def _encoder(model: nn.Module, key: str) -> TransformerEncoder:
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, TransformerEncoder):
        raise UserError(f"`{key}` is of an encoder with layers of attention, which this model has not: leave it out.")
    return encoder


def _by_depth(encoder: TransformerEncoder) -> list[list[nn.Parameter]]:
    """The parameters of the embedding, then of each block; a last norm belongs to the last block."""
    parts = [list(encoder.embedding.parameters()), *(list(block.parameters()) for block in encoder.blocks)]
    parts[-1] += encoder.final.parameters()
    return parts
