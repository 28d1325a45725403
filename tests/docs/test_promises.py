"""`docs/promises.md`: every promise is held by tests that exist."""

import ast
import re
from collections import Counter
from functools import cache

import pytest
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith(("|---", "| promise "))]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip()[:60] for row in ROWS])
def test_a_promise_is_held_by_tests_that_exist(row: str) -> None:
    _, promise, held_by, _ = row.split("|")
    named = held_by.strip().split("<br>")
    assert re.fullmatch(r" [A-Z].*\. ", promise), "a promise is a sentence"
    for test in named:
        found = TEST.fullmatch(test)
        assert found, f"{test}: write `tests/PATH.py::test_NAME`, several with <br> in between"
        assert (ROOT / found[1]).is_file(), f"{found[1]} does not exist"
        assert found[2] in _tests_in(found[1]), f"{found[1]} has no {found[2]}"


def test_no_promise_is_made_twice() -> None:
    promises = Counter(row.split("|")[1] for row in ROWS)
    assert len(ROWS) > 20
    assert not [promise for promise, times in promises.items() if times > 1]


@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "docs/design.md"])
def test_the_page_of_promises_is_linked(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.search(r"\]\((docs/)?promises\.md[)#]", text)


@cache
def _tests_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
