"""Which layers of an encoder are trained, and how fast: freezing, and learning rates that decay from the top down."""

from typing import Literal

from torch import nn

from heedful.base.errors import UserError, counted
from heedful.models.networks import LanguageModel, reader_of
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.training.optimizers.build import Scales


def layer_scales(model: nn.Module, decay: float) -> Scales:
    """Return rates by which a layer learns `decay` times as fast as the layer above it      Howard and Ruder 2018, 3.2

    A head on top of the encoder has the full rate, the last block `decay` times that rate, the embedding the lowest.
    """
    if decay == 1:
        return {}
    depths = _by_depth(_encoder(model, "train.layer_decay"))
    return {parameter: decay**height for height, part in enumerate(reversed(depths), start=1) for parameter in part}


def freeze(model: nn.Module, what: Literal["encoder"] | int | None) -> None:
    """Exclude weights from training: the whole encoder, or its embedding and its first `what` blocks."""
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


def _encoder(model: nn.Module, key: str) -> TransformerEncoder | TransformerDecoder:
    encoder = None if isinstance(model, LanguageModel) else reader_of(model)
    if not isinstance(encoder, TransformerEncoder | TransformerDecoder):
        raise UserError(f"`{key}` needs a Transformer encoder, which this model does not have: leave it out.")
    return encoder


def _by_depth(encoder: TransformerEncoder | TransformerDecoder) -> list[list[nn.Parameter]]:
    """Return the parameters of the embedding, then of each block; a final norm belongs to the last block.

    Markers of the embedding are new, as a head is.
    """
    embedding = [weight for weight in encoder.embedding.parameters() if weight is not encoder.embedding.markers]
    parts = [embedding, *(list(block.parameters()) for block in encoder.blocks)]
    parts[-1] += encoder.final.parameters()
    return parts
