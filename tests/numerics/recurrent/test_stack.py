"""Recurrent stacks equal torch's, sentence by sentence, in values and gradients, whichever way they are computed."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast, get_args

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from heedful.nn.recurrent.cells import CellState, RecurrentState, StackedCells, VariationalDropout, unroll
from heedful.nn.recurrent.stack import KINDS, CellKind, GradientNorms, RecurrentStack, TimeMajor, init_recurrent
from heedful.packed import Layout

WIDE, WIDTH = 5, 4  # of inputs and of states
ALL: tuple[CellKind, ...] = get_args(CellKind)
kinds = pytest.mark.parametrize("kind", ALL)
shapes = pytest.mark.parametrize(
    ("layers", "bidirectional"),
    [(1, False), (1, True), (3, False), (2, True)],
    ids=["one", "both", "three", "two-both"],
)
some_lengths = st.lists(st.integers(0, 7), min_size=1, max_size=6)


# --- a loop over sentences --------------------------------------------------------------------------------------------


def stack_of(kind: CellKind, dtype: torch.dtype = torch.float64, **options: Any) -> RecurrentStack:
    return RecurrentStack(kind, WIDE, WIDTH, **options).to(dtype)


def library_of(stack: RecurrentStack) -> nn.RNNBase:
    """torch's own stack of several layers, with the same weights."""
    library = KINDS[stack.kind].module(WIDE, WIDTH, len(stack.layers), bidirectional=stack.directions == 2).double()
    for number, layer in enumerate(stack.layers):
        for name, weight in layer.named_parameters():
            library.get_parameter(name.replace("_l0", f"_l{number}")).data.copy_(weight.data)
    return library


def by_sentence(
    library: nn.RNNBase, x_NI: Tensor, lengths: Sequence[int], initial: RecurrentState
) -> tuple[Tensor, RecurrentState]:
    """Each sentence by itself, without batches."""
    outputs, lasts = [], []
    for row, x in enumerate(x_NI.split(list(lengths))):
        state = tuple(part[:, row : row + 1] for part in initial.parts)
        if len(x):
            y, last = library(x.unsqueeze(1), state if len(state) > 1 else state[0])
            outputs.append(y.squeeze(1))
            state = last if isinstance(last, tuple) else (last,)
        lasts.append(state)
    return torch.cat(outputs), RecurrentState.of([torch.cat(parts, dim=1) for parts in zip(*lasts, strict=True)])


def random_state(stack: RecurrentStack, rows: int) -> RecurrentState:
    zeros = stack.start(rows, torch.empty(0, dtype=torch.float64))
    return RecurrentState.of([torch.randn_like(part).requires_grad_() for part in zeros.parts])


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> bool:
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=0, atol=tolerance)


def scalar(y: Tensor, last: RecurrentState) -> Tensor:
    """A loss that reads every output and every last state, each with a weight of its own."""
    read = torch.cat([tensor.flatten() for tensor in (y, *last.parts)])
    return (read * torch.linspace(-1, 1, len(read), dtype=read.dtype)).sum()


@kinds
@shapes
@given(lengths=some_lengths, seed=st.integers(0, 2**16))
@example(lengths=[1], seed=0)
@example(lengths=[4, 4, 4], seed=0)
@example(lengths=[0, 4, 0, 4], seed=0)
@example(lengths=[1, 7, 3, 7, 2], seed=0)
@settings(max_examples=6)
def test_a_stack_equals_the_library_sentence_by_sentence(
    kind: CellKind, layers: int, bidirectional: bool, lengths: list[int], seed: int
) -> None:
    """By the library's kernels for even and (without gradients) uneven sentences, and by cells of our own."""
    torch.manual_seed(seed)
    lengths = lengths if sum(lengths) else [*lengths, 2]
    stack = stack_of(kind, layers=layers, bidirectional=bidirectional)
    library, initial = library_of(stack), random_state(stack, len(lengths))
    layout, x = Layout.of(lengths), torch.randn(sum(lengths), WIDE, dtype=torch.float64, requires_grad=True)
    expected = by_sentence(library, x, lengths, initial)
    sources = [x, *initial.parts]
    wanted = torch.autograd.grad(scalar(*expected), [*sources, *library.parameters()])

    for way in (nullcontext(), GradientNorms(stack)):
        with way:
            y, last = stack(x, layout, initial)
        with way, torch.no_grad():
            unrecorded, _ = stack(x, layout, initial)
        assert close(y, expected[0])
        assert close(unrecorded, expected[0])
        for part, other in zip(last.parts, expected[1].parts, strict=True):
            assert close(part, other)
        gradients = torch.autograd.grad(scalar(y, last), [*sources, *stack.parameters()])
        for found, known in zip(gradients, wanted, strict=True):
            assert close(found, known)


