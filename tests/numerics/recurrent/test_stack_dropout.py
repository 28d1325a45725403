"""Dropout of recurrent stacks, between layers and variational; dtypes; initial weights."""

from typing import cast

import pytest
import torch
from tests.numerics.recurrent.stacks import WIDE, WIDTH, close, kinds, library_kinds, stack_of
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.recurrent.cells import RecurrentState, StackedCells, VariationalDropout
from heedful.nn.recurrent.stack import KINDS, CellKind, RecurrentStack, init_recurrent

# --- dropout ----------------------------------------------------------------------------------------------------------


def copying(variational: bool, dropout: float = 0.5, recurrent: float = 0.0) -> RecurrentStack:
    """h(t) = max(0, D(x(t)) + recurrent * D'(h(t-1))): what is dropped can be read from the outputs."""
    stack = RecurrentStack("rnn_relu", 32, 32, layers=1, dropout=dropout, variational=variational)
    with torch.no_grad():
        for weight in stack.parameters():
            weight.zero_()
        stack.layers[0].get_parameter("weight_ih_l0").copy_(torch.eye(32))
        stack.layers[0].get_parameter("weight_hh_l0").copy_(recurrent * torch.eye(32))
    return stack


def test_variational_input_masks_are_constant_over_time_and_differ_between_sentences() -> None:
    lengths = [5, 3, 7]
    y, _ = copying(variational=True)(torch.ones(15, 32), Layout.of(lengths))
    assert set(y.unique().tolist()) == {0.0, 2.0}
    masks = [sentence[0] for sentence in y.split(lengths)]
    for sentence, mask in zip(y.split(lengths), masks, strict=True):
        assert (sentence == mask).all()
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[1], masks[2])


def test_variational_state_masks_are_constant_over_time_and_differ_between_sentences() -> None:
    """With x = 1 at the first step only, a component lives on, doubled at each step, where its mask lets it."""
    lengths = [4, 6, 3]
    x = torch.zeros(13, 32)
    x[[0, 4, 10]] = 1
    stack = copying(variational=True, recurrent=0.5)
    y, _ = stack(x, Layout.of(lengths))
    alive = []
    for sentence in y.split(lengths):
        first = sentence[0] > 0
        assert set(sentence[1][first].tolist()) == {0.0, 2.0}  # 0.5 * (2 or 0) times the first step's 2
        assert torch.equal(sentence[1:], sentence[1].expand_as(sentence[1:]))
        alive.append((sentence[1] > 0) & first)
    assert not torch.equal(alive[0], alive[1])


def test_variational_cells_keep_their_masks_from_step_to_step() -> None:
    stack = copying(variational=True)
    x = torch.ones(3, 32)
    cells, state = stack.cells(3, x), stack.start(3, x)
    assert isinstance(cells.drops, VariationalDropout)
    first, state = cells.step(x, state)
    second, _ = cells.step(x, state)
    assert torch.equal(first, second)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, stack.cells(3, x).step(x, state)[0])


