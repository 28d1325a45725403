"""The gates of the LSTM and the GRU, one equation at a time, and the shapes of torch's modules.

A cell gives its state, not its gates: these are read from states that show them. A forget gate is what a memory of
ones adds to the new memory, and where the candidate is 1, the new memory is the input gate.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.stack import CellKind, RecurrentStack
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_ROWS, _INPUTS, _WIDTH = 2, 3, 4  # n, d and h of the text
_OPEN = 50.0  # a bias with which a sigmoid, or a tanh, is 1 to the last digit
_LSTM, _GRU = ("input", "forget", "candidate", "output"), ("reset", "update", "candidate")  # in torch's order
Gate = tuple[Tensor, Tensor, Tensor]  # W_x, W_h and b, for vectors that are rows: X W_x + H W_h + b


class _Cell:
    """A layer of Heedful with random weights, an input and a state before it."""

    def __init__(self, kind: CellKind, names: tuple[str, ...]) -> None:
        self.stack = cast(RecurrentStack, randomize(RecurrentStack(kind, _INPUTS, _WIDTH)))
        self.names, self.memory = names, kind == "lstm"
        self.x, self.h, self.c = numbers(_ROWS, _INPUTS), numbers(_ROWS, _WIDTH), numbers(_ROWS, _WIDTH)

    def gate(self, name: str) -> Gate:
        """Return the matrices and the bias of a gate."""
        rows = self._rows(name)
        w_x, w_h, b_x, b_h = (weight.detach()[rows] for weight in self._weights())
        return w_x.T.clone(), w_h.T.clone(), b_x + b_h

    @torch.no_grad()
    def fix(self, name: str, bias: float) -> None:
        """Give a gate one value, whatever goes in."""
        for weight, value in zip(self._weights(), (0.0, 0.0, bias, 0.0), strict=True):
            weight[self._rows(name)] = value

    @torch.no_grad()
    def copy_past(self) -> None:
        """Let the candidate be tanh of what the reset gate leaves of the state."""
        self.fix("candidate", 0.0)
        self._weights()[1][self._rows("candidate")] = torch.eye(_WIDTH, dtype=torch.float64)

    @torch.no_grad()
    def step(self, c: Tensor | None = None, x: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return H_t and C_t, the latter of an LSTM."""
        before = RecurrentState(self.h[None], (self.c if c is None else c)[None] if self.memory else None)
        _, after = self.stack.step(self.x if x is None else x, before)
        return after.hidden[0], after.hidden[0] if after.cell is None else after.cell[0]

    def sum(self, name: str, h: Tensor | None = None) -> Tensor:
        """Return X_t W_x + H_(t-1) W_h + b, by the text."""
        w_x, w_h, b = self.gate(name)
        return self.x @ w_x + (self.h if h is None else h) @ w_h + b

    def _weights(self) -> list[Tensor]:
        return cast(list[Tensor], cast(nn.RNNBase, self.stack.layers[0]).all_weights[0])

    def _rows(self, name: str) -> slice:
        first = self.names.index(name) * _WIDTH
        return slice(first, first + _WIDTH)


def _none() -> Tensor:
    return torch.zeros(_ROWS, _WIDTH, dtype=torch.float64)


def _lstm(compare: Callable[[_Cell], tuple[Tensor, Tensor]]) -> Computed:
    """Compare what a formula gives with what Heedful gives."""
    with drawn():
        return Computed(*compare(_Cell("lstm", _LSTM)))


# --- LSTM -------------------------------------------------------------------------------------------------------------


def lstm_input_gate() -> Computed:
    """I_t = sigmoid(X_t W_xi + H_(t-1) W_hi + b_i)"""

    def compare(cell: _Cell) -> tuple[Tensor, Tensor]:
        text = torch.sigmoid(cell.sum("input"))
        cell.fix("candidate", _OPEN)
        return text, cell.step(c=_none())[1]

    return _lstm(compare)


def lstm_forget_gate() -> Computed:
    """F_t = sigmoid(X_t W_xf + H_(t-1) W_hf + b_f)"""

    def compare(cell: _Cell) -> tuple[Tensor, Tensor]:
        return torch.sigmoid(cell.sum("forget")), cell.step(c=_none() + 1)[1] - cell.step(c=_none())[1]

    return _lstm(compare)


