"""Initial weights by name, for any network, and what lets deep Transformers train.

The latter is how much residual sums weigh their input, and how small initial weights are.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

from heedful.config.model.transformer import TransformerBlocks, TransformerModel
from heedful.config.train.table import InitializationName
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.initialization import init_linear, init_normal, init_xavier
from heedful.nn.layers.feedforward import FeedForward, SwiGLU
from heedful.nn.layers.residual import Residual
from heedful.nn.recurrent.stack import RecurrentStack, init_recurrent

_DEVIATION: Final = 0.02


def initialize(model: nn.Module, name: InitializationName | None) -> None:
    """Draw the weights of a network anew from torch's global generator; by default they stay as they were built.

    Gains of the norm's kind, such as DeepNorm's, multiply the new weights too. Norms keep 1 and biases 0; matrices of
    recurrence are orthogonal, and forget gates open, whatever the name.
    """
    if name is None:
        return
    INITIALIZATIONS[name](model)
    scale_initial_weights(model)


@torch.no_grad()
def init_plain_xavier(model: nn.Module) -> None:
    """Initialize matrices uniformly with variance 2 / (inputs + outputs)      Glorot and Bengio 2010

    Unlike `init_xavier`, projections of attention too, as Huang et al. 2020 write.
    """
    init_linear(model, nn.init.xavier_uniform_)


@torch.no_grad()
def init_he(model: nn.Module) -> None:
    """Initialize matrices uniformly with variance 2 / inputs, for ReLUs      He et al. 2015"""

    def fill(matrix: torch.Tensor, gain: float) -> None:
        bound = gain * math.sqrt(6 / matrix.shape[1])
        nn.init.uniform_(matrix, -bound, bound)

    init_linear(model, fill)


@torch.no_grad()
def init_orthogonal(model: nn.Module) -> None:
    """Initialize each matrix as an orthogonal one, or as the part of one      Saxe et al. 2014"""
    init_linear(model, nn.init.orthogonal_)


@torch.no_grad()
def init_bert(model: nn.Module) -> None:
    """Initialize matrices and embeddings to N(0, 0.02^2), truncated at two deviations      Devlin et al. 2019"""
    init_normal(model, _DEVIATION)
    _keep_recurrence(model)


@torch.no_grad()
def init_gpt2(model: nn.Module) -> None:
    """Initialize matrices and embeddings to N(0, 0.02^2)      Radford et al. 2019, 2.3

    Matrices that write to the residual stream are smaller by sqrt(1 / sums), the number of residual sums of their
    encoder or decoder, so that the variance of the stream does not grow with its depth.
    """
    init_normal(model, _DEVIATION, truncated=False)
    for stack in model.modules():
        blocks = getattr(stack, "blocks", None)
        if isinstance(blocks, nn.ModuleList):
            sums = sum(isinstance(module, Residual) for module in blocks.modules())
            for module in blocks.modules():
                match module:
                    case SelfAttention() | CrossAttention():
                        nn.init.normal_(module.output.weight, std=_DEVIATION / math.sqrt(max(1, sums)))
                    case FeedForward() | SwiGLU():
                        nn.init.normal_(module.out.weight, std=_DEVIATION / math.sqrt(max(1, sums)))
    _keep_recurrence(model)


def _keep_recurrence(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, RecurrentStack):
            init_recurrent(module)


INITIALIZATIONS: Final[Mapping[InitializationName, Callable[[nn.Module], None]]] = {
    "xavier": init_xavier,
    "plain_xavier": init_plain_xavier,
    "he": init_he,
    "orthogonal": init_orthogonal,
    "bert": init_bert,
    "gpt2": init_gpt2,
}


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
