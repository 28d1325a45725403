"""Initial weights by name, for any network: `train.initialization` of a recipe."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch import nn

from heedful.config.train.table import InitializationName
from heedful.models.from_recipe.depth import scale_initial_weights
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
    "he": init_he,
    "orthogonal": init_orthogonal,
    "bert": init_bert,
    "gpt2": init_gpt2,
}
