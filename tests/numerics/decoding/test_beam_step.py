"""A step of beam search: the kernel against the plain reference, step after step, and the reference against lists."""

import copy
import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from heedful.nn.decoding.beam_step import beam_step, trace
from heedful.nn.kernels import without_kernels
from heedful.nn.kernels.beam_state import BeamState

pytest.importorskip("triton", reason="Triton is not installed here")
from heedful.nn.kernels.beam_step import beam_step_kernel

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # there in Triton's interpreter
END, BEGIN, ROOM = 2, 1, 14
beam_step_reference = without_kernels()(beam_step)  # in plain PyTorch


def started(slots: int, beams: int, best: int, min_length: int = 0, alpha: float = 0.6) -> BeamState:
    """All slots in use but the last; each has a limit, a minimum length and a length penalty of its own."""
    ancestors = torch.zeros((slots, beams, ROOM), dtype=torch.int32, device=DEVICE)
    positions = torch.zeros(slots, dtype=torch.int32, device=DEVICE)
    state = BeamState.idle(ancestors, positions, best, END)
    busy = torch.arange(slots - 1, device=DEVICE)
    limits, least, first = ROOM - busy % (ROOM - 2), min_length + busy % 2, torch.full_like(busy, BEGIN)
    state.begin(busy, limits, least, penalties_of(alpha + 0.2 * busy), first)
    return state


def penalties_of(alpha_A: Tensor) -> Tensor:
    """By slot and length, which counts as 1 at least."""
    lengths = torch.arange(ROOM + 2, dtype=torch.float64, device=DEVICE).clamp(min=1)
    return ((5 + lengths) / 6) ** alpha_A.double().unsqueeze(1)


