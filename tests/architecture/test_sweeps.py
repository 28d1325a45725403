"""The laws of a file share their kinds in `make test`, and leave no kind out."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from tests.shared.covering import take_turns


@dataclass
class Item:
    """A test as `take_turns` sees it."""

    nodeid: str
    marks: list[str] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark.name)


def quick(laws: dict[str, int], folder: str = "tests/contract") -> dict[str, list[int]]:
    """Return the numbers of the kinds that each law checks in `make test`."""
    items = [Item(f"{folder}/test_a.py::{law}[{kind}]") for law, kinds in laws.items() for kind in range(kinds)]
    take_turns(cast(list[pytest.Item], items), ["tests/contract/"])
    return {
        law: [int(one.nodeid.split("[")[1][:-1]) for one in items if f"::{law}[" in one.nodeid and not one.marks]
        for law in laws
    }


def test_many_laws_check_a_quarter_of_the_kinds_each_and_all_of_them_together() -> None:
    found = quick({f"law {number}": 8 for number in range(6)})
    assert [len(kinds) for kinds in found.values()] == [2] * 6
    assert {kind for kinds in found.values() for kind in kinds} == {*range(8)}


def test_three_laws_check_a_third_of_the_kinds_each_and_all_of_them_together() -> None:
    found = quick({"first": 9, "second": 9, "third": 9})
    assert [len(kinds) for kinds in found.values()] == [3, 3, 3]
    assert sorted(kind for kinds in found.values() for kind in kinds) == [*range(9)]


def test_two_laws_check_half_of_the_kinds_each_and_a_single_one_all() -> None:
    assert quick({"first": 4, "second": 4}) == {"first": [0, 2], "second": [1, 3]}
    assert quick({"first": 4}) == {"first": [0, 1, 2, 3]}


def test_short_sweeps_and_other_folders_are_left_whole() -> None:
    assert quick({"first": 3, "second": 3}) == {"first": [0, 1, 2], "second": [0, 1, 2]}
    assert quick({"first": 9, "second": 9}, "tests/unit") == {"first": [*range(9)], "second": [*range(9)]}
