"""Few combinations of options that cover many: for laws that hold for all of them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Options = dict[str, Any]


def covering(axes: Mapping[str, Sequence[Any]], size: int, legal: Callable[[Options], bool]) -> list[Options]:
    """Few combinations in which every legal choice of values of `size` axes occurs, found greedily.

    Of combinations that cover as many missing choices, the first with the most pairs of values not yet seen together.
    """
    every = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    holding = [
        (made, set(combinations(made.items(), size)), set(combinations(made.items(), 2)))
        for made in every
        if legal(made)
    ]
    missing = dict.fromkeys(part for _, parts, _ in holding for part in sorted(parts))
    seen: set[Any] = set()
    chosen = []
    while missing:
        first = next(iter(missing))
        made, parts, pairs = max(
            (each for each in holding if first in each[1]),
            key=lambda each: (len(each[1] & missing.keys()), len(each[2] - seen)),
        )
        chosen.append(made)
        seen |= pairs
        missing = {part: None for part in missing if part not in parts}
    return chosen


def in_turn(first: Sequence[Any], second: Sequence[Any]) -> list[ParameterSet]:
    """All pairs of two lists, for `pytest.mark.parametrize`.

    Each of the first with one of the second, taken in turn, is in every run, the rest in the wide sweep.
    """
    assert len(first) >= len(second)
    return [
        pytest.param(one, other, marks=() if place == number % len(second) else pytest.mark.wide)
        for number, one in enumerate(first)
        for place, other in enumerate(second)
    ]


def one_in(number: int, values: Iterable[Any], first: int = 0) -> list[ParameterSet]:
    """All values, for `pytest.mark.parametrize`: one in so many, from `first` on, is in every run, the rest are wide.

    For laws that other tests check of every value as well, in another form.
    """
    return [
        pytest.param(value, marks=() if place % number == first else pytest.mark.wide)
        for place, value in enumerate(values)
    ]


def take_turns(items: Iterable[pytest.Item], folders: Sequence[str], least: int = 4, most: int = 4) -> None:
    """Mark as wide what the laws of a file leave to each other: each checks one kind in `most`, every kind occurs.

    A law is a test function with at least `least` kinds, which are its parameters; the second law of a file begins with
    the second kind, and so on. Where a file has fewer laws than `most`, each checks more kinds.
    """
    files: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.nodeid.startswith(tuple(folders)) and item.get_closest_marker("wide") is None:
            file, _, name = item.nodeid.partition("::")
            files[file][name.partition("[")[0]].append(item)
    for laws in files.values():
        swept = [kinds for kinds in laws.values() if len(kinds) >= least]
        turns = min(most, len(swept))
        for number, kinds in enumerate(swept):
            for place, item in enumerate(kinds):
                if (number + place) % turns:
                    item.add_marker(pytest.mark.wide)
