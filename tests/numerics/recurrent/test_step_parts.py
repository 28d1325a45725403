"""What loops over steps are made of: each part equals its equation, with gradients, whatever way it is computed."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.alignments import additive_scores as additive
from heedful.nn.alignments.additive_scores import additive_scores, additive_step, shared_gradients
from heedful.nn.recurrent.cell_gradients import gru_update, tanh
from heedful.nn.recurrent.deep_output import DeepOutput, maxout
from heedful.nn.recurrent.stack import RecurrentStack, TimeMajor
from heedful.nn.recurrent.step_products import StepProducts, steady_product

SIZES = [4, 3, 3, 1]  # rows of each step


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def assert_all_close(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


# --- products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adds", [True, False])
def test_products_of_all_steps_have_the_gradients_of_single_ones(adds: bool) -> None:
    """Also where the steps depend on each other, come in another order, and not all of them are read."""
    weight, addend, first = drawn(3, 3), drawn(sum(SIZES), 3), drawn(4, 3)

    def run(product: Callable[[int, Tensor], Tensor]) -> Tensor:
        x, kept = first, []
        for step in (1, 0, 2, 3):
            y = product(step, x[: SIZES[step]])
            kept.append(y if step != 2 else y.detach())
            x = torch.cat([y.tanh(), x[SIZES[step] :]])
        return torch.cat(kept)

    products = StepProducts(weight, SIZES, addend if adds else None)
    parts = addend.split(SIZES)
    found, expected = run(products), run(lambda step, x: x @ weight.t() + (parts[step] if adds else 0))
    assert_all_close([found], [expected])
    read = torch.randn_like(found)
    sources = [weight, first, *([addend] if adds else [])]
    for _ in range(2):  # back once more through the same steps
        assert_all_close(
            torch.autograd.grad((found * read).sum(), sources, retain_graph=True),
            torch.autograd.grad((expected * read).sum(), sources, retain_graph=True),
        )


def test_what_steps_put_aside_is_freed_with_them() -> None:
    weight = drawn(3, 3)
    products = StepProducts(weight, [2, 2])
    gone = weakref.ref(products)
    gc.disable()  # whatever is in a cycle would wait for the collector, and what a graph holds would never be found
    try:
        products(1, products(0, drawn(2, 3))).sum().backward()
        del products
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_by_few_numbers_of_rows_are_products(rows: int, dtype: torch.dtype) -> None:
    x, matrix = torch.randn(rows, 24).to(dtype), torch.randn(24, 8).to(dtype)
    found = steady_product(x, matrix)
    assert (found.dtype, found.shape) == (dtype, (rows, 8))
    torch.testing.assert_close(found.float(), x.float() @ matrix.float(), atol=0.1, rtol=0.02)


def test_rows_of_16_bits_are_multiplied_in_multiples() -> None:
    """A kernel is compiled for every number of rows."""
    with torch.profiler.profile(record_shapes=True) as profile:
        for rows in range(1, 40):
            steady_product(torch.randn(rows, 8).bfloat16(), torch.randn(8, 8).bfloat16())
    products = [event for event in profile.events() if event.name == "aten::mm"]
    assert {event.input_shapes[0][0] for event in products} == {16, 32, 48}


# --- additive scores --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 30, 100, 10**6], ids=["one", "queries", "sentence", "all"])
def test_additive_scores_equal_their_equation_whatever_fits_at_once(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(additive, "_CHUNK", chunk)
    q, k, v = drawn(3, 4, 5), drawn(3, 6, 5), drawn(5)
    found, expected = additive_scores(q, k, v), torch.tanh(q.unsqueeze(2) + k.unsqueeze(1)) @ v
    assert_all_close([found], [expected])
    read = torch.randn_like(found)
    wanted = torch.autograd.grad((expected * read).sum(), (q, k, v))
    assert_all_close(torch.autograd.grad((found * read).sum(), (q, k, v)), wanted)
    assert_all_close(torch.autograd.grad((additive_step(q, k, v) * read).sum(), (q,)), wanted[:1])
    assert_all_close(shared_gradients(read, q.detach(), k.detach(), v.detach()), wanted[1:])


def test_additive_scores_hold_no_values_of_pairs() -> None:
    """The equation as written keeps A values of each score for the way back."""
    kept: list[int] = []
    q, k, v = torch.randn(2, 50, 16, requires_grad=True), torch.randn(2, 60, 16), torch.randn(16)

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        additive_scores(q, k, v)
    assert sum(kept) <= q.numel() + k.numel() + v.numel()


# --- updates ----------------------------------------------------------------------------------------------------------


def test_gradients_of_updates_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(gru_update, (drawn(3, 6), drawn(3, 6), drawn(3, 2)))
    assert torch.autograd.gradcheck(tanh, drawn(3, 4))
    assert torch.autograd.gradcheck(maxout, drawn(3, 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_updates_keep_their_type_and_its_precision(dtype: torch.dtype) -> None:
    x, u, h = (torch.randn(40, width).to(dtype) for width in (24, 24, 8))
    reset, update = torch.sigmoid(x[:, :16].double() + u[:, :16].double()).chunk(2, dim=1)
    candidate = torch.tanh(x[:, 16:].double() + reset * u[:, 16:].double())
    found, expected = gru_update(x, u, h), update * h.double() + (1 - update) * candidate
    assert found.dtype == tanh(x).dtype == dtype
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(tanh(x).double(), x.double().tanh(), atol=tolerance, rtol=tolerance)


def test_maxout_takes_the_larger_of_both_halves() -> None:
    u = torch.tensor([[1.0, -2.0, 5.0, 0.0, -1.0, 5.0]], requires_grad=True)
    y = maxout(u)
    assert y.tolist() == [[1.0, -1.0, 5.0]]
    (gradient,) = torch.autograd.grad(y, u, torch.tensor([[1.0, 2.0, 3.0]]))
    assert gradient.tolist() == [[1.0, 0.0, 0.0, 0.0, 2.0, 3.0]]


def test_a_deep_output_is_maxout_of_the_three_maps() -> None:
    deep = DeepOutput(3, 4, 5, 2).double()
    s, y, c = drawn(6, 3), drawn(6, 4), drawn(6, 5)
    u = s @ deep.from_state.weight.t() + deep.from_state.bias + y @ deep.from_word.weight.t()
    u = u + c @ deep.of_context.weight.t()
    assert_all_close([deep(s, y, deep.of_context(c))], [u.unflatten(1, (2, 2)).amax(1)])


# --- the order of time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[3, 1, 4, 3], [2, 2], [0, 3, 0, 1], [0, 2, 2]], ids=str)
def test_padding_from_the_order_of_time_has_a_row_for_each_sentence(lengths: list[int]) -> None:
    layout = Layout.of(lengths)
    time, x = TimeMajor.of(layout), torch.randn(sum(lengths), 3)
    padded = time.padded(time.arrange(x))
    assert padded.shape == (len(lengths), max(lengths), 3)
    for row, sentence in enumerate(time.longest_first.tolist()):
        length = lengths[sentence]
        assert torch.equal(padded[row, :length], x.split(lengths)[sentence])
        assert (padded[row, length:] == 0).all()


def test_cells_for_any_rows_are_refused_where_masks_belong_to_rows() -> None:
    stack = RecurrentStack("gru", 4, 4, dropout=0.5, variational=True)
    message = r"^a single step would draw"
    with pytest.raises(ValueError, match=message):
        stack.cells_without_masks(torch.zeros(1))
    assert len(stack.eval().cells_without_masks(torch.zeros(1)).layers) == 1
