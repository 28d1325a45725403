"""Back-propagation through time: the equations of a recurrent network without biases and with the identity.

The network that Heedful runs has a ReLU, which is the identity where all weights and inputs are positive. Losses are
l(o, y) = |o - y|^2 / 2.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.layers.linear import Linear
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.texts.checks.computed import Computed, drawn, given, numbers

_STEPS, _INPUTS, _WIDTH, _OUTPUTS = 4, 3, 4, 2  # T, d, h and q of the text


def _positive(*shape: int) -> Tensor:
    return given(torch.rand(*shape, dtype=torch.float64))


def _stack(w_hx: Tensor, w_hh: Tensor) -> RecurrentStack:
    """Return a recurrent network of Heedful with these matrices."""
    stack = RecurrentStack("rnn_relu", w_hx.shape[1], len(w_hh)).double()
    weights = (w_hx, w_hh, torch.zeros(len(w_hh)), torch.zeros(len(w_hh)))
    with torch.no_grad():
        for weight, value in zip(cast(nn.RNN, stack.layers[0]).all_weights[0], weights, strict=True):
            weight.copy_(value)
    return stack


@dataclass
class _Written:
    """The text's equations, in its symbols; lists begin at t = 1."""

    w_hx: Tensor
    w_hh: Tensor
    w_qh: Tensor
    x: Tensor
    y: Tensor

    @cached_property
    def h(self) -> list[Tensor]:
        """h_t = W_hx x_t + W_hh h_(t-1), after h_0 = 0."""
        states = [torch.zeros(_WIDTH, dtype=torch.float64)]
        for x in self.x:
            states.append(self.w_hx @ x + self.w_hh @ states[-1])
        return states

    @cached_property
    def o(self) -> list[Tensor]:
        """o_t = W_qh h_t"""
        return [self.w_qh @ h for h in self.h[1:]]

    @cached_property
    def dl_do(self) -> list[Tensor]:
        """dl(o_t, y_t) / (T do_t)"""
        return [(o - y) / _STEPS for o, y in zip(self.o, self.y, strict=True)]

    @cached_property
    def dl_dh(self) -> list[Tensor]:
        """W_qh^T dL/do_T at the end; W_hh^T dL/dh_(t+1) + W_qh^T dL/do_t before."""
        found = [self.w_qh.T @ self.dl_do[-1]]
        for dl_do in reversed(self.dl_do[:-1]):
            found.insert(0, self.w_hh.T @ found[0] + self.w_qh.T @ dl_do)
        return found


