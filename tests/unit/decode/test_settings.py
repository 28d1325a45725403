"""What a search may be told, and what it finds."""

from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.config.decode import Sampling
from heedful.decode.hypothesis import Hypothesis, Shifted, Wu
from heedful.decode.settings import SearchSettings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 0}, "`beam` is 0, but must be at least 1."),
        ({"nbest": -1}, "`nbest` is -1, but must be 1 or more."),
        ({"max_extra": 0}, "`max_extra` is 0, but must be at least 1."),
        ({"beam": 10**9}, "`beam` is 1,000,000,000, but must be at most 10,000."),
        ({"max_extra": 100_001}, "`max_extra` is 100,001, but must be at most 100,000."),
        ({"min_length": 10**30}, f"`min_length` is {10**30:,}, but must be at most 100,000."),
        ({"no_repeat": 100_001}, "`no_repeat` is 100,001, but must be at most 100,000."),
        ({"no_repeat": -1}, "`no_repeat` is -1, but must be at least 0."),
        ({"min_length": -2}, "`min_length` is -2, but must be at least 0."),
        ({"coverage": -0.5}, "`coverage` is -0.5, but must be at least 0."),
        (
            {"beam": 2, "nbest": 3},
            "`nbest` is 3, but a beam of 2 finds no more than 2: set `beam` to 3 or more.",
        ),
        (
            {"sampling": Sampling()},
            "`beam` is 4, but sampling has no beam: set `beam` to 1, and `samples` to the number of targets to draw.",
        ),
        (
            {"beam": 1, "nbest": 2, "sampling": Sampling()},
            "`nbest` is 2, but sampling returns all that is drawn: set `samples` instead.",
        ),
        (
            {"never": (7, 2)},
            "`never` has token 2, which is `</s>`, but without it no sentence ends: leave it out.",
        ),
    ],
    ids=str,
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with refuses(message):
        SearchSettings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": "warm"}, "`temperature` is 'warm', but must be a number."),
        ({"samples": 2.5}, "`samples` is 2.5, but must be a whole number."),
        ({"samples": 10_001}, "`samples` is 10,001, but must be at most 10,000: draw them in parts."),
        (
            {"temperature": 0.0},
            "`temperature` is 0.0, but must be more than 0: greedy search is a beam of 1 without sampling.",
        ),
        (
            {"temperature": float("inf")},
            "`temperature` is inf, but must be more than 0: greedy search is a beam of 1 without sampling.",
        ),
        ({"top_k": -1}, "`top_k` is -1, but must be 1 or more, or 0 for all tokens."),
        ({"top_p": 0.0}, "`top_p` is 0.0, but must be more than 0 and at most 1, which is all tokens."),
        ({"top_p": 1.01}, "`top_p` is 1.01, but must be more than 0 and at most 1, which is all tokens."),
        ({"samples": 0}, "`samples` is 0, but must be at least 1."),
        ({"seed": -1}, "`seed` is -1, but must be 0 or more, and less than 2^64."),
        ({"seed": 2**64}, "`seed` is 18,446,744,073,709,551,616, but must be 0 or more, and less than 2^64."),
    ],
    ids=str,
)
def test_impossible_sampling_is_refused(wrong: dict[str, Any], message: str) -> None:
    with refuses(message):
        Sampling(**wrong)


def test_settings_are_made_as_before() -> None:
    settings = SearchSettings(5, 2, 30, Shifted(1.0))
    assert (settings.beam, settings.nbest, settings.max_extra, settings.penalty) == (5, 2, 30, Shifted(1.0))
    assert SearchSettings().penalty == Wu(0.6)


def test_rows_are_beams_or_samples() -> None:
    assert SearchSettings(beam=3).rows == 3
    assert SearchSettings(beam=1, sampling=Sampling(samples=7)).rows == 7


def test_attention_is_needed_for_coverage_and_alignment_alone() -> None:
    assert not SearchSettings(no_repeat=2, min_length=2, never=(9,)).attentive
    assert SearchSettings(coverage=0.1).attentive
    assert SearchSettings(aligned=True).attentive


def test_a_hypothesis_counts_its_end() -> None:
    assert Hypothesis.of([5, 6, 2, 0, 0], -1.0, -2.0) == Hypothesis((5, 6), -1.0, -2.0, complete=True)
    assert Hypothesis.of([5, 6, 2], -1.0, -2.0).length == 3
    assert Hypothesis.of([5, 6], -1.0, -2.0) == Hypothesis((5, 6), -1.0, -2.0, complete=False)
    assert Hypothesis.of([5, 6], -1.0, -2.0).length == 2


def test_a_hypothesis_that_nothing_followed_is_not_complete() -> None:
    assert Hypothesis.of([5, 6, 0, 0], -1.0, -2.0) == Hypothesis((5, 6), -1.0, -2.0, complete=False)
    assert Hypothesis.of([0], 0.0, 0.0).length == 0


def test_only_tokens_are_aligned_not_the_end() -> None:
    assert Hypothesis.of([5, 6, 2, 0], -1.0, -2.0, [3, 1, 4, 4]).alignment == (3, 1)
    assert Hypothesis.of([5, 6], -1.0, -2.0, [3, 1]).alignment == (3, 1)


def test_a_hypothesis_is_scored_by_its_own_length() -> None:
    assert Hypothesis.scored([5, 2, 0, 0], -6.0, Wu(1.0), -0.5, None).score == pytest.approx(-6 / (7 / 6) - 0.5)
    assert Hypothesis.scored([0], 0.0, Wu(1.0), -0.5, None).score == -0.5
