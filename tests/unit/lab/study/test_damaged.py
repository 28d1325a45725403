"""Files of a study that are damaged: one line, with a way out that trains nothing again."""

import json
from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.lab.study.definition import Study, read_study
from heedful.lab.study.running import StudyRun, rewrite_page

WAY_OUT = "remove it, and run the study again without `page`: what is ready is not trained again."


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "mine.toml").write_text('base = "demo-en-es"\n[[cells]]\nname = "wide"\nset = ["model.width=32"]\n')
    return read_study(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (1, "TypeError: 'int' object is not iterable"),
        ([[]], "TypeError: list indices must be integers or slices, not str"),
        ([{"name": "wide"}], "KeyError: 'keys'"),
        ([{"name": "other"}], "KeyError: ..."),
        ([{"name": []}], "TypeError: unhashable type: 'list'"),
    ],
)
def test_damaged_results_are_named(cells: object, reason: str, study: Study, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(json.dumps({"name": "mine", "cells": cells}))
    with refuses(f"{tmp_path}/study.json is damaged ({reason}): {WAY_OUT}"):
        rewrite_page(study, tmp_path)
    assert not (tmp_path / "study.html").exists()


def test_what_was_measured_of_a_cell_is_named_where_it_is_damaged(study: Study, tmp_path: Path) -> None:
    run, cell = StudyRun(study, tmp_path), study.cell("wide")
    folder, job = run.cell_folder(cell, 1), run.job(cell, 1).to_json()
    folder.mkdir(parents=True)
    odd_ones: list[object] = [[], {"job": []}, {"job": {"settings": ["x"]}}]
    for odd in odd_ones:
        (folder / "found.json").write_text(json.dumps(odd))
        assert (cell, 1) in run.waiting()  # it is measured again
    (folder / "found.json").write_text(json.dumps({"job": {"settings": [None]}}))
    with refuses(
        f"{folder}/found.json is damaged (AttributeError: ...): remove it: what is trained is not trained again."
    ):
        run.waiting()
    (folder / "found.json").write_text(json.dumps({"job": job, "scores": "x"}))
    with refuses(
        f"{tmp_path}/cells is damaged (KeyError: 'metric'): remove the found.json of its folders: what is trained is "
        "not trained again."
    ):
        run.write()
    assert not (tmp_path / "study.json").exists()
