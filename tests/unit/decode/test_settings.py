"""What a search may be told, and the penalty."""

from typing import Any

import pytest

from heedful.decode.hypothesis import Hypothesis
from heedful.decode.penalties import Wu
from heedful.decode.settings import Settings
from heedful.errors import UserError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beam": 0}, "`beam` is 0, but must be at least 1."),
        ({"nbest": -1}, "`nbest` is -1, but must be at least 1."),
        ({"max_extra": 0}, "`max_extra` is 0, but must be at least 1."),
        (
            {"beam": 2, "nbest": 3},
            "`nbest` is 3, but a beam of 2 finds no more than 2: set `beam` to 3 or more.",
        ),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        Settings(**wrong)
    assert str(caught.value) == message


@pytest.mark.parametrize("alpha", [-0.1, float("nan")])
def test_a_negative_length_penalty_is_refused(alpha: float) -> None:
    with pytest.raises(UserError, match=f"^`length_penalty` is {alpha}, but must be 0 or more.$"):
        Wu(alpha)


def test_the_penalty_is_that_of_wu() -> None:
    assert Wu(0.0)(17) == 1
    assert Wu(1.0)(7) == 2
    assert Wu(0.6)(1) == 1
    assert Wu(0.6)(25) == pytest.approx(5**0.6)


def test_a_hypothesis_counts_its_end() -> None:
    assert Hypothesis.of([5, 6, 2, 0, 0], -1.0, -2.0) == Hypothesis((5, 6), -1.0, -2.0, complete=True)
    assert Hypothesis.of([5, 6, 2], -1.0, -2.0).length == 3
    assert Hypothesis.of([5, 6], -1.0, -2.0) == Hypothesis((5, 6), -1.0, -2.0, complete=False)
    assert Hypothesis.of([5, 6], -1.0, -2.0).length == 2
