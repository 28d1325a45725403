"""Stretches as answers: probabilities and the best stretches against loops over all of them."""

import math

import pytest
import torch

from heedful.base.packed import Layout
from heedful.nn.decoding.spans import IMPOSSIBLE, best_spans, log_ends

LENGTHS = (7, 1, 4)


def scores() -> tuple[torch.Tensor, torch.Tensor, Layout]:
    generator = torch.Generator().manual_seed(3)
    possible = torch.tensor([True, False, False, True, True, True, False, True, True, False, True, True])
    return torch.randn(sum(LENGTHS), 2, generator=generator), possible, Layout.of(LENGTHS)


def test_probabilities_are_a_softmax_over_the_possible_tokens_of_each_row() -> None:
    raw, possible, layout = scores()
    for side, logs_BL in enumerate(log_ends(raw, possible, layout)):
        for row, (begin, end) in enumerate(zip(layout.offsets, layout.offsets[1:], strict=False)):
            total = sum(math.exp(raw[n, side]) for n in range(int(begin), int(end)) if possible[n])
            for place in range(int(end - begin)):
                n = int(begin) + place
                expected = math.exp(raw[n, side]) / total if possible[n] else 0.0
                assert math.exp(logs_BL[row, place]) == pytest.approx(expected, abs=1e-6)


def test_a_row_without_possible_tokens_has_a_finite_gradient() -> None:
    raw, _, layout = scores()
    raw.requires_grad_(True)
    starts_BL, _ = log_ends(raw, torch.zeros(sum(LENGTHS), dtype=torch.bool), layout)
    starts_BL.sum().backward()
    assert raw.grad is not None
    assert raw.grad.isfinite().all()


@pytest.mark.parametrize("most", [1, 2, 3, 50])
@pytest.mark.parametrize("k", [1, 4, 100])
def test_the_best_stretches_are_those_of_a_loop_over_all(most: int, k: int) -> None:
    generator = torch.Generator().manual_seed(most)
    starts_BL, ends_BL = torch.randn(2, 3, 6, generator=generator).unbind()
    allowed_BL = torch.tensor([[0, 0, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0]], dtype=torch.bool)
    found = best_spans(starts_BL, ends_BL, allowed_BL, most, k)
    for row in range(3):
        places = [place for place in range(6) if allowed_BL[row, place]]
        every = [
            (float(starts_BL[row, first] + ends_BL[row, last]), first, last)
            for first in places
            for last in places
            if first <= last < first + most
        ]
        expected = sorted(every, reverse=True)[:k]
        real = [
            (score, first, last)
            for score, first, last in zip(*(values[row].tolist() for values in found), strict=True)
            if score > IMPOSSIBLE / 2
        ]
        assert [ends[1:] for ends in real] == [ends[1:] for ends in expected]
        assert [ends[0] for ends in real] == pytest.approx([ends[0] for ends in expected], abs=1e-5)
