"""A comparison as a person reads it: tables and a plain statement."""

from dataclasses import replace

import pytest

from heedful.cli.verbs.compare import statement, text_of
from heedful.lab.compare import Comparison, System, compare
from heedful.metrics.significance import Bootstrap, Welch


def test_on_a_terminal_long_lines_are_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    systems = [
        System(f"runs/a-name-that-leaves-no-room-for-another-one-{n}", (f"{n} " + "word " * (20 + n), f"run {n}", ""))
        for n in range(4)
    ]
    references = ["word " * 31, "run 2", "x"]
    found = compare(systems[:2], systems[2:], references, metrics=["bleu", "chrf", "ter"], samples=100)
    lines = text_of(found, "a test set").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("   runs/")
    assert any(line.startswith("  A 1 of 2   0 word word") for line in lines)
    assert any(line.startswith(" " * 13 + "word") for line in lines)


# --- the statement ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcome() -> Comparison:
    """A comparison by BLEU alone that found B to be better."""
    a, b = System("a", ("x y z w",) * 2), System("b", ("a b c d",) * 2)
    found = compare([a], [b], ["a b c d"] * 2, metrics=["bleu"], samples=100)
    sure = replace(found.metrics[0], difference=1.234, bootstrap=Bootstrap(0.4, 2.1, 0.004), p_randomisation=0.006)
    return replace(found, metrics=(sure,), sentences=1000)


def test_the_statement_is_plain(outcome: Comparison) -> None:
    assert statement(outcome) == (
        "B is better than A: +1.23 BLEU (95% interval +0.40 to +2.10), p = 0.004 by bootstrap, 0.006 by randomisation, "
        "over 1,000 sentences and one run per side."
    )


def test_the_statement_speaks_of_the_better_side(outcome: Comparison) -> None:
    (sure,) = outcome.metrics
    turned = replace(sure, difference=-1.234, bootstrap=Bootstrap(-2.1, -0.4, 0.004), welch=Welch(-5, 3.5, 0.00012))
    runs = replace(outcome, metrics=(turned,), a=("1", "2", "3"), b=("4", "5", "6"))
    assert statement(runs) == (
        "A is better than B: +1.23 BLEU (95% interval +0.40 to +2.10), p = 0.004 by bootstrap, 0.006 by randomisation, "
        "0.0001 by Welch's t-test over the runs, over 1,000 sentences and 3 runs per side."
    )


def test_the_statement_says_where_lower_is_better_and_what_other_metrics_find(outcome: Comparison) -> None:
    (sure,) = outcome.metrics
    ter = replace(sure, metric="TER", lower_is_better=True)
    unsure = replace(sure, metric="chrF", p_randomisation=0.3)
    several = replace(outcome, metrics=(ter, sure, unsure), a=("1",), b=("2", "3"))
    assert statement(several) == (
        "A is better than B: -1.23 TER (95% interval -2.10 to -0.40; lower is better), p = 0.004 by bootstrap, "
        "0.006 by randomisation, over 1,000 sentences and 1 run of A, 2 of B. BLEU finds B better. chrF finds no real "
        "difference."
    )
    assert statement(replace(outcome, metrics=(unsure,))).endswith(
        "p = 0.004 by bootstrap, 0.300 by randomisation, over 1,000 sentences and one run per side: "
        "these data cannot tell A from B."
    )
