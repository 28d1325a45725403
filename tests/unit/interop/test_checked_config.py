"""Values of a config.json, and one line for every wrong one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.interop.transformers.model_folder import CheckedConfig

SETTINGS = CheckedConfig(
    Path("x/config.json"), {"two": 2, "half": 0.5, "yes": True, "word": "swish", "nothing": None, "list": [1]}
)


def test_values_of_the_right_type_are_given() -> None:
    assert SETTINGS.number("two") == 2
    assert SETTINGS.real("half", 0.0) == 0.5
    assert SETTINGS.real("two", 0.0) == 2.0
    assert SETTINGS.fraction("half", 0.0) == 0.5
    assert SETTINGS.divisor("two", "two") == 2
    assert SETTINGS.index("two", 3) == 2
    assert SETTINGS.flag("yes", False) is True
    assert SETTINGS.choice("word", {"swish": "silu"}) == "silu"
    SETTINGS.must_be("two", 2, "why")


def test_defaults_stand_for_what_is_missing_or_null() -> None:
    assert SETTINGS.number("nothing", 7) == SETTINGS.number("other", 7) == 7
    assert SETTINGS.real("nothing", 0.5) == 0.5
    assert SETTINGS.flag("other", True) is True
    SETTINGS.must_be("other", 2, "why")


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (lambda: SETTINGS.number("other"), "x/config.json: `other` is missing, but must be a whole number."),
        (lambda: SETTINGS.index("two", 2), "x/config.json: `two` is 2, but must be one whole number from 0 to 1."),
        (lambda: SETTINGS.index("list", 9), "x/config.json: `list` is [1], but must be one whole number from 0 to 8."),
        (lambda: SETTINGS.number("half"), "x/config.json: `half` is 0.5, but must be a whole number."),
        (lambda: SETTINGS.number("yes"), "x/config.json: `yes` is true, but must be a whole number."),
        (lambda: SETTINGS.real("list", 0.0), "x/config.json: `list` is [1], but must be a number above 0."),
        (lambda: SETTINGS.flag("two", False), "x/config.json: `two` is 2, but must be true or false."),
        (
            lambda: SETTINGS.choice("word", {"relu": "relu", "gelu": "gelu"}),
            'x/config.json: `word` is "swish", but must be one of relu, gelu.',
        ),
        (
            lambda: SETTINGS.choice("list", {"relu": "relu"}),
            "x/config.json: `list` is [1], but must be one of relu.",
        ),
        (
            lambda: SETTINGS.must_be("yes", False, "nobody can"),
            "x/config.json: `yes` is true, but must be false: nobody can.",
        ),
    ],
)
def test_other_values_are_refused(ask: Callable[[], object], line: str) -> None:
    with refuses(line):
        ask()
