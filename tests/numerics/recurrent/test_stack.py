"""Recurrent stacks equal torch, sentence by sentence, in any batch, and step by step."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.numerics.recurrent.stacks import WIDE, WIDTH, close, kinds, library_kinds, shapes, stack_of
from tests.shared.examples import examples
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.gradient_norms import GradientNorms
from heedful.nn.recurrent.stack import KINDS, CellKind, RecurrentStack, TimeMajor

some_lengths = st.lists(st.integers(0, 7), min_size=1, max_size=6)

# --- a loop over sentences --------------------------------------------------------------------------------------------


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


def scalar(y: Tensor, last: RecurrentState) -> Tensor:
    """A loss that reads every output and every last state, each with a weight of its own."""
    read = torch.cat([tensor.flatten() for tensor in (y, *last.parts)])
    return (read * torch.linspace(-1, 1, len(read), dtype=read.dtype)).sum()


@library_kinds
@shapes
@given(lengths=some_lengths, seed=st.integers(0, 2**16))
@example(lengths=[1], seed=0)
@example(lengths=[4, 4, 4], seed=0)
@example(lengths=[0, 4, 0, 4], seed=0)
@example(lengths=[1, 7, 3, 7, 2], seed=0)
@examples(6)
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


@library_kinds
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
@examples(30)
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
def test_sentences_without_tokens_keep_their_state_and_do_not_affect_others(kind: CellKind, gradients: bool) -> None:
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


def test_a_batch_without_tokens_has_no_outputs_and_keeps_its_state() -> None:
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
