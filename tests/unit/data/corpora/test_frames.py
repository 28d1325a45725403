"""Frames of pandas and polars, the real ones, as corpora: each is the same file as its rows."""

from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.task_rules import TaskRules
from heedful.data.corpora.in_memory import spool
from heedful.tasks.classify.rules import CLASSIFY
from heedful.tasks.translate.rules import TRANSLATE


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path))


@pytest.fixture(params=["pandas", "polars"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


@pytest.mark.parametrize(
    ("columns", "rules"),
    [
        ({"id": [1, 2], "target": ["ein Hund", "é"], "source": ["a dog", ""]}, TRANSLATE),
        ({"text": ["good", "bad"], "label": ["pos", "neg"]}, CLASSIFY),
        ({"text": ["good", "bad"], "label": [1, 0], "second": ["a", "b"]}, CLASSIFY),
    ],
)
def test_a_frame_is_the_same_file_as_its_rows(library: Any, columns: dict[str, list[Any]], rules: TaskRules) -> None:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert spool(library.DataFrame(columns), rules, "train") == spool(rows, rules, "train")


def test_classes_of_a_category_are_texts(library: Any) -> None:
    kind = "category" if library.__name__ == "pandas" else library.Categorical
    frame = library.DataFrame({"text": ["good", "bad"], "label": ["pos", "neg"]})
    changed = frame.astype({"label": kind}) if hasattr(frame, "astype") else frame.cast({"label": kind})
    assert spool(changed, CLASSIFY, "train") == spool(frame, CLASSIFY, "train")


def test_the_rows_of_a_filtered_frame_are_counted_from_one(library: Any) -> None:
    frame = library.DataFrame({"source": ["a", "b", None], "target": ["x", "y", "z"]})
    later = frame[1:]
    with pytest.raises(UserError, match=r"^train, row 2: `source` is (None|nan), but must be a text"):
        spool(later, TRANSLATE, "train")


def test_a_frame_without_a_column_says_which(library: Any) -> None:
    with refuses("`train` has no column `source`, but must have `source`, `target`. Did you mean `src`?"):
        spool(library.DataFrame({"src": ["a"], "target": ["b"]}), TRANSLATE, "train")
