"""How weights start."""

import torch
from torch import nn

from heedful.nn.attention import CrossAttention, SelfAttention
from heedful.nn.feedforward import SwiGLU
from heedful.nn.positions import Learned


@torch.no_grad()
def xavier(model: nn.Module) -> None:
    """Matrices uniform by Glorot and Bengio 2010, biases zero, norms one, learned positions N(0, 1/E).

    A matrix that stacks several projections starts as the single ones would: fusing changes no distribution.
    """
    for module in model.modules():
        match module:
            case nn.Linear():
                _uniform(module, 1)
            case Learned():
                nn.init.normal_(module.weight, std=module.weight.shape[1] ** -0.5)
    for module in model.modules():
        match module:
            case SelfAttention():
                _uniform(module.project, 3)
            case CrossAttention():
                _uniform(module.project_memory, 2)
            case SwiGLU():
                _uniform(module.into, 2)


def _uniform(linear: nn.Linear, stacked: int) -> None:
    for matrix in linear.weight.chunk(stacked):
        nn.init.xavier_uniform_(matrix)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
