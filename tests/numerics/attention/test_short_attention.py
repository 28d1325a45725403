"""The kernel for short sentences where sentences are not short, views are strided and weights are dropped."""

import math
import random

import pytest
import torch
from tests.shared.covering import in_turn
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.attention.backends import PackedHeads, explicit, short

pytest.importorskip("triton", reason="Triton is not installed here")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # there in Triton's interpreter


@pytest.mark.parametrize(("width", "causal"), in_turn([8, 24, 64], [False, True]))
def test_sentences_of_several_blocks_equal_the_equation(width: int, causal: bool) -> None:
    chance = random.Random(width)
    queries = [chance.choice([1, 5, 31, 32, 33, 70, 0]) for _ in range(3)] + [33]
    keys = queries if causal else [chance.choice([1, 17, 32, 33, 65]) for _ in queries]
    q, k, v = projections(queries, keys, width)
    query_layout, key_layout = Layout.of(queries).to(DEVICE), Layout.of(keys).to(DEVICE)
    found = short(PackedHeads(q, k, v, query_layout, key_layout), causal, 0.0)
    wide = q64, k64, v64 = tuple(x.detach().double().requires_grad_() for x in (q, k, v))
    wanted = explicit(PackedHeads(q64, k64, v64, query_layout, key_layout), causal, 0.0)
    torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-5)
    factors = torch.randn_like(found)
    gradients = torch.autograd.grad((found * factors).sum(), (q, k, v))
    references = torch.autograd.grad((wanted * factors).sum(), wide)
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient.double(), reference, atol=1e-4, rtol=1e-4)


@pytest.mark.wide
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_long_sentences_shared_out_among_programs_equal_the_equation(causal: bool) -> None:
    queries = [3, 300, 129]
    keys = queries if causal else [260, 140, 1]
    q, k, v = projections(queries, keys, 16)
    query_layout, key_layout = Layout.of(queries).to(DEVICE), Layout.of(keys).to(DEVICE)
    found = short(PackedHeads(q, k, v, query_layout, key_layout), causal, 0.0)
    wanted = explicit(PackedHeads(q, k, v, query_layout, key_layout), causal, 0.0)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    factors = torch.randn_like(found)
    gradients, references = (torch.autograd.grad((y * factors).sum(), (q, k, v)) for y in (found, wanted))
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, reference, atol=1e-4, rtol=1e-4)


def test_dropped_weights_leave_the_mean_and_a_share_of_zeros() -> None:
    """With one key a weight is 0 or 1 / (1 - p): its mean over many draws is 1 within five sigma."""
    share, tokens, heads = 0.3, 40, 20
    layout = Layout(torch.tensor([0, tokens], dtype=torch.int32), torch.arange(tokens), tokens).to(DEVICE)
    one_key = Layout.of([1]).to(DEVICE)
    q, key = torch.ones(tokens, heads, 16, device=DEVICE), torch.ones(1, heads, 16, device=DEVICE)
    y = short(PackedHeads(q, key, key, layout, one_key), False, share)[:, :, 0]
    assert y.unique().tolist() == pytest.approx([0, 1 / (1 - share)])
    assert abs(float((y == 0).float().mean()) - share) < 5 * math.sqrt(share * (1 - share) / y.numel())


def test_draws_are_independent_of_each_other() -> None:
    """Of neighbours along rows, keys and heads, and of two seeds, as many are dropped together as chance says."""
    share, tokens, heads = 0.4, 60, 6
    layout = Layout.of([tokens]).to(DEVICE)
    q = torch.zeros(tokens, heads, 64, device=DEVICE)  # all weights are equal
    places = torch.eye(64, device=DEVICE)[:tokens, None].expand(-1, heads, -1).contiguous()  # v tells the keys apart
    kept = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        kept.append(short(PackedHeads(q, torch.zeros_like(q), places, layout, layout), False, share)[..., :tokens] != 0)
    first, second = kept
    pairs = [
        (first[1:], first[:-1]), (first[:, 1:], first[:, :-1]), (first[..., 1:], first[..., :-1]), (first, second),
        (first[8:], first[:-8]), (first[..., 8:], first[..., :-8]), (first[1:, :, 1:], first[:-1, :, :-1]),
    ]  # fmt: skip
    for one, other in pairs:
        both, expected = float((~one & ~other).float().mean()), share**2
        assert abs(both - expected) < 5 * math.sqrt(expected * (1 - expected) / one.numel())


def test_the_backward_pass_drops_what_the_forward_pass_dropped() -> None:
    """The result is linear in v, and smooth in q: differences tell the gradients apart from those of other draws."""
    q, k, v = (x.double().float().detach().requires_grad_() for x in projections([7, 34], [7, 34], 16))
    layout = Layout.of([7, 34]).to(DEVICE)
    factors = torch.randn_like(q)

    def total(query: Tensor, value: Tensor) -> Tensor:
        torch.manual_seed(3)  # decides the draws
        return (short(PackedHeads(query, k, value, layout, layout), True, 0.4) * factors).sum()

    dq, dv = torch.autograd.grad(total(q, v), (q, v))
    towards = torch.randn_like(q) * 1e-2
    with torch.no_grad():
        torch.testing.assert_close(total(q, v + towards) - total(q, v), (dv * towards).sum(), atol=1e-3, rtol=1e-3)
        slope = (total(q + towards, v) - total(q - towards, v)) / 2
        torch.testing.assert_close(slope, (dq * towards).sum(), atol=1e-3, rtol=1e-2)
        assert not torch.equal(total(q, v), short_of_another_seed(q, k, v, layout, factors))


def short_of_another_seed(q: Tensor, k: Tensor, v: Tensor, layout: Layout, factors: Tensor) -> Tensor:
    torch.manual_seed(4)
    return (short(PackedHeads(q, k, v, layout, layout), True, 0.4) * factors).sum()


def projections(queries: list[int], keys: list[int], width: int) -> tuple[Tensor, ...]:
    """Strided views, as attention layers make them: q beside nothing, k and v of one matrix."""
    q = torch.randn(sum(queries), 2, width, device=DEVICE)
    k, v = torch.randn(sum(keys), 2, 2, width, device=DEVICE).unbind(1)
    return tuple(x.requires_grad_() for x in (q, k, v))
