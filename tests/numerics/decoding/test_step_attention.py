"""One decoding step's attention: the plain references against loops over the equation, and the kernels against them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from tests.shared.covering import in_turn
from torch import Tensor

from heedful.nn.decoding.step_attention import (
    attend_memory,
    attend_past,
)
from heedful.nn.kernels import without_kernels

pytest.importorskip("triton", reason="Triton is not installed here")
from heedful.nn.kernels.step_attention import attend_memory_kernel, attend_past_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WITHIN = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
attend_past_reference = without_kernels()(attend_past)  # in plain PyTorch
attend_memory_reference = without_kernels()(attend_memory)
SHAPES = [(1, 1, 8), (3, 2, 16), (4, 3, 24)]  # beams, heads, width of a head


@dataclass(frozen=True)
class Past:
    """What one step over the past takes."""

    q_RHD: Tensor
    k_RHD: Tensor
    v_RHD: Tensor
    cache_2SPKHD: Tensor
    ancestors_SKP: Tensor
    positions_S: Tensor

    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The arguments, with a cache that the call may write."""
        return self.q_RHD, self.k_RHD, self.v_RHD, self.cache_2SPKHD.clone(), self.ancestors_SKP, self.positions_S


def past(
    positions: list[int], room: int, beams: int, heads: int, width: int, dtype: torch.dtype = torch.float32
) -> Past:
    """Random slots; NaN stands in the cache, and rubbish in the ancestors, wherever nothing was decoded."""
    slots = len(positions)
    positions_S = torch.tensor(positions, dtype=torch.int32)
    decoded_SP = torch.arange(room) < positions_S[:, None]
    cache_2SPKHD = torch.randn(2, slots, room, beams, heads, width)
    cache_2SPKHD.masked_fill_(~decoded_SP[None, :, :, None, None, None], torch.nan)
    ancestors_SKP = torch.randint(beams, (slots, beams, room), dtype=torch.int32)
    ancestors_SKP = ancestors_SKP.masked_fill(~decoded_SP[:, None], 2**30)
    q, k, v = torch.randn(slots * beams, 3, heads, width).to(DEVICE, dtype).unbind(1)
    return Past(q, k, v, cache_2SPKHD.to(DEVICE, dtype), ancestors_SKP.to(DEVICE), positions_S.to(DEVICE))