@dataclass
class _Run:
    """The same network as Heedful runs it."""

    stack: RecurrentStack
    output: Linear
    x: Tensor
    y: Tensor

    def loss(self, o: Tensor) -> Tensor:
        """Return the mean over the steps."""
        return (o - self.y).square().sum(1).div(2).mean()

    def read(self) -> tuple[Tensor, Tensor]:
        """Return the states and the outputs of all steps at once, as in training."""
        h, _ = self.stack(self.x, Layout.of([_STEPS]))
        return h, self.output(h)

    def steps(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return the gradients of states and outputs, from single steps."""
        state, states, outputs = self.stack.start(1, self.x), [], []
        for x in self.x:
            _, state = self.stack.step(x[None], state)
            state = RecurrentState(state.hidden.clone())
            states.append(state.hidden)
            outputs.append(self.output(state.hidden[0]))
        loss = self.loss(torch.cat(outputs))
        found = torch.autograd.grad(loss, [*states, *outputs])
        return [one[0, 0] for one in found[:_STEPS]], [one[0] for one in found[_STEPS:]]

    def matrices(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of W_hx, W_hh and W_qh."""
        w_hx, w_hh = cast(nn.RNN, self.stack.layers[0]).all_weights[0][:2]
        first, second, third = torch.autograd.grad(self.loss(self.read()[1]), [w_hx, w_hh, self.output.weight])
        return first, second, third


def _network() -> tuple[_Written, _Run]:
    w_hx, w_hh, w_qh = _positive(_WIDTH, _INPUTS), 0.5 * _positive(_WIDTH, _WIDTH), numbers(_OUTPUTS, _WIDTH)
    x, y = _positive(_STEPS, _INPUTS), numbers(_STEPS, _OUTPUTS)
    output = Linear(_WIDTH, _OUTPUTS, bias=False).double()
    with torch.no_grad():
        output.weight.copy_(w_qh)
    return _Written(w_hx, w_hh, w_qh, x, y), _Run(_stack(w_hx, w_hh), output, x, y)


def linear_states() -> Computed:
    """h_t = W_hx x_t + W_hh h_(t-1)"""
    with drawn():
        text, ours = _network()
        return Computed(torch.stack(text.h[1:]), ours.read()[0])


def linear_outputs() -> Computed:
    """o_t = W_qh h_t"""
    with drawn():
        text, ours = _network()
        return Computed(torch.stack(text.o), ours.read()[1])


def loss_over_steps() -> Computed:
    """L = 1/T sum_t l(o_t, y_t)"""
    with drawn():
        text, ours = _network()
        each = [float((o - y) @ (o - y)) / 2 for o, y in zip(text.o, text.y, strict=True)]
        return Computed([sum(each) / _STEPS], [float(ours.loss(ours.read()[1]).detach())])


def output_gradients() -> Computed:
    """dL/do_t = dl(o_t, y_t) / (T do_t)"""
    with drawn():
        text, ours = _network()
        return Computed(torch.stack(text.dl_do), torch.stack(ours.steps()[1]))


def output_matrix_gradient() -> Computed:
    """dL/dW_qh = sum_t dL/do_t h_t^T"""
    with drawn():
        text, ours = _network()
        total = sum(torch.outer(dl_do, h) for dl_do, h in zip(text.dl_do, text.h[1:], strict=True))
        return Computed(cast(Tensor, total), ours.matrices()[2])


def last_state_gradient() -> Computed:
    """dL/dh_T = W_qh^T dL/do_T"""
    with drawn():
        text, ours = _network()
        return Computed(text.w_qh.T @ text.dl_do[-1], ours.steps()[0][-1])


def state_gradients() -> Computed:
    """dL/dh_t = W_hh^T dL/dh_(t+1) + W_qh^T dL/do_t, for all t < T"""
    with drawn():
        text, ours = _network()
        return Computed(torch.stack(text.dl_dh[:-1]), torch.stack(ours.steps()[0][:-1]))


def expanded_state_gradients() -> Computed:
    """The exercise: dL/dh_t = sum_(i=t..T) (W_hh^T)^(T-i) W_qh^T dL/do_(T+t-i), for all t from 1 to T"""
    with drawn():
        text, ours = _network()
        expanded = []
        for t in range(1, _STEPS + 1):
            terms = [
                torch.linalg.matrix_power(text.w_hh.T, _STEPS - i) @ text.w_qh.T @ text.dl_do[_STEPS + t - i - 1]
                for i in range(t, _STEPS + 1)
            ]
            expanded.append(torch.stack(terms).sum(0))
        return Computed(torch.stack(expanded), torch.stack(ours.steps()[0]))


def input_matrix_gradient() -> Computed:
    """dL/dW_hx = sum_(i=t..T) dL/dh_t x_t^T in the text, whose terms do not depend on i, here with t = 1; sum over t"""
    with drawn():
        text, ours = _network()
        terms = [torch.outer(dl_dh, x) for dl_dh, x in zip(text.dl_dh, text.x, strict=True)]
        return Computed(_STEPS * terms[0], ours.matrices()[0], torch.stack(terms).sum(0))


def state_matrix_gradient() -> Computed:
    """dL/dW_hh = sum_(i=t..T) dL/dh_t h_(t-1)^T in the text, here with t = 2, the first that is not 0; sum over t"""
    with drawn():
        text, ours = _network()
        terms = [torch.outer(dl_dh, h) for dl_dh, h in zip(text.dl_dh, text.h[:-1], strict=True)]
        return Computed((_STEPS - 1) * terms[1], ours.matrices()[1], torch.stack(terms).sum(0))


def stored_gradients() -> Computed:
    """One pass from T to 1 that stores dL/dh_t, from which both the gradient of W_hx and that of W_hh are summed"""
    with drawn():
        text, ours = _network()
        dl_dh, by_input, by_state = (
            torch.zeros(*shape, dtype=torch.float64) for shape in ((_WIDTH,), (_WIDTH, _INPUTS), (_WIDTH, _WIDTH))
        )
        for t in reversed(range(_STEPS)):
            dl_dh = text.w_hh.T @ dl_dh + text.w_qh.T @ text.dl_do[t]
            by_input = by_input + torch.outer(dl_dh, text.x[t])
            by_state = by_state + torch.outer(dl_dh, text.h[t])
        w_hx, w_hh, _ = ours.matrices()
        return Computed(torch.cat([by_input, by_state], dim=1), torch.cat([w_hx, w_hh], 1))


def dependencies_of_the_third_state() -> Computed:
    """h_3 depends on W_hx, W_hh, h_2 and x_3: 1 where the gradient is not 0; on x_2 through h_2 alone: 0 without it"""
    with drawn():
        _, ours = _network()
        x = ours.x.clone().requires_grad_(True)
        _, before = ours.stack.step(x[1:2], RecurrentState(_positive(1, 1, _WIDTH)))
        h_2 = RecurrentState(before.hidden.detach().requires_grad_(True))
        _, after = ours.stack.step(x[2:3], h_2)
        w_hx, w_hh = cast(nn.RNN, ours.stack.layers[0]).all_weights[0][:2]
        found = torch.autograd.grad(after.hidden.sum(), [w_hx, w_hh, h_2.hidden, x])
        sizes = [float(one.abs().sum() > 0) for one in (*found[:3], found[3][2], found[3][1])]
        return Computed([1.0, 1.0, 1.0, 1.0, 0.0], sizes)


def powers_of_eigenvalues() -> Computed:
    """Over T = 30 steps, eigenvalues 0.5, 0.9, 1, 1.1 and 2 of W_hh scale the gradient of x_1 by their power T - 1"""
    with drawn():
        values, steps = torch.tensor([0.5, 0.9, 1.0, 1.1, 2.0], dtype=torch.float64), 30
        stack = _stack(torch.eye(5, dtype=torch.float64), values.diag())
        x = torch.ones(steps, 5, dtype=torch.float64, requires_grad=True)
        _, last = stack(x, Layout.of([steps]))
        (gradient,) = torch.autograd.grad(last.hidden.sum(), x)
        return Computed(values ** (steps - 1), gradient[0], tolerance=1e-4)


def truncated_gradients() -> Computed:
    """Detached after two of four steps, gradients reach back to the start of their segment only"""
    with drawn():
        text, ours = _network()
        total = torch.zeros(_WIDTH, _WIDTH, dtype=torch.float64)
        for first in (0, 2):
            dl_dh = torch.zeros(_WIDTH, dtype=torch.float64)
            for t in (first + 1, first):
                dl_dh = text.w_hh.T @ dl_dh + text.w_qh.T @ text.dl_do[t]
                total += torch.outer(dl_dh, text.h[t])
        first_half, state = ours.stack(ours.x[:2], Layout.of([2]))
        second_half, _ = ours.stack(ours.x[2:], Layout.of([2]), state.detach())
        loss = ours.loss(ours.output(torch.cat([first_half, second_half])))
        w_hh = cast(nn.RNN, ours.stack.layers[0]).all_weights[0][1]
        return Computed(total, torch.autograd.grad(loss, w_hh)[0])
