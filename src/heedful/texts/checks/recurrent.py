"""Recurrent cells, sequence-to-sequence states and probabilities.

The rows of a text's formulas are vectors, x W; those of Heedful are columns, W x. Both are the same numbers.
"""

from collections.abc import Callable
from itertools import product
from typing import cast

import torch
from torch import Tensor

from heedful.base.packed import Layout, Packed
from heedful.config.model.language import LanguageModelTable
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel
from heedful.nn.layers.linear import Linear
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.texts.checks.by_hand import INPUTS, WIDTH, gates_of, random_stack
from heedful.texts.checks.computed import Computed, drawn, numbers, randomize

_STEPS = 4
Step = Callable[[Tensor, Tensor], Tensor]  # from x(t) and h(t-1) to h(t)


def _run(stack: RecurrentStack, x_TI: Tensor) -> Tensor:
    return cast(Tensor, stack(x_TI, Layout.of([len(x_TI)]))[0].detach())


def _recurrence(step: Step, x_TI: Tensor) -> Tensor:
    """Return the states by h(t) = step(x(t), h(t-1)), from zeros."""
    h, states = torch.zeros(WIDTH, dtype=torch.float64), []
    for x in x_TI:
        h = step(x, h)
        states.append(h)
    return torch.stack(states)


def vanilla() -> Computed:
    """h(t) = tanh(x(t) W_x + h(t-1) W_h + b)"""
    with drawn():
        stack, x = random_stack("rnn_tanh"), numbers(_STEPS, INPUTS)
        ((w_x, w_h, b),) = gates_of(stack, 1)
        return Computed(_recurrence(lambda x, h: torch.tanh(w_x @ x + w_h @ h + b), x), _run(stack, x))


def output_of_state() -> Computed:
    """o(t) = x(t) W_out + b in the text; o(t) = h(t) W_out + b"""
    with drawn():
        stack, x = random_stack("rnn_tanh", inputs=WIDTH), numbers(_STEPS, WIDTH)
        output = cast(Linear, randomize(Linear(WIDTH, 5)))
        h = _run(stack, x)
        weight, bias = output.weight.detach(), output.bias.detach()
        return Computed(x @ weight.T + bias, output(h), h @ weight.T + bias)


def bidirectional() -> Computed:
    """h(t) = [forward(t); backward(t)]"""
    with drawn():
        stack, x = random_stack("rnn_tanh", bidirectional=True), numbers(_STEPS, INPUTS)
        (f,), (b,) = gates_of(stack, 1, 0), gates_of(stack, 1, 1)
        forward = _recurrence(lambda x, h: torch.tanh(f[0] @ x + f[1] @ h + f[2]), x)
        backward = _recurrence(lambda x, h: torch.tanh(b[0] @ x + b[1] @ h + b[2]), x.flip(0)).flip(0)
        return Computed(torch.cat([forward, backward], dim=1), _run(stack, x))


def _lstm(x_TI: Tensor, stack: RecurrentStack, as_written: bool) -> Tensor:
    """Return the states; `as_written` takes the candidate's W_x from the input gate, as the thesis does."""
    i, f, g, o = gates_of(stack, 4)
    h, c, states = *(torch.zeros(WIDTH, dtype=torch.float64) for _ in range(2)), []
    for x in x_TI:
        gates = [torch.sigmoid(w_x @ x + w_h @ h + b) for w_x, w_h, b in (i, f, o)]
        candidate = torch.tanh((i if as_written else g)[0] @ x + g[1] @ h + g[2])
        c = gates[1] * c + gates[0] * candidate
        h = gates[2] * torch.tanh(c)
        states.append(h)
    return torch.stack(states)


def lstm() -> Computed:
    """The gates I, F and O, and h = O * tanh(C)"""
    with drawn():
        stack, x = random_stack("lstm"), numbers(_STEPS, INPUTS)
        return Computed(_lstm(x, stack, as_written=False), _run(stack, x))


def lstm_candidate_as_written() -> Computed:
    """The candidate with W_xi instead of W_xc; h(t), which is not known yet, is read as h(t-1)"""
    with drawn():
        stack, x = random_stack("lstm"), numbers(_STEPS, INPUTS)
        return Computed(_lstm(x, stack, True), _run(stack, x), _lstm(x, stack, False))


def _gru(x_TI: Tensor, stack: RecurrentStack, kind: str = "paper") -> Tensor:
    """Return the states; `kind` "late" mixes in the candidate of the step before, "outside" has the candidate's bias
    outside of tanh and one matrix for both gates."""
    r, z, n = gates_of(stack, 3)
    h, before, states = *(torch.zeros(WIDTH, dtype=torch.float64) for _ in range(2)), []
    for x in x_TI:
        reset = torch.sigmoid(r[0] @ x + r[1] @ h + r[2])
        update = reset if kind == "outside" else torch.sigmoid(z[0] @ x + z[1] @ h + z[2])
        if kind == "outside":
            candidate = torch.tanh(n[0] @ x + n[1] @ (reset * h)) + n[2]
        else:
            candidate = torch.tanh(n[0] @ x + n[1] @ (reset * h) + n[2])
        h = update * h + (1 - update) * (before if kind == "late" else candidate)
        before = candidate
        states.append(h)
    return torch.stack(states)


def gru_late_candidate() -> Computed:
    """h(t) = Z h(t-1) + (1 - Z) candidate(t-1) in the text; candidate(t)"""
    return _gru_check("late")


def gru_of_the_tutorial() -> Computed:
    """One matrix for both gates and the bias outside of tanh in the text"""
    return _gru_check("outside")


def _gru_check(kind: str) -> Computed:
    with drawn():
        stack, x = random_stack("gru_paper"), numbers(_STEPS, INPUTS)
        return Computed(_gru(x, stack, kind), _run(stack, x), None if kind == "paper" else _gru(x, stack))


# --- probabilities ----------------------------------------------------------------------------------------------------


def chain_rule() -> Computed:
    """P(x_1 .. x_T) is the product of P(x_t | x_1 .. x_(t-1)): over all texts of a length, it sums to 1"""
    with drawn():
        table = {"family": "language", "decoder": {"family": "recurrent", "width": 4}}
        model = randomize(build_language_model(LanguageModelTable.model_validate(table), 4))
        assert isinstance(model, LanguageModel)
        total = 0.0
        for text in product(range(4), repeat=3):
            scores = model(Packed.of([[1, *text[:-1]]])).log_softmax(-1)
            total += float(scores[torch.arange(3), torch.tensor(text)].sum().exp().detach())
        return Computed([1.0], [total])