def lstm_output_gate() -> Computed:
    """O_t = sigmoid(X_t W_xo + H_(t-1) W_ho + b_o)"""

    def compare(cell: _Cell) -> tuple[Tensor, Tensor]:
        h, c = cell.step()
        return torch.sigmoid(cell.sum("output")), h / torch.tanh(c)

    return _lstm(compare)


def lstm_candidate() -> Computed:
    """The candidate tanh(X_t W_xc + H_(t-1) W_hc + b_c)"""

    def compare(cell: _Cell) -> tuple[Tensor, Tensor]:
        text = torch.tanh(cell.sum("candidate"))
        cell.fix("input", _OPEN)
        return text, cell.step(c=_none())[1]

    return _lstm(compare)


def _memory(cell: _Cell) -> Tensor:
    i, f = torch.sigmoid(cell.sum("input")), torch.sigmoid(cell.sum("forget"))
    return f * cell.c + i * torch.tanh(cell.sum("candidate"))


def memory_of_the_lstm() -> Computed:
    """C_t = F_t * C_(t-1) + I_t * candidate"""
    return _lstm(lambda cell: (_memory(cell), cell.step()[1]))


def lstm_state() -> Computed:
    """H_t = O_t * tanh(C_t)"""
    return _lstm(lambda cell: (torch.sigmoid(cell.sum("output")) * torch.tanh(_memory(cell)), cell.step()[0]))


def lstm_gate_widths() -> Computed:
    """Four letters for the widths of I, F, O and the candidate in the text: h, f, o and c; one, as * needs"""
    with drawn():
        cell = _Cell("lstm", _LSTM)
        widths = {cell.gate(name)[2].numel() for name in _LSTM}
        return Computed([float(len({"h", "f", "o", "c"}))], [float(len(widths))], [1.0])


def lstm_keeps_its_memory() -> Computed:
    """C_t = C_(t-1) where the forget gate is 1 and the input gate is 0"""

    def compare(cell: _Cell) -> tuple[Tensor, Tensor]:
        cell.fix("forget", _OPEN)
        cell.fix("input", -_OPEN)
        return cell.c, cell.step()[1]

    return _lstm(compare)


def roles_of_the_gates() -> Computed:
    """A gate of 0: nothing is read, C_t = F_t * C_(t-1); C_t = I_t * candidate, a reset; nothing is put out, H_t = 0"""
    with drawn():
        cell = _Cell("lstm", _LSTM)
        i, f = torch.sigmoid(cell.sum("input")), torch.sigmoid(cell.sum("forget"))
        text, ours = [f * cell.c, i * torch.tanh(cell.sum("candidate")), _none()], []
        weights = {name: weight.clone() for name, weight in cell.stack.state_dict().items()}
        for name in ("input", "forget", "output"):
            cell.stack.load_state_dict(weights)
            cell.fix(name, -_OPEN)
            h, c = cell.step()
            ours.append(h if name == "output" else c)
        return Computed(torch.cat(text), torch.cat(ours))


def memory_like_the_state() -> Computed:
    """The memory C_t is n x h, as the state H_t is: n = 2, h = 4"""
    with drawn():
        h, c = _Cell("lstm", _LSTM).step()
        return Computed([_ROWS, _WIDTH] * 2, [*h.shape, *c.shape])


# --- GRU --------------------------------------------------------------------------------------------------------------


def _gru_cell() -> _Cell:
    return _Cell("gru_paper", _GRU)


def _gru_candidate(cell: _Cell, inside: bool) -> Tensor:
    """Return tanh(X_t W_xh + (R_t * H_(t-1)) W_hh) + b_h, or with b_h inside of tanh."""
    w_x, w_h, b = cell.gate("candidate")
    reset = torch.sigmoid(cell.sum("reset"))
    known = cell.x @ w_x + (reset * cell.h) @ w_h
    return torch.tanh(known + b) if inside else torch.tanh(known) + b


