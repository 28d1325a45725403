"""Corpora in memory: every form of rows becomes the same file, and what is wrong with a row is said with its number."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.corpora.roles import Roles
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.in_memory import spool
from heedful.tasks.classify.rules import CLASSIFY
from heedful.tasks.fill.rules import FILL
from heedful.tasks.translate.rules import TRANSLATE


class Frame:
    """A table as pandas and polars have it: names of columns, and columns by name."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns

    @property
    def columns(self) -> Any:
        return np.array(list(self._columns))

    def __getitem__(self, name: str) -> Any:
        return np.array(self._columns[name], object)

    def __iter__(self) -> Any:
        raise AssertionError("iterating over a frame gives its columns, or something else")


class DataSet:
    """A data set as `datasets` has it: rows are dictionaries, and classes are numbers with names."""

    def __init__(self, rows: list[dict[str, Any]], names: list[str]) -> None:
        self.column_names, self._rows = list(rows[0]), rows
        self.features = {"label": SimpleNamespace(names=names)}

    def __iter__(self) -> Any:
        return iter(self._rows)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))


def rows_of(data: object, rules: TaskRules) -> list[dict[str, Any]]:
    table = spool(data, rules, "train")
    return [json.loads(line) for line in Path(str(table["jsonl"])).read_text().splitlines()]


PAIRS = [{"source": "a dog", "target": "ein Hund"}, {"source": "", "target": "\u00e9\n"}]
TEXTS = [{"text": "good", "label": "pos"}, {"text": "bad", "label": "neg"}]


@pytest.mark.parametrize(
    "data",
    [
        PAIRS,
        [tuple(row.values()) for row in PAIRS],
        ([*row.values()] for row in PAIRS),
        {name: [row[name] for row in PAIRS] for name in ("target", "source")},
        Frame({"id": [1, 2], **{name: [row[name] for row in PAIRS] for name in ("source", "target")}}),
        [{**row, "id": 5} for row in PAIRS],
    ],
)
def test_pairs_in_every_form_are_the_same_file(data: object) -> None:
    table = spool(data, TRANSLATE, "train")
    expected = spool(PAIRS, TRANSLATE, "train")
    assert table == expected
    assert table == {"name": "train", "jsonl": expected["jsonl"], "source": "source", "target": "target"}
    assert rows_of(PAIRS, TRANSLATE) == PAIRS


@pytest.mark.parametrize(
    "data",
    [
        TEXTS,
        [("good", "pos"), ("bad", "neg")],
        DataSet([{"text": "good", "label": 1}, {"text": "bad", "label": 0}], ["neg", "pos"]),
    ],
)
def test_texts_with_labels_in_every_form(data: object) -> None:
    assert rows_of(data, CLASSIFY) == TEXTS


def test_labels_may_be_numbers_or_lists_and_texts_may_be_pairs() -> None:
    assert rows_of([("a", 1), ("b", np.int64(0))], CLASSIFY) == [
        {"text": "a", "label": "1"},
        {"text": "b", "label": "0"},
    ]
    assert rows_of([("a", ["x", 2])], CLASSIFY) == [{"text": "a", "label": ["x", "2"]}]
    assert rows_of([("a", "b", "x")], CLASSIFY) == [{"text": "a", "second": "b", "label": "x"}]


def test_texts_alone_train_a_masked_language_model() -> None:
    assert rows_of(["a", "b"], FILL) == rows_of([("a",), {"text": "b"}], FILL) == [{"text": "a"}, {"text": "b"}]


def test_the_file_is_named_by_its_content_and_nothing_else_is_left(tmp_path: Path) -> None:
    first, again, other = (spool(rows, TRANSLATE, "x")["jsonl"] for rows in (PAIRS, PAIRS, PAIRS[:1]))
    assert first == again != other
    assert {str(path) for path in (tmp_path / "in_memory").iterdir()} == {first, other}


@pytest.mark.parametrize(
    ("data", "rules", "message"),
    [
        ([], TRANSLATE, "`train` has no rows: give at least one."),
        ("train.tsv", TRANSLATE, "`train` is 'train.tsv', but must be rows with `source`, `target`."),
        (5, CLASSIFY, "`train` is 5, but must be rows with `text`, `label` and optionally `second`."),
        ([("a", "b"), ("a", None)], TRANSLATE, "train, row 2: `target` is None, but must be a text: leave it out, or "),
        ([("a", "b", "c")], TRANSLATE, "train, row 1 has 3 values, but must have `source`, `target`."),
        (["a b"], TRANSLATE, "train, row 1 is 'a b', but must be a tuple or a dictionary with `source`, `target`."),
        ([{"source": "a"}], TRANSLATE, "train, row 1 has no column `target`, but must have `source`, `target`."),
        (
            Frame({"src": ["a"], "target": ["b"]}),
            TRANSLATE,
            "`train` has no column `source`, but must have `source`, `target`. Did you mean `src`?",
        ),
        ([("a", None)], CLASSIFY, "train, row 1: `label` is None, but must be a text: leave it out, or give"),
        (
            {"source": ["a"], "target": ["b", "c"]},
            TRANSLATE,
            "`train` has columns of 1 and 2 rows, but all must be of one length.",
        ),
    ],
)
def test_what_is_wrong_with_rows_is_said_with_its_number(
    data: object, rules: TaskRules, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        spool(data, rules, "train")
    assert str(caught.value).startswith(message)
    assert not list((tmp_path / "in_memory").iterdir())


RATED = replace(CLASSIFY, roles=(Roles(("text", "number"), optional=("second",)),))


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ([("good", 8), ("bad", 1.5)], [{"number": 8.0, "text": "good"}, {"number": 1.5, "text": "bad"}]),
        ([("a", "b", np.float32(0.5))], [{"number": 0.5, "second": "b", "text": "a"}]),
        (Frame({"text": ["a"], "number": [np.int64(3)], "id": [1]}), [{"number": 3.0, "text": "a"}]),
    ],
)
def test_rows_may_have_numbers(data: object, rows: list[dict[str, object]]) -> None:
    table = spool(data, RATED, "train")
    assert [json.loads(line) for line in Path(str(table["jsonl"])).read_text().splitlines()] == rows
    assert table["number"] == "number"


@pytest.mark.parametrize("value", [True, None, float("nan"), float("inf")])
def test_a_number_in_memory_that_is_not_finite_is_refused(value: object) -> None:
    with refuses("train, row 1: `number` is ..., but must be a finite number."):
        spool([("good", value)], RATED, "train")
