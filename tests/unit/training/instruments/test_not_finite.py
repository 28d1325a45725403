"""Updates that were not finite: counted without waiting, kept in checkpoints, and traced to rows and lines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.minimal_recipes import MINIMAL, minimal_recipe, write_files
from tests.shared.refusals import refuses

from heedful.config.reading.load import recipe_from_json
from heedful.data.epochs.loader import Loader
from heedful.nn.recurrent.cells import RecurrentState
from heedful.tasks.loading import find_task
from heedful.training.checkpoints import Position
from heedful.training.not_finite import NotFiniteUpdates, Update, _search, describe, is_state
from heedful.training.truncated import TruncatedBackPropagation

CPU = torch.device("cpu")


def counted(flags: str, in_a_row: int = 3, cut: int | None = None) -> NotFiniteUpdates:
    """Updates of which those marked with x are not finite; after `cut` of them the run was resumed."""
    sick = NotFiniteUpdates(CPU, in_a_row)
    for step, flag in enumerate(flags, start=1):
        sick.add(Update(step, 0, (step - 1,)), torch.tensor(flag == "x"))
        if step == cut:
            sick = NotFiniteUpdates(CPU, in_a_row, json.loads(json.dumps(sick.state())))
    return sick


@pytest.mark.parametrize("cut", [None, 1, 3, 4, 6])
@pytest.mark.parametrize(
    ("flags", "news", "many", "going_on"),
    [
        ("......", [], [], False),
        (".x..x.", [2, 5], [], False),
        (".x.xx.", [2, 4, 5], [], False),
        (".xxx..", [2, 3, 4], [2, 3, 4], False),
        ("..xxxx", [3, 4, 5, 6], [3, 4, 5, 6], True),
        ("xxxxxx", [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], True),
    ],
)
def test_updates_are_counted_also_across_a_resume(
    flags: str, news: list[int], many: list[int], going_on: bool, cut: int | None
) -> None:
    sick = counted(flags, cut=cut)
    assert [one.step for one in sick.news()] == news
    assert [one.step for one in sick.many] == many
    assert sick.going_on == going_on
    assert sick.news() == []


def test_what_most_runs_keep_of_them_is_nothing() -> None:
    assert counted("...").state() == {}
    assert is_state({})
    assert is_state(counted(".xxx").state())


@pytest.mark.parametrize("odd", [[], 3, {"news": 1}, {"streak": [[1]]}, {"left_out": [1]}, {"returned": 7}])
def test_an_odd_state_is_damage(odd: Any, tmp_path: Path) -> None:
    content = {"step": 1, "epoch": 0, "micro_batch": 1, "not_finite": odd}
    with refuses("...`not_finite` is ..., but must be an object that Heedful wrote..."):
        Position.from_json(content, tmp_path / "step-00000001/position.json")


def test_a_line_names_few_updates_and_examples() -> None:
    updates, names = [Update(step, 0, (0,)) for step in (3, 4, 5, 1006)], [["a, line 1"], ["b", "c", "d", "e"], ["f"]]
    assert describe(updates[:1], names) == "Update 3 (a, line 1) was not applied: its loss or gradient is not finite."
    assert describe(updates, names) == (
        "4 updates were not applied, as their losses or gradients are not finite: 3 (a, line 1); 4 (b; c; d and 1 "
        "more); 5 (f) and 1 more."
    )


@pytest.mark.parametrize("sick", [set(), {0}, {7}, {3, 4}, set(range(9))])
def test_rows_to_blame_are_found_by_halves(sick: set[int]) -> None:
    trials: list[int] = []

    def finite(rows: Any) -> bool:
        trials.append(len(rows))
        return not sick & set(rows.tolist())

    assert set(_search(9, finite).tolist()) == sick
    assert len(trials) < 20


def test_micro_batches_that_are_left_out_are_not_made_and_an_epoch_still_ends() -> None:
    class Numbers:
        def plan(self, epoch: int) -> list[int]:
            return [0, 1, 2, 3]

        def batch(self, planned: int) -> int:
            return planned

    with Loader(Numbers(), (0, 1), without={(0, 2), (0, 3), (1, 0)}) as loader:
        made = [next(loader) for _ in range(4)]
    assert [(one.epoch, one.index, one.last) for one in made] == [
        (0, 1, True), (1, 1, False), (1, 2, False), (1, 3, True)
    ]  # fmt: skip


def test_a_carried_state_that_is_not_finite_is_not_carried() -> None:
    objective = TruncatedBackPropagation()
    hidden = torch.ones(1, 3, 2)
    hidden[0, 1, 0], hidden[0, 2, 1] = torch.nan, -torch.inf
    for _ in range(2):  # new, and into the memory of the one before
        objective._keep(RecurrentState(hidden, torch.ones(1, 3, 2)))
        kept = objective.state_dict()
        assert kept["hidden"].tolist() == [[[1, 1], [0, 0], [0, 0]]]
        assert kept["cell"].tolist() == [[[1, 1]] * 3]


# --- files and lines --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    return folder


@pytest.mark.parametrize("task", MINIMAL)
def test_rows_of_every_task_are_named(task: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(files / "cache"))
    recipe = recipe_from_json(minimal_recipe(task, files), task)
    prepared = find_task(recipe).prepare(recipe, None, lambda message: None)
    names = prepared.name_rows(np.array([0, 2, 5]))
    assert 1 <= len(names) <= 3  # a few documents have fewer rows
    assert not any("prepared" in name or "training row" in name for name in names), names
    if task in ("translate", "classify", "regress"):
        assert [name.rpartition(", ")[2] for name in names] == ["line 1", "line 3", "line 6"]


def test_lines_are_those_of_the_file_whatever_was_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a").write_text("one\n\ntwo two two two two two\nthree\nfour\n")
    (tmp_path / "b").write_text("1\n2\n3 3 3 3 3 3\n4\n5\n")
    data = {"folder": str(tmp_path), "train": [{"source": "a", "target": "b", "lines": "1-5"}], "max_length": 4}
    recipe = recipe_from_json({"data": data, "tokenizer": {"kind": "word"}}, "test")
    prepared = find_task(recipe).prepare(recipe, None, lambda message: None)
    assert prepared.name_rows(np.arange(3)) == ["a + b, line 1", "a + b, line 4", "a + b, line 5"]
    (tmp_path / "a").unlink()
    assert prepared.name_rows(np.array([1])) == ["a + b, prepared pair 2"]
