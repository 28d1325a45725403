"""Regularised stacks: a narrower last layer, dropped weights, masks that are the same at every step."""

from typing import cast

import pytest
import torch
from tests.numerics.recurrent.stacks import WIDE, WIDTH, close, kinds, library_kinds, stack_of
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.layers.embedding import Embedding
from heedful.nn.recurrent.cells import RecurrentState, StackShares
from heedful.nn.recurrent.stack import CellKind, RecurrentStack

NARROW = 3  # the last layer


def x_of(tokens: int) -> Tensor:
    return torch.randn(tokens, WIDE, dtype=torch.float64)


# --- the last width ---------------------------------------------------------------------------------------------------


@library_kinds
@pytest.mark.parametrize("last", [NARROW, WIDTH + 3])
def test_a_last_layer_of_another_width_reads_the_layer_below_it(kind: CellKind, last: int) -> None:
    stack = stack_of(kind, layers=3, last_width=last)
    x = x_of(6)
    expected: Tensor = x
    for layer in stack.layers:
        expected, _ = cast(nn.RNNBase, layer)(expected)
    y, state = stack(x, Layout.of([6]))
    assert close(y, expected)
    assert y.shape == (6, last) == (6, stack.output_width)
    assert state.hidden.shape == (3, 1, max(last, WIDTH))
    assert close(state.hidden[2, 0, :last], y[-1])


@kinds
@torch.no_grad()
def test_with_a_narrower_last_layer_pieces_and_steps_equal_the_whole(kind: CellKind) -> None:
    stack, x = stack_of(kind, layers=2, last_width=NARROW), x_of(12)
    whole, last = stack(x, Layout.of([6, 6]))
    rows = x.unflatten(0, (2, 6))
    first, state = stack(rows[:, :4].flatten(0, 1), Layout.of([4, 4]))
    second, end = stack(rows[:, 4:].flatten(0, 1), Layout.of([2, 2]), state)
    assert close(torch.cat([first.unflatten(0, (2, 4)), second.unflatten(0, (2, 2))], 1).flatten(0, 1), whole)
    assert close(end.hidden, last.hidden)
    state = stack.start(2, x)
    for step in range(6):
        y, state = stack.step(rows[:, step], state)
        assert close(y, whole.unflatten(0, (2, 6))[:, step])


# --- weights ----------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("lengths", [[4, 4], [5, 3]], ids=["even", "uneven"])
def test_dropped_weights_are_those_of_a_stack_without_them(kind: CellKind, lengths: list[int]) -> None:
    stack = stack_of(kind, layers=2, dropout=StackShares(weights=0.5))
    plain, x, layout = stack_of(kind, layers=2), x_of(8), Layout.of(lengths)
    plain.load_state_dict(stack.state_dict())
    torch.manual_seed(3)
    y, _ = stack(x, layout)
    torch.manual_seed(3)
    dropped = []
    for layer in plain.layers:
        weight = layer.get_parameter("weight_hh_l0")
        with torch.no_grad():
            weight.copy_(stack.drop_weights(weight))
        dropped.append(weight == 0)
    assert all(0 < mask.sum() < mask.numel() for mask in dropped)
    assert close(y, plain(x, layout)[0])
    y.sum().backward()
    for layer, mask in zip(stack.layers, dropped, strict=True):
        assert (layer.get_parameter("weight_hh_l0").grad[mask] == 0).all()  # type: ignore[index]


def test_weights_are_dropped_in_training_only_and_never_for_single_steps() -> None:
    stack, x = stack_of("lstm", dropout=StackShares(weights=0.5)), x_of(4)
    layout = Layout.of([4])
    assert not torch.equal(stack(x, layout)[0], stack(x, layout)[0])
    with refuses("a single step would draw...", ValueError):
        stack.step(x, stack.start(4, x))
    stack.eval()
    assert torch.equal(stack(x, layout)[0], stack(x, layout)[0])
    stack.step(x, stack.start(4, x))


# --- masks that are the same at every step ----------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[6, 6], [7, 5]], ids=["even", "uneven"])
def test_inputs_have_one_mask_per_sentence_and_states_none_if_their_share_is_zero(lengths: list[int]) -> None:
    """With a recurrent matrix of ones on its diagonal, h counts the inputs so far: a mask of states would show."""
    stack = RecurrentStack("rnn_relu", 32, 32, dropout=StackShares(inputs=0.5), variational=True)
    with torch.no_grad():
        for weight in stack.parameters():
            weight.zero_()
        stack.layers[0].get_parameter("weight_ih_l0").copy_(torch.eye(32))
        stack.layers[0].get_parameter("weight_hh_l0").copy_(torch.eye(32))
    y, _ = stack(torch.ones(12, 32), Layout.of(lengths))
    first, second = y.split(lengths)
    for sentence in (first, second):
        assert set(sentence[0].tolist()) == {0.0, 2.0}
        steps = torch.arange(1, len(sentence) + 1).unsqueeze(1)
        assert torch.equal(sentence, sentence[0] * steps)
    assert not torch.equal(first[0], second[0])


def test_shares_of_every_place_are_their_own() -> None:
    stack = stack_of("lstm", layers=2, dropout=StackShares(between=0.5), variational=True)
    cells = stack.cells(3, x_of(1))
    assert (cells.drops.inputs(0, x := torch.ones(3, WIDE, dtype=torch.float64), None) == x).all()
    assert cells.drops.hidden(0, 0) is None
    assert set(cells.drops.inputs(1, torch.ones(3, WIDTH, dtype=torch.float64), None).unique().tolist()) <= {0.0, 2.0}


def test_states_restart_where_rows_are_fresh_even_if_they_were_not_finite() -> None:
    state = RecurrentState(torch.tensor([[[1.0], [float("nan")]]]), torch.tensor([[[2.0], [float("inf")]]]))
    assert [part.flatten().tolist() for part in state.restart(torch.tensor([False, True])).parts] == [[1, 0], [2, 0]]


def test_all_tokens_of_a_word_are_dropped_or_none() -> None:
    torch.manual_seed(0)
    embedding = Embedding(nn.Parameter(torch.ones(40, 2)), None, 0.0, False, dropout_words=0.5, drops_types=True)
    tokens = torch.arange(40).repeat(3)
    first, second, third = embedding(tokens, Layout.of([120]))[:, 0].chunk(3)
    assert torch.equal(first, second)
    assert torch.equal(first, third)
    assert set(first.tolist()) == {0.0, 2.0}
    assert (embedding.eval()(tokens, Layout.of([120])) == 1).all()
