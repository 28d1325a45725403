"""Gradients of recurrent stacks, and the norms of these gradients over time."""

import pytest
import torch
from tests.numerics.recurrent.stacks import WIDE, WIDTH, close, kinds, stack_of
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.recurrent.cells import CellState, unroll
from heedful.nn.recurrent.gradient_norms import GradientNorms
from heedful.nn.recurrent.stack import KINDS, CellKind, RecurrentStack

# --- gradients --------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_gradients_of_the_loop_are_those_of_finite_differences(kind: CellKind, masked: bool, backward: bool) -> None:
    cell_type, sizes, width = KINDS[kind].cell, [3, 3, 1], 2
    rows = len(cell_type.gates) * width
    tensors = [torch.randn(*shape, dtype=torch.float64) for shape in ((rows, 3), (rows, width), (rows,), (rows,))]
    state = [torch.randn(3, width, dtype=torch.float64) for _ in range(2 if kind == "lstm" else 1)]
    mask = torch.tensor([[2.0, 0.0], [2.0, 2.0], [0.0, 2.0]], dtype=torch.float64) if masked else None
    x = torch.randn(7, 3, dtype=torch.float64)

    def run(x: Tensor, *rest: Tensor) -> CellState:
        y, last = unroll(cell_type.of(*rest[:4]), x, sizes, rest[4:], backward, mask)
        return y, *last

    assert torch.autograd.gradcheck(run, [tensor.requires_grad_() for tensor in (x, *tensors, *state)])


@kinds
def test_gradients_of_one_step_are_those_of_finite_differences(kind: CellKind) -> None:
    cell_type, width = KINDS[kind].cell, 2
    rows = len(cell_type.gates) * width
    shapes = [(2, 3), (rows, 3), (rows, width), (rows,), (rows,), *((2 if kind == "lstm" else 1) * [(2, width)])]
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(lambda x, *rest: cell_type.of(*rest[:4]).step(x, rest[4:]), given)


def test_gradient_norms_are_those_of_a_vanilla_network_by_hand() -> None:
    """L reads the last state only: dL/dh(t-1) = W_h^T (dL/dh(t) * (1 - h(t)^2))."""
    stack, layout = stack_of("rnn_tanh"), Layout.of([6, 6])
    x = torch.randn(12, WIDE, dtype=torch.float64)
    with GradientNorms(stack) as norms:
        y, last = stack(x, layout)
    direction = torch.randn(2, WIDTH, dtype=torch.float64)
    (last.hidden[0] * direction).sum().backward()
    h_BTE, weight = y.detach().unflatten(0, (2, 6)), stack.layers[0].get_parameter("weight_hh_l0").detach()
    gradient, expected = direction, [direction.norm()]
    for step in range(5, 0, -1):
        gradient = (gradient * (1 - h_BTE[:, step] ** 2)) @ weight
        expected.insert(0, gradient.norm())
    assert close(norms.per_step(), torch.stack(expected))


@kinds
def test_gradient_norms_count_outputs_and_later_steps_of_uneven_sentences(kind: CellKind) -> None:
    """Against autograd: a probe of zeros added to every state of the middle layer."""
    stack, lengths = stack_of(kind, layers=3), [4, 2]
    x = torch.randn(6, WIDE, dtype=torch.float64)
    with GradientNorms(stack, layer=1) as norms:
        y, _ = stack(x, Layout.of(lengths))
    y[:5].square().sum().backward()
    squares = torch.zeros(4, dtype=torch.float64)
    for sentence, read in zip(x.split(lengths), (4, 1), strict=True):
        for step in range(len(sentence)):
            squares[step] += probed_gradient(stack, sentence, step, read).square().sum()
    assert close(norms.per_step(), squares.sqrt())


def probed_gradient(stack: RecurrentStack, x: Tensor, probed: int, read: int) -> Tensor:
    """dL/dh of the middle layer at one step of one sentence: the gradient of zeros that are added to that very h."""
    cells = stack.cells(1, x)
    probe = torch.zeros(1, WIDTH, dtype=torch.float64, requires_grad=True)
    states = [tuple(part[layer] for part in stack.start(1, x).parts) for layer in range(3)]
    outputs = []
    for step in range(len(x)):
        h = x[step : step + 1]
        for layer, (cell,) in enumerate(cells.layers):
            after = cell.step(h, states[layer])
            if (layer, step) == (1, probed):
                after = (after[0] + probe, *after[1:])
            states[layer], h = after, after[0]
        outputs.append(h)
    loss = torch.cat(outputs)[:read].square().sum()
    (gradient,) = torch.autograd.grad(loss, probe, allow_unused=True)
    return torch.zeros_like(probe) if gradient is None else gradient


def test_gradient_norms_are_zero_where_no_gradient_arrives() -> None:
    stack = stack_of("gru")
    with GradientNorms(stack) as norms:
        y, _ = stack(torch.randn(4, WIDE, dtype=torch.float64), Layout.of([4]))
    y[1].sum().backward()
    found = norms.per_step()
    assert (found[:2] > 0).all()
    assert (found[2:] == 0).all()


def test_gradient_norms_are_zero_without_a_backward_pass_and_missing_without_a_run() -> None:
    stack = stack_of("gru")
    norms = GradientNorms(stack)
    stack(x := torch.randn(4, WIDE, dtype=torch.float64), Layout.of([4]))
    with refuses("no step was watched: run the stack inside the `with` block", ValueError):
        norms.per_step()
    for gradients in (True, False):
        with norms, torch.set_grad_enabled(gradients):
            stack(x, Layout.of([4]))
        assert norms.per_step().tolist() == [0, 0, 0, 0]