def candidates(state: BeamState, size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct tokens of every row in some order, with scores; `</s>` is often among the best."""
    generator = torch.Generator().manual_seed(seed)
    rows = state.log_p_SK.numel()
    logits = torch.randn(rows, size, generator=generator) * 2
    logits[:, END] += 2
    sums = logits.logsumexp(1)
    logits[:, END] = logits[:, END].masked_fill(~state.ends_R.cpu(), -math.inf)
    order = torch.rand(rows, size, generator=generator).argsort(1)
    return logits.gather(1, order).to(DEVICE), order.to(DEVICE), sums.to(DEVICE)


def tensors(state: BeamState) -> dict[str, Tensor]:
    return {f.name: getattr(state, f.name) for f in fields(state) if isinstance(getattr(state, f.name), Tensor)}


def copied(state: BeamState) -> BeamState:
    return replace(state, **{name: tensor.clone() for name, tensor in tensors(state).items()})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("beams", "best", "size", "min_length"),
    [
        (1, 1, 6, 0),
        pytest.param(2, 1, 7, 0, marks=pytest.mark.wide),
        pytest.param(3, 3, 11, 2, marks=pytest.mark.wide),
        pytest.param(4, 2, 20, 0, marks=pytest.mark.wide),
        pytest.param(5, 4, 33, 3, marks=pytest.mark.wide),
    ],
)
def test_the_kernel_does_what_the_reference_does_step_after_step(
    beams: int, best: int, size: int, min_length: int
) -> None:
    state = started(6, beams, best, min_length)
    state.shared_S[::2] = True
    for step in range(ROOM):
        given = candidates(state, size, seed=100 * beams + step)
        plain = copied(state)
        beam_step_reference(plain, *given)
        beam_step_kernel(state, *given)
        done = plain.done_S
        for name, tensor in tensors(state).items():
            wanted = tensors(plain)[name]
            if name.startswith("ended"):  # of those that there are
                there = plain.score_SJ > -math.inf
                assert torch.allclose(tensor[there].double(), wanted[there].double(), atol=1e-5), (step, name)
            elif name == "ancestors_SKP":  # of those that go on, up to where they stand
                used = torch.arange(ROOM, device=DEVICE) < plain.positions_S.view(-1, 1, 1)
                used = used.expand_as(tensor) & ~done.view(-1, 1, 1)
                assert torch.equal(tensor[used], wanted[used]), (step, name)
            elif name in ("last_SK", "ends_R"):
                live = ~done if name == "last_SK" else (~done).repeat_interleave(beams)
                assert torch.equal(tensor[live], wanted[live]), (step, name)
            else:
                assert torch.allclose(tensor.double(), wanted.double(), atol=1e-5, rtol=1e-5), (step, name)
    assert state.done_S.all()


@pytest.mark.parametrize("step_by", [beam_step_reference, beam_step_kernel])
def test_a_slot_that_is_done_or_idle_stays_as_it_is(step_by: object) -> None:
    state = started(3, 2, 2)
    state.done_S[0] = True
    before = copied(state)
    step_by(state, *candidates(state, 9, seed=1))  # type: ignore[operator]
    for name in ("log_p_SK", "length_S", "score_SJ", "ended_log_p_SJ", "count_S", "positions_S", "tokens_SPK"):
        for slot in (0, 2):
            assert torch.equal(tensors(state)[name][slot], tensors(before)[name][slot]), name
    assert int(state.length_S[1]) == 1


@pytest.mark.parametrize("step_by", [beam_step_reference, beam_step_kernel])
def test_where_nothing_may_follow_a_slot_is_done_with_what_stands(step_by: object) -> None:
    state = started(2, 2, 1)
    scores, tokens, sums = candidates(state, 5, seed=1)
    step_by(state, torch.full_like(scores, -math.inf), tokens, sums)  # type: ignore[operator]
    assert state.done_S.all()
    assert state.length_S.tolist() == [0, 0]
    assert state.log_p_SK[0].tolist() == [0.0, -math.inf]


@pytest.mark.parametrize("step_by", [beam_step_reference, beam_step_kernel])
def test_where_a_beam_is_shared_all_candidates_that_end_are_finished(step_by: object) -> None:
    """Of two beams, a third candidate that ends is finished in slot 0 alone, where it was chosen."""
    state = started(3, 2, 2)
    state.shared_S[0] = True
    state.log_p_SK[:2] = torch.tensor([0.0, -1.0])
    tokens = torch.tensor([[5, 6, END]] * 6, device=DEVICE)
    scores = torch.tensor([[-1.0, -1.5, -3.0], [-20.0, -30.0, -9.0]] * 3, device=DEVICE)
    step_by(state, scores, tokens, torch.zeros(6, device=DEVICE))  # type: ignore[operator]
    assert state.count_S.tolist()[:2] == [2, 0]
    assert state.ended_log_p_SJ[0].tolist() == [-3.0, -10.0]
    assert state.last_SK[:2].tolist() == [[5, 6], [5, 6]]


@pytest.mark.parametrize("step_by", [beam_step_reference, beam_step_kernel])
def test_each_slot_has_its_own_minimum_length_and_penalty(step_by: object) -> None:
    state = started(3, 2, 1, alpha=1.0)
    state.least_S[:2] = torch.tensor([2, 3], dtype=torch.int32)
    tokens = torch.tensor([[5, 6, END]] * 6, device=DEVICE)
    for length in range(1, 5):
        scores = torch.tensor([[-1.0, -1.5, -9.0 if length < 4 else -0.5]] * 6, device=DEVICE)
        step_by(state, scores, tokens, torch.zeros(6, device=DEVICE))  # type: ignore[operator]
        assert state.ends_R.view(3, 2)[:2].tolist() == [[length >= 2] * 2, [length >= 3] * 2]
    expected = [-3.5 / ((5 + 4) / 6) ** alpha for alpha in (1.0, 1.2)]
    assert state.score_SJ[:2, 0].tolist() == pytest.approx(expected)


def test_the_ceiling_of_a_slot_is_the_greatest_penalty_up_to_its_limit() -> None:
    state = BeamState.idle(
        torch.zeros((3, 2, ROOM), dtype=torch.int32, device=DEVICE),
        torch.zeros(3, dtype=torch.int32, device=DEVICE),
        1,
        END,
    )
    penalties = torch.rand(3, ROOM + 2, dtype=torch.float64, device=DEVICE) + 0.5
    limits, ones = torch.tensor([1, 5, ROOM], device=DEVICE), torch.ones(3, dtype=torch.int64, device=DEVICE)
    state.begin(torch.tensor([2, 0, 1], device=DEVICE), limits, 0 * ones, penalties, ones)
    expected = [max(row[1 : limit + 1]) for row, limit in zip(penalties.tolist(), limits.tolist(), strict=True)]
    assert state.ceiling_S[torch.tensor([2, 0, 1], device=DEVICE)].tolist() == expected


def test_pointers_lead_back_to_what_lists_remember() -> None:
    """Beams as lists of tokens, by hand, beside the reference."""
    state = started(2, 3, 2, min_length=9)  # nothing ends: the rows alone
    state.limit_S[0] = ROOM
    rows: list[list[int]] = [[], [], []]
    for step in range(6):
        scores, tokens, sums = candidates(state, 12, seed=step)
        log_p = state.log_p_SK[0].tolist()
        beam_step_reference(state, scores, tokens, sums)
        ranked = sorted(
            (
                (log_p[row] + float(scores[row, place] - sums[row]), [*rows[row], int(tokens[row, place])])
                for row in range(3)
                for place in range(12)
                if log_p[row] > -math.inf
            ),
            reverse=True,
        )
        extended = [rows[row] for row in state.rows_R[:3].tolist()]  # the first slot's rows are the first of all
        rows = copy.deepcopy([tokens for _, tokens in ranked[:3]])
        assert [row[:-1] for row in rows] == extended
        assert state.log_p_SK[0].tolist() == pytest.approx([value for value, _ in ranked[:3]], abs=1e-4)
    tokens_1PK, parents_1PK = (pointer[:1].cpu().numpy() for pointer in (state.tokens_SPK, state.parents_SPK))
    found = trace(tokens_1PK, parents_1PK, np.array([[0, 1, 2]], np.int32), np.full((1, 3), 6, np.int32))
    assert found[0].tolist() == rows
    for row in range(3):  # what each row sees at a position is what its ancestor wrote there
        written = [int(state.tokens_SPK[0, p, int(state.ancestors_SKP[0, row, p + 1])]) for p in range(5)]
        assert written == rows[row][:5]
