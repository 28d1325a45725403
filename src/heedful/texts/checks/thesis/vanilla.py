"""The vanilla cell, written out, for the checks of recurrent networks."""

from typing import cast

import torch
from torch import Tensor, nn

from heedful.nn.recurrent.stack import RecurrentStack

Matrices = tuple[Tensor, Tensor, Tensor]  # of x, of h, and the bias


def matrices(stack: RecurrentStack, direction: int = 0) -> Matrices:
    """Return W_x, W_h and b of a vanilla cell."""
    w_x, w_h, b_x, b_h = (one.detach() for one in cast(nn.RNNBase, stack.layers[0]).all_weights[direction])
    return w_x, w_h, b_x + b_h


def vanilla_states(x_TI: Tensor, cell: Matrices, first: Tensor | None = None) -> Tensor:
    """Return h(t) = tanh(W_x x(t) + W_h h(t-1) + b), from h(0), by default zeros."""
    w_x, w_h, b = cell
    h, states = torch.zeros_like(b) if first is None else first, []
    for x in x_TI:
        h = torch.tanh(w_x @ x + w_h @ h + b)
        states.append(h)
    return torch.stack(states)
