"""Attention within a radius equals its equation as a loop, in whole sentences, steps and slots, and costs linearly."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.numerics.attention.any_alignment_equations import close, model_of
from tests.shared.refusals import refuses
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from heedful.base.packed import Layout, Packed
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.slots import SlotShape
from heedful.nn.attention import restricted
from heedful.nn.attention.backends import PackedHeads
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.attention.restricted import Restricted

HEADS, LENGTHS = 2, [1, 21, 7, 0, 30, 2]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of 8 tokens, so that a few tokens are many blocks; and everything in float64."""
    monkeypatch.setattr(restricted, "_SMALLEST", 8)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def loop(q: Tensor, k: Tensor, v: Tensor, radius: int, causal: bool) -> Tensor:
    """The definition, sentence by sentence, query by query and head by head."""
    rows, start = [], 0
    for length in LENGTHS:
        for i in range(start, start + length):
            last = i if causal else min(i + radius, start + length - 1)
            near = range(max(start, i - radius), last + 1)
            heads = []
            for head in range(HEADS):
                powers = torch.stack([(q[i, head] @ k[j, head] / q.shape[2] ** 0.5).exp() for j in near])
                heads.append((powers / powers.sum()) @ torch.stack([v[j, head] for j in near]))
            rows.append(torch.stack(heads))
        start += length
    return torch.stack(rows)


@pytest.mark.parametrize("radius", [1, 5, 11, 40])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_values_and_gradients_equal_a_loop_over_neighbours(radius: int, causal: bool) -> None:
    layout = Layout.of(LENGTHS)
    torch.manual_seed(radius)
    q, k, v = inputs = [torch.randn(layout.tokens, HEADS, width, requires_grad=True) for width in (4, 4, 3)]
    factors = torch.randn(layout.tokens, HEADS, 3)
    expected = loop(q, k, v, radius, causal)
    wanted = torch.autograd.grad((expected * factors).sum(), inputs)
    for backend in (Restricted(radius), Restricted(radius, as_written=True)):
        found = backend(PackedHeads(q, k, v, layout, layout), causal, 0.0)
        close(found, expected)
        for mine, theirs in zip(torch.autograd.grad((found * factors).sum(), inputs), wanted, strict=True):
            close(mine, theirs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("dropout", [0.0, 1e-9], ids=["window", "blocks"])
def test_a_gpu_computes_the_same(causal: bool, dropout: float) -> None:
    layout = Layout.of(LENGTHS)
    q, k, v = inputs = [torch.randn(layout.tokens, HEADS, 16, requires_grad=True) for _ in range(3)]
    expected = loop(q, k, v, 5, causal)
    cuda = torch.device("cuda")
    q, k, v = there = [each.detach().to(cuda, torch.bfloat16).requires_grad_() for each in inputs]
    placed = layout.to(cuda)
    found = Restricted(5)(PackedHeads(q, k, v, placed, placed), causal, dropout)
    close(found.double().cpu(), expected, 3e-2)
    for mine, theirs in zip(
        torch.autograd.grad(found.float().square().sum(), there),
        torch.autograd.grad(expected.square().sum(), inputs),
        strict=True,
    ):
        close(mine.double().cpu(), theirs, 1e-1)


def test_weights_outside_the_radius_are_zero() -> None:
    attention = SelfAttention(8, HEADS, causal=True, backend=Restricted(2))
    weights_BHLL = attention.weights(torch.randn(9, 8), Layout.of([9]))
    seen = torch.ones(9, 9).tril() * torch.ones(9, 9).triu(-2)
    assert torch.equal(weights_BHLL > 0, seen.bool().expand(1, HEADS, -1, -1))
    close(weights_BHLL.sum(3), torch.ones(1, HEADS, 9))


def test_dropped_weights_are_dropped_within_the_radius() -> None:
    layout = Layout.of([40])
    q, k = torch.zeros(40, 1, 4), torch.zeros(40, 1, 4)
    found = Restricted(2)(PackedHeads(q, k, torch.ones(40, 1, 1), layout, layout), False, 0.5)
    times = (found[2:-2] * 2.5).round(decimals=8)  # of 5 equal weights of 1/5, each kept one counts twice
    assert set(times.flatten().tolist()) <= {float(kept) for kept in range(6)}
    assert len(set(times.flatten().tolist())) > 1


def test_the_work_is_proportional_to_the_length() -> None:
    def work(length: int) -> int:
        attention = SelfAttention(8, HEADS, backend=Restricted(8))
        with (
            FlopCounterMode(display=False) as counted,
            torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        ):
            attention(torch.randn(length, 8), Layout.of([length]))
        return counted.get_total_flops()

    assert work(512) == 8 * work(64)


def test_only_a_sequence_itself_is_near() -> None:
    layout, x = Layout.of([3]), torch.randn(3, HEADS, 4)
    with refuses("attention within a radius is of one sequence to itself", ValueError):
        Restricted(1)(PackedHeads(x, x, x, layout, Layout.of([3])), False, 0.0)
    with refuses("attention within a radius cannot add a bias to the scores", ValueError):
        Restricted(1)(PackedHeads(x, x, x, layout, layout), False, 0.0, torch.zeros(1, HEADS, 3, 3))


@torch.no_grad()
@pytest.mark.parametrize(
    "options",
    [{}, {"positions": "rope", "key_value_heads": 1}, {"backend": "explicit"}],
    ids=lambda options: "-".join(str(value) for value in options.values()) or "plain",
)
def test_steps_and_slots_see_as_far_as_whole_sentences(options: dict[str, Any]) -> None:
    model = model_of(attention_radius=2, **options)
    source = Packed.of([[4, 5, 6, 7, 8], [7, 8, 9, 4]])
    target = Packed.of([[2, 3, 4, 5, 6, 7], [2, 9, 8, 7, 4, 10]])
    memory = model.encoder(source)
    expected = model.decoder(target, memory).unflatten(0, (2, 6))
    near = model_of(attention_radius=1, **options)
    assert not torch.allclose(expected, near.decoder(target, memory).unflatten(0, (2, 6)))
    state = model.decoder.start(memory)
    for place in range(6):
        scores, state = model.decoder.step(target.values.view(2, 6)[:, place], state)
        close(scores, expected[:, place])
    decoder = model.decoder
    assert isinstance(decoder, TransformerDecoder)
    assert decoder.decodes_in_slots == ("backend" not in options)
    if decoder.decodes_in_slots:
        slots = decoder.slots(SlotShape(slots=2, beams=1, room=8, memory=6))
        places = torch.cat([slot * 6 + torch.arange(length) for slot, length in enumerate([5, 4])])
        slots.remember(decoder.project(memory), places, torch.arange(2), torch.tensor([5, 4]))
        for place in range(6):
            found = decoder.step_slots(target.values.view(2, 6)[:, place], slots)
            close(found, expected[:, place], 1e-5)  # slots compute in float32
            slots.positions_S.add_(1)
