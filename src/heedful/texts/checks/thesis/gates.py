"""LSTM and GRU: section 2.1.2. The gates are read out of the running cells, as their equations say what they do."""

from typing import cast

import torch
from torch import Tensor, nn

from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.stack import CellKind, RecurrentStack
from heedful.texts.checks.by_hand import INPUTS, WIDTH, gates_of, random_stack
from heedful.texts.checks.computed import Computed, drawn, numbers


def _sum(gate: tuple[Tensor, Tensor, Tensor], x: Tensor, h: Tensor) -> Tensor:
    """Return x W_x + h W_h + b."""
    return gate[0] @ x + gate[1] @ h + gate[2]


def _step(stack: RecurrentStack, x: Tensor, h: Tensor, c: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return h(t) and, of an LSTM, C(t)."""
    memory = None if c is None else c[None, None]
    _, after = stack.step(x[None], RecurrentState(h[None, None], memory))
    cell = after.hidden if after.cell is None else after.cell
    return after.hidden[0, 0].detach(), cell[0, 0].detach()


def lstm_gates() -> Computed:
    """I, F, O = sigmoid(x(t) W_x + h(t-1) W_h + b), each with its own; Heedful's from what a step does with C"""
    with drawn():
        stack, x, h = random_stack("lstm"), numbers(INPUTS), numbers(WIDTH)
        i, f, candidate, o = gates_of(stack, 4)
        text = [torch.sigmoid(_sum(gate, x, h)) for gate in (i, f, o)]
        zeros, ones = torch.zeros(WIDTH, dtype=torch.float64), torch.ones(WIDTH, dtype=torch.float64)
        after, empty = _step(stack, x, h, zeros)
        _, full = _step(stack, x, h, ones)
        # C(t) = F C(t-1) + I candidate, and h(t) = O tanh(C(t)).
        ours = [empty / torch.tanh(_sum(candidate, x, h)), full - empty, after / torch.tanh(empty)]
        return Computed(torch.cat(text), torch.cat(ours))


def sizes_of_the_lstm() -> Computed:
    """Rows and columns of W_x: d x k, of W_h: k x k, and of b: 1 x k, of the three gates and of the candidate"""
    with drawn():
        stack = RecurrentStack("lstm", INPUTS, WIDTH)
    ours = [size for w_x, w_h, b in gates_of(stack, 4) for size in (*w_x.T.shape, *w_h.T.shape, *b[None].shape)]
    return Computed([INPUTS, WIDTH, WIDTH, WIDTH, 1, WIDTH] * 4, [float(one) for one in ours])


def lstm_output() -> Computed:
    """h(t) = O(t) * tanh(C(t))"""
    with drawn():
        stack, x, h, c = random_stack("lstm"), numbers(INPUTS), numbers(WIDTH), numbers(WIDTH)
        after, memory = _step(stack, x, h, c)
        return Computed(torch.sigmoid(_sum(gates_of(stack, 4)[3], x, h)) * torch.tanh(memory), after)


def _set_bias(stack: RecurrentStack, gates: int, values: dict[int, float]) -> None:
    """Open (40) or close (-40) gates, whatever the input is."""
    layer = cast(nn.RNNBase, stack.layers[0])
    with torch.no_grad():
        for gate, value in values.items():
            cast(nn.Parameter, layer.bias_ih_l0).view(gates, WIDTH)[gate] = value


def lstm_memory() -> Computed:
    """C(t) is C(t-1) where F = 1 and I = 0, and the candidate where F = 0 and I = 1; h(t) is 0 where O = 0"""
    with drawn():
        stack, x, h, c = random_stack("lstm"), numbers(INPUTS), 0.1 * numbers(WIDTH), numbers(WIDTH)
        candidate = torch.tanh(_sum(gates_of(stack, 4)[2], x, h))
        _set_bias(stack, 4, {0: -40.0, 1: 40.0, 3: -40.0})
        hidden, kept = _step(stack, x, h, c)
        _set_bias(stack, 4, {0: 40.0, 1: -40.0})
        _, written = _step(stack, x, h, c)
        return Computed(torch.cat([c, candidate, torch.zeros_like(c)]), torch.cat([kept, written, hidden]))


def gru_gates() -> Computed:
    """R, Z = sigmoid(x(t) W_x + h(t-1) W_h + b), each with its own; Heedful's from what a step does with h"""
    with drawn():
        stack, x, h = random_stack("gru_paper"), numbers(INPUTS), numbers(WIDTH)
        r, z, n = gates_of(stack, 3)
        text = [torch.sigmoid(_sum(gate, x, h)) for gate in (r, z)]
        candidate = torch.tanh(n[0] @ x + n[1] @ (text[0] * h) + n[2])
        after, _ = _step(stack, x, h)
        update = (after - candidate) / (h - candidate)  # h(t) = Z h(t-1) + (1 - Z) candidate
        # With Z = 0 a step returns the candidate, tanh(x W + (R h) U + b): solved for R.
        _set_bias(stack, 3, {1: -40.0})
        shown, _ = _step(stack, x, h)
        reset = torch.linalg.solve(n[1], torch.atanh(shown) - n[0] @ x - n[2]) / h
        return Computed(torch.cat(text), torch.cat([reset, update]))


def gru_extremes() -> Computed:
    """h(t) is h(t-1) where Z = 1 and the candidate where Z = 0, which ignores the past where R = 0"""
    with drawn():
        stack, x, h = random_stack("gru_paper"), numbers(INPUTS), 0.1 * numbers(WIDTH)
        n = gates_of(stack, 3)[2]
        _set_bias(stack, 3, {1: 40.0})
        kept, _ = _step(stack, x, h)
        _set_bias(stack, 3, {0: -40.0, 1: -40.0})
        fresh, _ = _step(stack, x, h)
        return Computed(torch.cat([h, torch.tanh(n[0] @ x + n[2])]), torch.cat([kept, fresh]))


def gates_counted() -> Computed:
    """Weights of an LSTM, three gates and a candidate, and of a GRU, two and one, in vanilla cells: 4 and 3"""
    kinds: tuple[CellKind, ...] = ("rnn_tanh", "lstm", "gru_paper")
    with drawn():
        stacks = [RecurrentStack(kind, INPUTS, WIDTH) for kind in kinds]
    counts = [sum(weight.numel() for weight in stack.parameters()) for stack in stacks]
    return Computed([4.0, 3.0], [counts[1] / counts[0], counts[2] / counts[0]])
