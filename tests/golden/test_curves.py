"""Every family still learns as it did: the losses of twenty updates are those that were committed.

Another machine adds numbers up in another order, hence a tolerance; `curves.py` compares bits on one.
"""

from pathlib import Path

import pytest
from tests.golden.cases.curves import CASES, UPDATES
from tests.golden.curves import committed, curve

ALWAYS = (
    "pre",
    "sutskever-lstm",
    "bahdanau-gru",
    "transformer-to-gru",
    "hierarchical",
    "next-sentence",
    "static-post",
    "gpt2",
    "language-lstm",
)


def quick(number: int, name: str) -> bool:
    """Whether a case is in every run: one in eighteen, and one of each family; all are in the wide sweep."""
    return number % 18 == 0 or name in ALWAYS


ROWS = [pytest.param(name, marks=() if quick(number, name) else pytest.mark.wide) for number, name in enumerate(CASES)]


@pytest.mark.parametrize("name", ROWS)
def test_the_losses_of_twenty_updates_are_those_of_old(name: str, tmp_path: Path) -> None:
    assert list(curve(CASES[name], tmp_path).losses) == pytest.approx(committed()[name], rel=0, abs=1e-5)


def test_every_case_has_its_row_and_every_row_its_case() -> None:
    rows = committed()
    assert list(rows) == list(CASES)
    assert {len(losses) for losses in rows.values()} == {UPDATES}