def gru_reset_gate() -> Computed:
    """R_t = sigmoid(X_t W_xr + H_(t-1) W_hr + b_r)"""
    with drawn():
        cell = _gru_cell()
        text = torch.sigmoid(cell.sum("reset"))
        cell.fix("update", -_OPEN)
        cell.copy_past()
        return Computed(text, torch.atanh(cell.step()[0]) / cell.h)


def gru_update_gate() -> Computed:
    """Z_t with W_xr, W_hr and b_r in the text, so that it is R_t; with W_xz, W_hz and b_z"""
    with drawn():
        cell = _gru_cell()
        text, right = torch.sigmoid(cell.sum("reset")), torch.sigmoid(cell.sum("update"))
        cell.fix("candidate", _OPEN)  # H_t = Z_t * H_(t-1) + 1 - Z_t
        return Computed(text, (cell.step()[0] - 1) / (cell.h - 1), right)


def gru_shapes() -> Computed:
    """W_xr and W_xz are d x h, W_hr and W_hz h x h, b_r and b_z of width h; R_t and Z_t are n x h, as the state is"""
    with drawn():
        cell = _gru_cell()
        own = [size for name in ("reset", "update") for weight in cell.gate(name) for size in weight.shape]
        gate = [_INPUTS, _WIDTH, _WIDTH, _WIDTH, _WIDTH]
        return Computed([*gate, *gate, _ROWS, _WIDTH], [*own, *cell.step()[0].shape])


def gru_candidate() -> Computed:
    """tanh(X_t W_xh + (R_t * H_(t-1)) W_hh) + b_h in the text; b_h is inside of tanh"""
    with drawn():
        cell = _gru_cell()
        text, right = _gru_candidate(cell, inside=False), _gru_candidate(cell, inside=True)
        cell.fix("update", -_OPEN)
        return Computed(text, cell.step()[0], right)


def gru_state() -> Computed:
    """H_t = Z_t * H_(t-1) + (1 - Z_t) * candidate"""
    with drawn():
        cell = _gru_cell()
        z = torch.sigmoid(cell.sum("update"))
        return Computed(z * cell.h + (1 - z) * _gru_candidate(cell, inside=True), cell.step()[0])


def gru_keeps_its_state() -> Computed:
    """Z_t = 1: H_t = H_(t-1), with one input and with another"""
    with drawn():
        cell = _gru_cell()
        cell.fix("update", _OPEN)
        states = [cell.step(x=x)[0] for x in (cell.x, numbers(_ROWS, _INPUTS))]
        return Computed(torch.cat([cell.h, cell.h]), torch.cat(states))


def gru_takes_the_candidate() -> Computed:
    """Z_t = 0: H_t is the candidate"""
    with drawn():
        cell = _gru_cell()
        text = _gru_candidate(cell, inside=True)
        cell.fix("update", -_OPEN)
        return Computed(text, cell.step()[0])


def gru_resets() -> Computed:
    """R_t = 0: the candidate is tanh(X_t W_xh + b_h), without the past; R_t = 1: with all of H_(t-1)"""
    with drawn():
        cell = _gru_cell()
        cell.fix("update", -_OPEN)
        w_x, w_h, b = cell.gate("candidate")
        text, ours = [torch.tanh(cell.x @ w_x + b), torch.tanh(cell.x @ w_x + cell.h @ w_h + b)], []
        for bias in (-_OPEN, _OPEN):
            cell.fix("reset", bias)
            ours.append(cell.step()[0])
        return Computed(torch.cat(text), torch.cat(ours))


def gru_has_no_memory() -> Computed:
    """A GRU keeps one vector and has three sums per step, an LSTM two vectors and four sums"""
    with drawn():
        cells = _gru_cell(), _Cell("lstm", _LSTM)
        parts = [len(cell.stack.start(1, cell.x).parts) for cell in cells]
        sums = [cast(nn.RNNBase, cell.stack.layers[0]).all_weights[0][0].shape[0] / _WIDTH for cell in cells]
        return Computed([1, 3, 2, 4], [parts[0], sums[0], parts[1], sums[1]])


# --- the listings -----------------------------------------------------------------------------------------------------