@kinds
def test_the_loop_of_cells_and_the_library_are_chosen_as_stated(
    kind: CellKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU: steps for gradients of uneven sentences, for variational dropout and for norms; else the library."""
    called: list[str] = []

    def note(name: str) -> None:
        run = getattr(RecurrentStack, name)

        def noted(*given: Any) -> Any:
            called.append(name)
            return run(*given)

        monkeypatch.setattr(RecurrentStack, name, noted)

    note("_by_steps")
    note("_by_library")

    def chosen(stack: RecurrentStack, lengths: list[int]) -> str:
        stack(torch.randn(sum(lengths), WIDE), Layout.of(lengths))
        return called.pop()

    stack = RecurrentStack(kind, WIDE, WIDTH)
    assert chosen(stack, [3, 2]) == "_by_steps"
    assert chosen(stack, [3, 3, 0]) == "_by_library"
    with torch.no_grad():
        assert chosen(stack, [3, 2]) == "_by_library"
    with GradientNorms(stack):
        assert chosen(stack, [3, 3]) == "_by_steps"
    assert chosen(stack, [3, 3]) == "_by_library"
    variational = RecurrentStack(kind, WIDE, WIDTH, dropout=0.5, variational=True)
    assert chosen(variational, [3, 3]) == "_by_steps"
    assert chosen(variational.eval(), [3, 3]) == "_by_library"


# --- the order of time ------------------------------------------------------------------------------------------------


@given(lengths=some_lengths, spare=st.integers(0, 3))
@example(lengths=[0, 3, 1, 3, 0], spare=2)
@settings(max_examples=30)
def test_the_order_of_time_is_that_of_torchs_packed_sequence(lengths: list[int], spare: int) -> None:
    real = [length for length in lengths if length] or [1]
    lengths = lengths if sum(lengths) else [*lengths, 1]
    layout = Layout.of(lengths)
    time = TimeMajor.of(replace(layout, bound=layout.bound + spare))
    tokens = torch.arange(layout.tokens)
    expected = nn.utils.rnn.pack_sequence(list(tokens.split(real)), enforce_sorted=False)
    assert time.sizes.tolist() == expected.batch_sizes.tolist()
    # Equally long sentences may stand in either order: each step must hold the same tokens, and each sentence one row.
    for found, known in zip(
        time.tokens.split(time.sizes.tolist()), expected.data.split(time.sizes.tolist()), strict=True
    ):
        assert sorted(found.tolist()) == sorted(known.tolist())
    sentence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    assert torch.equal(time.ranks[sentence[time.tokens]], time.rows_N)
    assert torch.equal(time.longest_first[time.rows_N], sentence[time.tokens])
    values = torch.randn(layout.tokens, 2)
    assert torch.equal(time.restore(time.arrange(values)), values)
    assert time.even == (len(set(real)) == 1)


@kinds
@pytest.mark.parametrize("gradients", [True, False], ids=["training", "inference"])
def test_a_neighbour_in_the_batch_cannot_change_an_output(kind: CellKind, gradients: bool) -> None:
    stack = stack_of(kind, layers=2, bidirectional=True)
    layout, lengths = Layout.of([3, 5, 2, 0]), [3, 5, 2, 0]
    x = torch.randn(10, WIDE, dtype=torch.float64, requires_grad=True)
    changed = x.detach().clone()
    changed[3:8] = torch.randn(5, WIDE, dtype=torch.float64)
    with torch.set_grad_enabled(gradients):
        (one, last), (other, changed_last) = stack(x, layout), stack(changed, layout)
    for place, same in enumerate([True, False, True, True]):
        assert torch.equal(one.split(lengths)[place], other.split(lengths)[place]) or not same
        assert torch.equal(last.hidden[:, place], changed_last.hidden[:, place]) == same
    if gradients:
        (gradient,) = torch.autograd.grad(one[3:8].sum(), x)
        assert (gradient[3:8] != 0).all()
        assert (gradient[:3] == 0).all()
        assert (gradient[8:] == 0).all()


@kinds
def test_the_backward_direction_starts_at_each_sentences_own_end(kind: CellKind) -> None:
    """It is the forward direction over the reversed sentence, whatever stands behind its end."""
    stack = stack_of(kind, bidirectional=True)
    forward, lengths = stack_of(kind), [4, 1, 6]
    for name, weight in forward.layers[0].named_parameters():
        weight.data.copy_(stack.layers[0].get_parameter(f"{name}_reverse").data)
    x = torch.randn(11, WIDE, dtype=torch.float64)
    reversed_x = torch.cat([sentence.flip(0) for sentence in x.split(lengths)])
    y, last = stack(x, Layout.of(lengths))
    expected, expected_last = forward(reversed_x, Layout.of(lengths))
    turned = torch.cat([sentence.flip(0) for sentence in expected.split(lengths)])
    assert close(y[:, WIDTH:], turned)
    assert close(last.hidden[1:], expected_last.hidden)
    firsts, ends = torch.tensor([0, 4, 5]), torch.tensor([3, 4, 10])
    assert torch.equal(last.top(directions=2), torch.cat([y[ends, :WIDTH], y[firsts, WIDTH:]], dim=1))


@kinds
@pytest.mark.parametrize("gradients", [True, False], ids=["training", "inference"])
def test_sentences_without_a_token_keep_their_state_and_change_no_other(kind: CellKind, gradients: bool) -> None:
    """The static layout: empty sentences, and a bound that no sentence reaches."""
    stack = stack_of(kind, layers=2, bidirectional=True)
    x = torch.randn(9, WIDE, dtype=torch.float64)
    static = replace(Layout.of([0, 3, 1, 0, 5, 0]), bound=8)
    initial = random_state(stack, 6)
    with torch.set_grad_enabled(gradients):
        y, last = stack(x, static, initial)
        expected, expected_last = stack(x, Layout.of([3, 1, 5]), initial.select(torch.tensor([1, 2, 4])))
    assert close(y, expected)
    assert close(last.hidden[:, [1, 2, 4]], expected_last.hidden)
    for part, before in zip(last.parts, initial.parts, strict=True):
        assert torch.equal(part[:, [0, 3, 5]], before[:, [0, 3, 5]])


def test_a_batch_without_a_token_has_no_outputs_and_keeps_its_state() -> None:
    stack = stack_of("lstm", bidirectional=True)
    initial = random_state(stack, 2)
    y, last = stack(torch.zeros(0, WIDE, dtype=torch.float64), Layout.of([0, 0]), initial)
    assert y.shape == (0, 2 * WIDTH)
    assert torch.equal(last.hidden, initial.hidden)


# --- one step after the other -----------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("layers", [1, 3])
def test_stepping_equals_forward(kind: CellKind, layers: int) -> None:
    stack, lengths = stack_of(kind, layers=layers, dropout=0.3).eval(), [5, 5, 5]
    x, initial = torch.randn(15, WIDE, dtype=torch.float64), random_state(stack, 3)
    y, last = stack(x, Layout.of(lengths), initial)
    cells, state, other = stack.cells(3, x), initial, initial
    for step in range(5):
        one, state = stack.step(x[step::5], state)
        two, other = cells.step(x[step::5], other)
        assert close(one, y[step::5])
        assert torch.equal(one, two)
    for part, known in zip(state.parts, last.parts, strict=True):
        assert close(part, known)


@kinds
def test_a_state_carried_from_chunk_to_chunk_equals_one_long_run(kind: CellKind) -> None:
    """The forward pass of truncated back-propagation."""
    stack = stack_of(kind, layers=2)
    x = torch.randn(2, 6, WIDE, dtype=torch.float64)
    whole, last = stack(x.flatten(0, 1), Layout.of([6, 6]))
    state: RecurrentState | None = None
    chunks = []
    for chunk in x.split([2, 3, 1], dim=1):
        y, state = stack(chunk.flatten(0, 1), Layout.of(2 * [chunk.shape[1]]), state)
        state = state.detach()
        assert not state.hidden.requires_grad
        chunks.append(y.unflatten(0, (2, -1)))
    assert close(torch.cat(chunks, dim=1).flatten(0, 1), whole)
    assert state is not None
    assert close(state.hidden, last.hidden)


@kinds
def test_detaching_the_state_ends_back_propagation(kind: CellKind) -> None:
    stack, layout = stack_of(kind), Layout.of([2, 2])
    x = torch.randn(4, WIDE, dtype=torch.float64, requires_grad=True)
    _, state = stack(x, layout)
    carried, _ = stack(x.detach(), layout, state)
    cut, _ = stack(x.detach(), layout, state.detach())
    assert torch.equal(carried, cut)
    (gradient,) = torch.autograd.grad(carried.sum(), x)
    assert (gradient != 0).any()
    assert torch.autograd.grad(cut.sum(), x, allow_unused=True)[0] is None


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_states_are_selected_and_reordered_by_rows(kind: CellKind) -> None:
    state = random_state(stack_of(kind, layers=2), 6)
    reordered = state.reorder(torch.tensor([[2, 2, 0], [1, 0, 1]]))
    for part, moved in zip(state.parts, reordered.parts, strict=True):
        assert torch.equal(moved, part[:, [2, 2, 0, 4, 3, 4]])
    for part, moved in zip(state.parts, state.select(torch.tensor([5, 0])).parts, strict=True):
        assert torch.equal(moved, part[:, [5, 0]])
    assert (state.cell is None) == (kind == "gru")


def test_a_bidirectional_stack_refuses_to_step() -> None:
    stack = stack_of("gru", bidirectional=True)
    x = torch.randn(2, WIDE, dtype=torch.float64)
    message = r"^a bidirectional stack cannot take one step: its second direction starts at the end$"
    with pytest.raises(ValueError, match=message):
        stack.step(x, stack.start(2, x))


def test_a_gru_keeps_the_old_state_where_its_update_gate_is_open() -> None:
    """h(t) = Z * h(t-1) + (1 - Z) * candidate, and not the other way round."""
    stack = stack_of("gru")
    for weight in stack.parameters():
        weight.data.zero_()
    bias = stack.layers[0].get_parameter("bias_ih_l0").data
    bias[WIDTH : 2 * WIDTH], bias[2 * WIDTH :] = 1.5, 0.7
    x, state = torch.randn(3, WIDE, dtype=torch.float64), random_state(stack, 3)
    y, _ = stack.step(x, state)
    z = torch.sigmoid(torch.tensor(1.5, dtype=torch.float64))
    assert close(y, z * state.hidden[0] + (1 - z) * torch.tanh(torch.tensor(0.7, dtype=torch.float64)))


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
    with pytest.raises(ValueError, match=r"^no step was watched: run the stack inside the `with` block$"):
        norms.per_step()
    for gradients in (True, False):
        with norms, torch.set_grad_enabled(gradients):
            stack(x, Layout.of([4]))
        assert norms.per_step().tolist() == [0, 0, 0, 0]


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


@kinds
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
                mask = masks.hidden_masks[layer][direction][row]
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
