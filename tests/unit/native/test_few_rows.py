"""Products of a few rows by a kernel are those of the modules, and a row has the bits that it has alone."""

import pytest
import torch
from torch import Tensor

from heedful.native import few_rows
from heedful.native.few_rows import FewRows, use_kernel_for_few_rows
from heedful.native.library import Library, library
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.linear import Linear

pytestmark = pytest.mark.skipif(library() is None, reason="the kernels cannot be compiled here")


def module_of(kind: str) -> Linear | Output:
    torch.manual_seed(0)
    if kind == "output":
        return Output(torch.nn.Parameter(torch.randn(90, 70)))
    return Linear(70, 90, bias=kind == "biased")


@pytest.fixture
def by_kernel(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of the products that a kernel computed."""
    rows, multiply = list[int](), Library.product

    def counted(kernels: Library, x_MK: Tensor, *others: Tensor) -> Tensor:
        rows.append(len(x_MK))
        return multiply(kernels, x_MK, *others)

    monkeypatch.setattr(Library, "product", counted)
    return rows


@pytest.mark.parametrize("kind", ["biased", "plain", "output"])
@torch.no_grad()
def test_products_are_those_of_the_module(kind: str, by_kernel: list[int]) -> None:
    module, usual = module_of(kind), module_of(kind)
    use_kernel_for_few_rows(module)
    for rows in (3, 0, 16, 17, 1, 200):
        x = torch.randn(rows, 70)
        torch.testing.assert_close(module(x), usual(x))
    assert by_kernel == [3, 16, 1]
    if isinstance(module, Linear):
        x = torch.randn(2, 70, 3).transpose(1, 2)  # whose rows are not contiguous
        torch.testing.assert_close(module(x), usual(x))
        assert module(torch.ones(70)).shape == (90,)


@torch.no_grad()
def test_a_row_has_the_same_bits_alone_among_others_and_with_any_number_of_threads() -> None:
    module, x, before = module_of("biased"), torch.randn(16, 70), torch.get_num_threads()
    use_kernel_for_few_rows(module)
    together = module(x)
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert torch.equal(torch.cat([module(x[:1]), module(x[1:4]), module(x[4:])]), together)
    finally:
        torch.set_num_threads(before)


@torch.no_grad()
def test_weights_that_change_are_those_that_are_used(by_kernel: list[int]) -> None:
    module, x = module_of("plain"), torch.randn(4, 70)
    use_kernel_for_few_rows(module)
    module.weight.mul_(2)
    torch.testing.assert_close(module(x), x @ module.weight.T)
    module.weight.data = torch.zeros(90, 70)
    assert not module(x).any()
    assert by_kernel == [4, 4]


def test_gradients_and_other_types_take_the_usual_way(by_kernel: list[int]) -> None:
    module, x = module_of("biased"), torch.randn(4, 70)
    use_kernel_for_few_rows(module)
    forward: object = module.forward
    assert isinstance(forward, FewRows)
    module(x).sum().backward()
    assert module.weight.grad is not None
    with torch.no_grad():
        assert module(x.bfloat16()).dtype == torch.bfloat16
        assert module.double()(x.double()).dtype == torch.float64
    assert not by_kernel


@torch.no_grad()
def test_without_kernels_and_for_small_matrices_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Linear(8, 8)
    use_kernel_for_few_rows(small)
    assert not isinstance(small.forward, FewRows)
    module, usual, x = module_of("biased"), module_of("biased"), torch.randn(4, 70)
    use_kernel_for_few_rows(module)
    monkeypatch.setattr(few_rows, "library", lambda: None)
    assert torch.equal(module(x), usual(x))


def test_a_product_of_other_shapes_is_refused() -> None:
    kernels = library()
    assert kernels is not None
    x, weight = torch.ones(2, 8), torch.ones(4, 8)
    for wrong in (weight[:3], weight[:, :7], weight[:, :7].contiguous(), torch.ones(4, 16)[:, ::2]):
        with pytest.raises(ValueError, match=r"are asked for|rows of float32"):
            kernels.product(x, wrong, None)
    with pytest.raises(ValueError, match="4 outputs of 8 inputs are asked for, from rows of 8"):
        kernels.product(x, weight, torch.ones(5))