@library_kinds
def test_a_variational_stack_equals_a_loop_with_its_masks(kind: CellKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer's inputs and every state before its product, in both directions; never the leak of a GRU."""
    stack = stack_of(kind, layers=2, bidirectional=True, dropout=0.4, variational=True)
    lengths = [4, 2]  # sorted already, so that row and sentence are one
    drawn: list[StackedCells] = []
    cells_of = RecurrentStack.cells

    def keep(self: RecurrentStack, rows: int, like: Tensor) -> StackedCells:
        drawn.append(cells_of(self, rows, like))
        return drawn[-1]

    monkeypatch.setattr(RecurrentStack, "cells", keep)
    x = torch.randn(6, WIDE, dtype=torch.float64)
    y, _ = stack(x, Layout.of(lengths))
    masks = cast(VariationalDropout, drawn[0].drops)
    expected = []
    for row, sentence in enumerate(x.split(lengths)):
        values = sentence
        for layer, module in enumerate(stack.layers):
            values = values * masks.input_masks[layer][row]
            both = []
            for direction, weights in enumerate(cast(nn.RNNBase, module).all_weights):
                of_rows = masks.hidden_masks[layer][direction]
                assert of_rows is not None
                mask = of_rows[row]
                steps = list(values) if direction == 0 else list(values.flip(0))
                outputs = torch.stack(naive(kind, steps, weights, mask))
                both.append(outputs if direction == 0 else outputs.flip(0))
            values = torch.cat(both, dim=1)
        expected.append(values)
    assert close(y, torch.cat(expected))


def naive(kind: CellKind, steps: list[Tensor], weights: list[nn.Parameter], mask: Tensor) -> list[Tensor]:
    """The equations of the papers for one sentence, gate by gate, with the mask on h before every product."""
    weight_x, weight_h, bias_x, bias_h = (weight.detach() for weight in weights)
    gates = len(weight_x) // WIDTH
    h = c = torch.zeros(WIDTH, dtype=torch.float64)
    outputs = []
    for x in steps:
        from_x = [w @ x + b for w, b in zip(weight_x.chunk(gates), bias_x.chunk(gates), strict=True)]
        from_h = [w @ (h * mask) + b for w, b in zip(weight_h.chunk(gates), bias_h.chunk(gates), strict=True)]
        match kind:
            case "rnn_tanh":
                h = torch.tanh(from_x[0] + from_h[0])
            case "rnn_relu":
                h = torch.relu(from_x[0] + from_h[0])
            case "lstm":
                i, f, o = (torch.sigmoid(from_x[gate] + from_h[gate]) for gate in (0, 1, 3))
                c = f * c + i * torch.tanh(from_x[2] + from_h[2])
                h = o * torch.tanh(c)
            case "gru":
                r, z = (torch.sigmoid(from_x[gate] + from_h[gate]) for gate in (0, 1))
                h = z * h + (1 - z) * torch.tanh(from_x[2] + r * from_h[2])
        outputs.append(h)
    return outputs


@kinds
@pytest.mark.parametrize("variational", [False, True], ids=["between", "variational"])
def test_dropout_acts_in_training_and_not_in_evaluation(kind: CellKind, variational: bool) -> None:
    stack = stack_of(kind, layers=2, dropout=0.5, variational=variational)
    plain = stack_of(kind, layers=2)
    plain.load_state_dict(stack.state_dict())
    x, layout = torch.randn(6, WIDE, dtype=torch.float64), Layout.of([4, 2])
    assert not torch.equal(stack(x, layout)[0], stack(x, layout)[0])
    assert torch.equal(stack.eval()(x, layout)[0], plain(x, layout)[0])


@pytest.mark.parametrize("lengths", [[6, 6], [7, 5]], ids=["even", "uneven"])
def test_dropout_between_layers_spares_the_first_inputs_and_the_last_outputs(lengths: list[int]) -> None:
    one = stack_of("gru", layers=1, dropout=0.9)
    x, layout = torch.randn(12, WIDE, dtype=torch.float64), Layout.of(lengths)
    assert torch.equal(one(x, layout)[0], one(x, layout)[0])
    two = stack_of("rnn_relu", layers=2, dropout=0.9)
    with torch.no_grad():
        for layer in two.layers:
            layer.get_parameter("weight_hh_l0").zero_()
        two.layers[1].get_parameter("weight_ih_l0").copy_(torch.eye(WIDTH))
        two.layers[1].get_parameter("bias_ih_l0").zero_()
        two.layers[1].get_parameter("bias_hh_l0").zero_()
    y, _ = two(x, layout)
    whole, _ = two.eval()(x, layout)
    dropped = (y == 0) & (whole > 0)
    assert dropped.sum() > 0.5 * (whole > 0).sum()
    assert close(y[~dropped], (whole / 0.1)[~dropped], 1e-3)


def test_a_single_step_in_variational_training_is_refused() -> None:
    stack = copying(variational=True)
    x = torch.ones(2, 32)
    message = r"^a single step would draw its own variational masks: call `cells` once, and take steps with the result$"
    with pytest.raises(ValueError, match=message):
        stack.step(x, stack.start(2, x))
    stack.eval().step(x, stack.start(2, x))


# --- types ------------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("lengths", [[4, 2, 5], [4, 4]], ids=["uneven", "even"])
@pytest.mark.parametrize(
    ("dtype", "inside"),
    [(torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16), (torch.float16, torch.float32)],
    ids=str,
)
@pytest.mark.parametrize("gradients", [True, False], ids=["training", "inference"])
def test_values_keep_their_type_and_weights_theirs(
    kind: CellKind, lengths: list[int], dtype: torch.dtype, inside: torch.dtype, gradients: bool
) -> None:
    exact = stack_of(kind, layers=2, bidirectional=True)
    stack = stack_of(kind, torch.float32, layers=2, bidirectional=True)
    stack.load_state_dict(exact.state_dict())
    x = torch.randn(sum(lengths), WIDE, dtype=torch.float64)
    expected, _ = exact(x, Layout.of(lengths))
    with torch.set_grad_enabled(gradients):
        y, last = stack(x.to(dtype), Layout.of(lengths))
    assert y.dtype == dtype
    assert {part.dtype for part in last.parts} == {inside}
    assert close(y.double(), expected, {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 4e-2}[dtype])
    if gradients:
        y.sum().backward()
        for weight in stack.parameters():
            assert weight.grad is not None
            assert weight.grad.dtype == torch.float32


def test_a_step_in_sixteen_bits_keeps_its_type() -> None:
    stack = stack_of("lstm", torch.float32)
    for dtype, inside in ((torch.bfloat16, torch.bfloat16), (torch.float16, torch.float32)):
        x = torch.randn(2, WIDE, dtype=dtype)
        y, state = stack.step(x, stack.start(2, x))
        assert (y.dtype, state.hidden.dtype) == (dtype, inside)


# --- how weights start ------------------------------------------------------------------------------------------------


@kinds
def test_each_gates_recurrent_matrix_starts_orthogonal_and_biases_at_zero(kind: CellKind) -> None:
    stack = RecurrentStack(kind, 24, 16, layers=2, bidirectional=True)
    init_recurrent(stack)
    gates = KINDS[kind].cell.gates
    for layer in stack.layers:
        for weight_x, weight_h, bias_x, bias_h in cast(nn.RNNBase, layer).all_weights:
            for matrix in weight_h.detach().chunk(len(gates)):
                assert close(matrix @ matrix.t(), torch.eye(16), 1e-5)
            for matrix in weight_x.detach().chunk(len(gates)):
                bound = (6 / (16 + matrix.shape[1])) ** 0.5
                assert 0.9 * bound < float(matrix.abs().max()) <= bound
            starts = dict(zip(gates, bias_x.detach().chunk(len(gates)), strict=True))
            assert (bias_h == 0).all()
            for gate, bias in starts.items():
                assert (bias == (1 if gate == "forget" else 0)).all()


def test_the_forget_gates_bias_can_start_elsewhere() -> None:
    """Read by what it does: with no input a cell keeps sigmoid(bias) of its memory."""
    stack = stack_of("lstm")
    init_recurrent(stack, forget_bias=2.0)
    x = torch.zeros(1, WIDE, dtype=torch.float64)
    state = RecurrentState(torch.zeros(1, 1, WIDTH, dtype=x.dtype), torch.ones(1, 1, WIDTH, dtype=x.dtype))
    _, after = stack.step(x, state)
    assert after.cell is not None
    assert close(after.cell, torch.sigmoid(torch.full((1, 1, WIDTH), 2.0, dtype=x.dtype)))
