"""What lets deep Transformers train: how much residual sums weigh their input, and how small initial weights are."""

from dataclasses import dataclass

import torch
from torch import nn

from heedful.config.model.transformer import TransformerBlocks, TransformerModel
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.layers.feedforward import FeedForward, SwiGLU


@dataclass(frozen=True)
class Scales:
    """The scales of a block: s of its residual sums, and the gain of initial values, outputs and networks."""

    skip: float = 1.0
    gain: float = 1.0


def encoder_scales(config: TransformerBlocks) -> Scales:
    """Return the scales of an encoder's blocks.

    With N blocks, and M in the decoder that reads them:

    deepnorm    alone:           s = (2 N)^(1/4),             gain = (8 N)^(-1/4)           Wang et al. 2022, table 1
                with a decoder:  s = 0.81 (N^4 M)^(1/16),     gain = 0.87 (N^4 M)^(-1/16)
    tfixup      with a decoder:  s = 1,                       gain = 0.67 N^(-1/4)          Huang et al. 2020, 3.2
    """
    blocks = config.layers
    match config.norm:
        case "deepnorm" if isinstance(config, TransformerModel):
            both = blocks**4 * (config.decoder_layers or blocks)
            return Scales(0.81 * both ** (1 / 16), 0.87 * both ** (-1 / 16))
        case "deepnorm":
            return Scales((2 * blocks) ** 0.25, (8 * blocks) ** -0.25)
        case "tfixup":
            return Scales(1.0, 0.67 * blocks**-0.25)
        case _:
            return Scales()


def decoder_scales(config: TransformerBlocks) -> Scales:
    """Return the scales of a decoder's blocks.

    With M blocks:

    deepnorm    alone:            s = (2 M)^(1/4),    gain = (8 M)^(-1/4)           Wang et al. 2022, table 1
                with an encoder:  s = (3 M)^(1/4),    gain = (12 M)^(-1/4)
    tfixup      with an encoder:  s = 1,              gain = (9 M)^(-1/4)           Huang et al. 2020, 3.2
    """
    blocks = getattr(config, "decoder_layers", None) or config.layers
    match config.norm:
        case "deepnorm" if isinstance(config, TransformerModel):
            return Scales((3 * blocks) ** 0.25, (12 * blocks) ** -0.25)
        case "deepnorm":
            return Scales((2 * blocks) ** 0.25, (8 * blocks) ** -0.25)
        case "tfixup":
            return Scales(1.0, (9 * blocks) ** -0.25)
        case _:
            return Scales()


@torch.no_grad()
def scale_initial_weights(model: nn.Module) -> None:
    """Multiply initial values, outputs and networks of all blocks by the gains of their residuals."""
    for block in model.modules():
        if not isinstance(block, EncoderBlock | DecoderBlock):
            continue
        if isinstance(block.attention, SelfAttention):
            _scale_attention(block.attention, block.around_attention.gain)
        if isinstance(block, DecoderBlock) and block.cross is not None and block.around_cross is not None:
            _scale_attention(block.cross, block.around_cross.gain)
        _scale_network(block.network, block.around_network.gain)


@torch.no_grad()
def scale_embeddings(config: TransformerModel, source: nn.Parameter, target: nn.Parameter) -> None:
    """Multiply both embeddings, which may be one matrix, by the gain of the decoder where T-Fixup does."""
    if config.norm == "tfixup":
        for table in {source, target}:
            table.mul_(decoder_scales(config).gain)


def _scale_attention(attention: SelfAttention | CrossAttention, gain: float) -> None:
    if gain == 1:
        return
    projection = attention.project if isinstance(attention, SelfAttention) else attention.project_memory
    projection.weight.split(list(attention.rows))[-1].mul_(gain)
    attention.output.weight.mul_(gain)


def _scale_network(network: nn.Module, gain: float) -> None:
    if gain == 1:
        return
    match network:
        case FeedForward():
            network.into.weight.mul_(gain)
        case SwiGLU():  # the values, not the gates
            network.into.weight.chunk(2)[1].mul_(gain)
        case _:
            raise TypeError(f"a network of {type(network).__name__} has no scale")
    network.out.weight.mul_(gain)