def _listing(kind: CellKind, library: type[nn.LSTM | nn.GRU]) -> Computed:
    """Run torch's module and Heedful's stack with the same weights: shapes and outputs of both."""
    with drawn():
        stack = cast(RecurrentStack, randomize(RecurrentStack(kind, 10, 20, layers=2)))
        rnn = library(input_size=10, hidden_size=20, num_layers=2).double()
        with torch.no_grad():
            for own, weights in zip(stack.layers, rnn.all_weights, strict=True):
                for weight, value in zip(weights, cast(nn.RNNBase, own).all_weights[0], strict=True):
                    weight.copy_(value)
        x, h0, c0 = numbers(5, 3, 10), numbers(2, 3, 20), numbers(2, 3, 20)
        memory = kind == "lstm"
        output, last = rnn(x, (h0, c0) if memory else h0)
        y, state = stack(
            x.transpose(0, 1).flatten(0, 1), Layout.of([5, 5, 5]), RecurrentState(h0, c0 if memory else None)
        )
        ours = [y.unflatten(0, (3, 5)).transpose(0, 1), *state.parts]
        shapes = [5, 3, 20, *[2, 3, 20] * len(state.parts)]  # as printed
        text = [output, *(last if memory else [last])]
        return Computed(
            [*shapes, *(value for part in text for value in part.flatten().tolist())],
            [*(size for part in ours for size in part.shape), *(v for part in ours for v in part.flatten().tolist())],
        )


def shapes_of_lstm() -> Computed:
    """nn.LSTM(10, 20, 2) of 3 sentences of 5 words: [5, 3, 20], [2, 3, 20] and [2, 3, 20], and the same numbers"""
    return _listing("lstm", nn.LSTM)


def shapes_of_gru() -> Computed:
    """nn.GRU(10, 20, 2) of 3 sentences of 5 words: [5, 3, 20] and [2, 3, 20], and the same numbers"""
    return _listing("gru", nn.GRU)


def gru_of_the_library() -> Computed:
    """tanh(X_t W_xh + (R_t * H_(t-1)) W_hh + b_h) by the equation; tanh(X_t W_xh + R_t * (H_(t-1) W_hh)) by nn.GRU"""
    with drawn():
        cell = _Cell("gru", _GRU)
        z = torch.sigmoid(cell.sum("update"))
        return Computed(z * cell.h + (1 - z) * _gru_candidate(cell, inside=True), cell.step()[0])


def vanilla_with_two_biases() -> Computed:
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)"""
    with drawn():
        stack, x = cast(RecurrentStack, randomize(RecurrentStack("rnn_tanh", _INPUTS, _WIDTH))), numbers(4, _INPUTS)
        w_ih, w_hh, b_ih, b_hh = (w.detach() for w in cast(nn.RNNBase, stack.layers[0]).all_weights[0])
        h, states = torch.zeros(_WIDTH, dtype=torch.float64), []
        for x_t in x:
            h = torch.tanh(w_ih @ x_t + b_ih + w_hh @ h + b_hh)
            states.append(h)
        return Computed(torch.stack(states), stack(x, Layout.of([4]))[0])


def state_of_the_previous_layer() -> Computed:
    """h_(t-1) of the previous layer in the text, in a stack of two; that of the same layer"""
    with drawn():
        stack = cast(RecurrentStack, randomize(RecurrentStack("rnn_tanh", _WIDTH, _WIDTH, layers=2)))
        x = numbers(3, _WIDTH)
        weights = [[w.detach() for w in cast(nn.RNNBase, layer).all_weights[0]] for layer in stack.layers]

        def run(below: bool) -> Tensor:
            h, states = [torch.zeros(_WIDTH, dtype=torch.float64) for _ in range(2)], []
            for value in x:
                before = list(h)
                for layer, (w_ih, w_hh, b_ih, b_hh) in enumerate(weights):
                    last = before[0] if below else before[layer]
                    h[layer] = torch.tanh(w_ih @ (value if layer == 0 else h[0]) + b_ih + w_hh @ last + b_hh)
                states.append(h[1])
            return torch.stack(states)

        return Computed(run(below=True), stack(x, Layout.of([3]))[0], run(below=False))
