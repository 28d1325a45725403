"""Recorded results: the design's form, finite figures, names that are names."""

import json
import math
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

import heedful
from heedful.metrics.recorded_results import record, result_file


def test_a_result_says_where_its_figures_come_from(tmp_path: Path) -> None:
    path = record("m30k-en-de", {"bleu": 41.5}, command="heedful evaluate m", seeds=[1, 2], folder=tmp_path / "new")
    assert path == tmp_path / "new" / "m30k-en-de.json"
    result = json.loads(path.read_text())
    assert list(result) == ["name", "command", "date", "machine", "versions", "seeds", "figures"]
    assert result["name"] == "m30k-en-de"
    assert result["command"] == "heedful evaluate m"
    assert result["seeds"] == [1, 2]
    assert result["figures"] == {"bleu": 41.5}
    assert result["versions"]["heedful"] == heedful.__version__
    assert {"python", "torch", "sacrebleu", "tokenizers"} < set(result["versions"])
    assert result["machine"]["cores"] >= 1
    assert result["machine"]["cpu"]


def test_figures_are_replaced_unless_merging_is_asked_for(tmp_path: Path) -> None:
    record("r", {"a": 1, "b": 1}, command="c", folder=tmp_path)
    path = record("r", {"b": 2, "c": 2}, command="c", folder=tmp_path, merge=True)
    assert json.loads(path.read_text())["figures"] == {"a": 1, "b": 2, "c": 2}
    record("r", {"d": 3}, command="c", folder=tmp_path)
    assert json.loads(path.read_text())["figures"] == {"d": 3}


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a b", ".hidden"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with refuses(f"`{name}` cannot name a result: use letters, digits, `.`, `-` and `_`."):
        result_file(name)


@pytest.mark.parametrize("figure", [math.nan, math.inf])
def test_a_figure_that_is_no_number_is_refused(figure: float, tmp_path: Path) -> None:
    with refuses(f"`perplexity` is {figure}, which cannot be recorded: a figure must be a finite number."):
        record("r", {"bleu": 1.0, "perplexity": figure}, command="c", folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_merging_into_what_is_no_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("[]")
    with refuses(f"{path} has no `figures` to add to: delete it, or record under another name."):
        record("r", {"a": 1}, command="c", folder=tmp_path, merge=True)
