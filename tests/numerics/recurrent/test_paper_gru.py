"""The GRU of the paper equals its equations: its values, gradients, steps and masks."""

import pytest
import torch
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.recurrent.stack import RecurrentStack

INPUTS, WIDTH, LENGTHS = 3, 4, [2, 5, 1, 3]


def stack_of(**options: bool | float) -> RecurrentStack:
    torch.manual_seed(5)
    stack = RecurrentStack("gru_paper", INPUTS, WIDTH, **options).double()  # type: ignore[arg-type]
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return stack


def by_equation(stack: RecurrentStack, x_TI: Tensor, direction: int = 0) -> Tensor:
    """R, Z = sigmoid(W x + U h + b); h' = Z h + (1 - Z) tanh(W_n x + U_n (R h) + b_n), a token at a time."""
    weight_x, weight_h, bias_x, bias_h = stack.layers[0].all_weights[direction]  # type: ignore[index]
    (w_r, w_z, w_n), (u_r, u_z, u_n) = weight_x.chunk(3), weight_h.chunk(3)
    b_r, b_z, b_n = (bias_x + bias_h).chunk(3)
    h, outputs = torch.zeros(WIDTH, dtype=torch.float64), []
    for x in x_TI if direction == 0 else x_TI.flip(0):
        reset, update = torch.sigmoid(w_r @ x + u_r @ h + b_r), torch.sigmoid(w_z @ x + u_z @ h + b_z)
        h = update * h + (1 - update) * torch.tanh(w_n @ x + u_n @ (reset * h) + b_n)
        outputs.append(h)
    return torch.stack(outputs if direction == 0 else outputs[::-1])


@pytest.mark.parametrize("even", [False, True])
def test_values_and_gradients_are_those_of_the_equations(even: bool) -> None:
    stack, lengths = stack_of(bidirectional=True), [3, 3] if even else LENGTHS
    layout = Layout.of(lengths)
    x = torch.randn(layout.tokens, INPUTS, dtype=torch.float64, requires_grad=True)
    found, last = stack(x, layout)
    expected = torch.cat([
        torch.cat([by_equation(stack, sentence, direction) for direction in (0, 1)], dim=1)
        for sentence in x.split(lengths)
    ])  # fmt: skip
    torch.testing.assert_close(found, expected)
    ends = layout.offsets[1:].long() - 1
    torch.testing.assert_close(last.hidden[0], expected[ends, :WIDTH])
    factors = torch.randn_like(expected)
    leaves = [x, *stack.parameters()]
    for mine, theirs in zip(
        torch.autograd.grad((found * factors).sum(), leaves),
        torch.autograd.grad((expected * factors).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)
    with torch.no_grad():  # where torch's own functions serve other cells
        torch.testing.assert_close(stack(x, layout)[0], expected)


def test_it_is_not_the_gru_of_the_library() -> None:
    stack, x = stack_of(), torch.randn(4, INPUTS, dtype=torch.float64)
    other = RecurrentStack("gru", INPUTS, WIDTH).double()
    other.load_state_dict(stack.state_dict())
    layout = Layout.of([4])
    mine, theirs = stack(x, layout)[0], other(x, layout)[0]
    assert not torch.allclose(mine[1:], theirs[1:])


def test_steps_are_those_of_whole_sentences() -> None:
    stack, x = stack_of(), torch.randn(2, 5, INPUTS, dtype=torch.float64)
    whole = stack(x.flatten(0, 1), Layout.of([5, 5]))[0].unflatten(0, (2, 5))
    state = stack.start(2, x)
    for place in range(5):
        found, state = stack.step(x[:, place], state)
        torch.testing.assert_close(found, whole[:, place])


def test_masks_drop_what_the_reset_gate_reads() -> None:
    """With masks of zeros no state is fed back into a product: the candidate depends on the input alone."""
    stack = stack_of(variational=True, dropout=0.5).train()
    cells = stack.cells(1, torch.zeros(0, dtype=torch.float64))
    (cell,) = cells.layers[0]
    x, h = torch.randn(1, INPUTS, dtype=torch.float64), torch.randn(1, WIDTH, dtype=torch.float64)
    (masked,) = cell.step(x, (h,), torch.zeros(1, WIDTH, dtype=torch.float64))
    x_RG = cell.project(x)
    update = torch.sigmoid(x_RG[:, WIDTH : 2 * WIDTH])
    torch.testing.assert_close(masked, update * h + (1 - update) * torch.tanh(x_RG[:, 2 * WIDTH :]))