def attended_by_loop(q_D: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """sum_j p_j v_j with p_j = exp(q . k_j / sqrt(D)) / sum_i exp(q . k_i / sqrt(D)), a number at a time."""
    scores = [
        math.exp(sum(a * b for a, b in zip(q_D.tolist(), k.tolist(), strict=True)) / len(q_D) ** 0.5) for k in keys
    ]
    result = torch.zeros(len(q_D))
    for score, value in zip(scores, values, strict=True):
        result += score / sum(scores) * value.cpu()
    return result


def past_by_loop(given: Past, radius: int = 1000) -> Tensor:
    beams, room = given.ancestors_SKP.shape[1:]
    y_RHD = torch.zeros(given.q_RHD.shape)
    for row in range(y_RHD.shape[0]):
        slot, beam = divmod(row, beams)
        for head in range(y_RHD.shape[1]):
            keys, values = [given.k_RHD[row, head]], [given.v_RHD[row, head]]
            position = int(given.positions_S[slot])
            for time in range(max(0, position - radius), min(room, position)):
                origin = int(given.ancestors_SKP[slot, beam, time])
                keys.append(given.cache_2SPKHD[0, slot, time, origin, head])
                values.append(given.cache_2SPKHD[1, slot, time, origin, head])
            y_RHD[row, head] = attended_by_loop(given.q_RHD[row, head], keys, values)
    return y_RHD


@pytest.mark.parametrize(("beams", "heads", "width"), SHAPES)
def test_the_past_is_attended_to_through_the_ancestors(beams: int, heads: int, width: int) -> None:
    given = past([0, 1, 5], 7, beams, heads, width)
    with without_kernels():
        y_RHD = attend_past(*given.arguments())
    torch.testing.assert_close(y_RHD.cpu(), past_by_loop(given), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("attend", [attend_past_reference, attend_past_kernel])
def test_a_step_writes_its_keys_and_values_at_its_positions_and_nothing_else(attend: Callable[..., Tensor]) -> None:
    given = past([0, 3, 6, 7, 9], 7, 3, 2, 16)  # the last two stand beyond their room
    *others, cache, ancestors, positions = given.arguments()
    attend(*others, cache, ancestors, positions)
    expected = given.cache_2SPKHD.clone()
    for slot, position in enumerate((0, 3, 6)):
        for beam in range(3):
            expected[0, slot, position, beam] = given.k_RHD[slot * 3 + beam]
            expected[1, slot, position, beam] = given.v_RHD[slot * 3 + beam]
    assert torch.equal(cache.nan_to_num(7.0), expected.nan_to_num(7.0))


@pytest.mark.parametrize(("shape", "dtype"), in_turn(SHAPES, [torch.float32, torch.bfloat16]))
def test_the_kernel_of_the_past_agrees_with_its_reference(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """At the start, within a block of positions, over several blocks, at the end of the room and beyond it."""
    given = past([0, 2, 128, 149, 150, 171], 150, *shape, dtype)
    by_kernel, by_reference = given.arguments(), given.arguments()
    y_RHD = attend_past_kernel(*by_kernel)
    torch.testing.assert_close(y_RHD, attend_past_reference(*by_reference), atol=WITHIN[dtype], rtol=WITHIN[dtype])
    assert torch.equal(by_kernel[3].nan_to_num(7.0), by_reference[3].nan_to_num(7.0))


@pytest.mark.parametrize("radius", [0, 1, 40, 200])
def test_a_radius_limits_the_history(radius: int) -> None:
    given = past([0, 2, 128, 149, 150], 150, 2, 1, 8)
    reference = attend_past_reference(*given.arguments(), radius)
    torch.testing.assert_close(attend_past_kernel(*given.arguments(), radius), reference, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(reference.cpu(), past_by_loop(given, radius), atol=1e-5, rtol=1e-5)


def test_steps_one_after_the_other_are_causal_attention_over_each_history() -> None:
    """Beams change places at every step; in the end each row has attended as if its history were a sentence."""
    slots, beams, room, heads, width = 2, 3, 6, 2, 8
    cache = torch.full((2, slots, room, beams, heads, width), torch.nan, device=DEVICE)
    ancestors = torch.zeros(slots, beams, room, dtype=torch.int32, device=DEVICE)
    histories: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(slots * beams)]
    for position in range(room):
        q, k, v = torch.randn(slots * beams, 3, heads, width, device=DEVICE).unbind(1)
        positions = torch.full((slots,), position, dtype=torch.int32, device=DEVICE)
        y_RHD = attend_past_kernel(q, k, v, cache, ancestors, positions)
        for row, history in enumerate(histories):
            history.append((k[row], v[row]))
            for head in range(heads):
                keys, values = [key[head] for key, _ in history], [value[head] for _, value in history]
                expected = attended_by_loop(q[row, head], keys, values)
                torch.testing.assert_close(y_RHD[row, head].cpu(), expected, atol=1e-5, rtol=1e-5)
        ancestors[:, :, position] = torch.arange(beams, dtype=torch.int32)
        parents = torch.randint(beams, (slots, beams))
        ancestors = torch.stack([ancestors[slot, parents[slot]] for slot in range(slots)])
        histories = [
            list(histories[row // beams * beams + int(parents.flatten()[row])]) for row in range(slots * beams)
        ]


@dataclass(frozen=True)
class Memory:
    """What one step over the memory takes."""

    q_RHD: Tensor
    k_MHD: Tensor
    v_MHD: Tensor
    starts_S: Tensor
    lengths_S: Tensor

    def arguments(self) -> tuple[Tensor, ...]:
        """The arguments, in order."""
        return self.q_RHD, self.k_MHD, self.v_MHD, self.starts_S, self.lengths_S


def memory(lengths: list[int], beams: int, heads: int, width: int, dtype: torch.dtype = torch.float32) -> Memory:
    """Random memories in reverse order, with two rows of NaN after each."""
    starts, rows = [0] * len(lengths), 0
    kept = []
    for slot in reversed(range(len(lengths))):
        starts[slot] = rows
        kept += [True] * lengths[slot] + [False] * 2
        rows += lengths[slot] + 2
    both = torch.randn(rows, 2, heads, width).masked_fill(~torch.tensor(kept)[:, None, None, None], torch.nan)
    k, v = both.to(DEVICE, dtype).unbind(1)
    q = torch.randn(len(lengths) * beams, 3, heads, width).to(DEVICE, dtype)[:, 0]
    starts_S, lengths_S = (torch.tensor(x, dtype=torch.int32, device=DEVICE) for x in (starts, lengths))
    return Memory(q, k, v, starts_S, lengths_S)


@pytest.mark.parametrize(("beams", "heads", "width"), SHAPES)
def test_the_beams_of_a_slot_attend_to_its_memory(beams: int, heads: int, width: int) -> None:
    given = memory([4, 0, 7], beams, heads, width)
    with without_kernels():
        y_RHD = attend_memory(*given.arguments()).cpu()
    for row in range(3 * beams):
        start, length = int(given.starts_S[row // beams]), int(given.lengths_S[row // beams])
        for head in range(heads):
            keys, values = (list(x[start : start + length, head]) for x in (given.k_MHD, given.v_MHD))
            expected = attended_by_loop(given.q_RHD[row, head], keys, values)
            torch.testing.assert_close(y_RHD[row, head], expected, atol=1e-5, rtol=1e-5)


# Triton's interpreter multiplies bfloat16 by its bits: there, float16 stands for both.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, *([torch.bfloat16] if DEVICE == "cuda" else [])])
@pytest.mark.parametrize(("beams", "heads", "width"), [*SHAPES, (17, 1, 8)])
def test_the_kernel_of_the_memory_agrees_with_its_reference(
    beams: int, heads: int, width: int, dtype: torch.dtype
) -> None:
    given = memory([1, 0, 32, 33, 70], beams, heads, width, dtype)
    y_RHD, expected = attend_memory_kernel(*given.arguments()), attend_memory_reference(*given.arguments())
    torch.testing.assert_close(y_RHD, expected, atol=WITHIN[dtype], rtol=WITHIN[dtype])
    assert y_RHD.isfinite().all()


@pytest.mark.parametrize("attend", [attend_memory_reference, attend_memory_kernel])
def test_an_idle_slot_gets_zeros(attend: Callable[..., Tensor]) -> None:
    given = replace(memory([3, 5], 2, 2, 8), lengths_S=torch.tensor([3, 0], dtype=torch.int32, device=DEVICE))
    y_RHD = attend(*given.arguments())
    assert torch.equal(y_RHD[2:], torch.zeros(2, 2, 8, device=DEVICE))
    assert y_RHD[:2].abs().min() > 0
