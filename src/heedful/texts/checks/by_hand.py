"""Formulas that checks of several texts share, written out, and what they are compared with."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from heedful.nn.layers.linear import LayerNorm
from heedful.nn.recurrent.stack import CellKind, RecurrentStack
from heedful.texts.checks.computed import randomize

Matrices = tuple[Tensor, Tensor, Tensor]  # of x, of h, and the bias
INPUTS, WIDTH = 3, 4  # widths of the inputs and of the states of a recurrent layer


def written_softmax(row: list[float]) -> list[float]:
    """Return exp(x_i) / sum_j exp(x_j)."""
    exps = [math.exp(value - max(row)) for value in row]
    return [exp / sum(exps) for exp in exps]


def written_norm(x_NE: Tensor, norm: nn.Module) -> Tensor:
    """Return a (x - mean) / sqrt(variance + epsilon) + b by its definition."""
    assert isinstance(norm, LayerNorm)
    mean = x_NE.mean(1, keepdim=True)
    variance = (x_NE - mean).square().mean(1, keepdim=True)
    return (norm.weight * (x_NE - mean) / (variance + norm.eps).sqrt() + norm.bias).detach()


def random_stack(kind: CellKind, bidirectional: bool = False, inputs: int = INPUTS) -> RecurrentStack:
    """Return a recurrent layer with random weights."""
    return cast(RecurrentStack, randomize(RecurrentStack(kind, inputs, WIDTH, bidirectional=bidirectional)))


def gates_of(stack: RecurrentStack, count: int, direction: int = 0) -> list[Matrices]:
    """Return the matrices of x and of h, and the bias, of each gate."""
    weight_x, weight_h, bias_x, bias_h = (
        weight.detach().chunk(count) for weight in cast(nn.RNNBase, stack.layers[0]).all_weights[direction]
    )
    return [(weight_x[g], weight_h[g], bias_x[g] + bias_h[g]) for g in range(count)]


def vanilla_states(x_TI: Tensor, cell: Matrices, first: Tensor | None = None) -> Tensor:
    """Return h(t) = tanh(W_x x(t) + W_h h(t-1) + b), from h(0), by default zeros."""
    w_x, w_h, b = cell
    h, states = torch.zeros_like(b) if first is None else first, []
    for x in x_TI:
        h = torch.tanh(w_x @ x + w_h @ h + b)
        states.append(h)
    return torch.stack(states)
