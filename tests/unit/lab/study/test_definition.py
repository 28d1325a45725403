"""Studies are read from their files, and what cannot be run is refused in one line."""

from pathlib import Path

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.tasks import TASKS
from heedful.lab.study.definition import (
    Study,
    find_study,
    read_study,
    shipped_studies,
    title_of,
    tokens_of_update,
)

BASE = "multi30k-en-de-lc"


def study_of(tmp_path: Path, text: str, **options: object) -> Study:
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "{BASE}"\nset = ["data.folder=x"]\n{text}')
    return read_study(path, **options)  # type: ignore[arg-type]


def test_a_study_has_its_listed_cells_and_all_combinations_of_its_grid(tmp_path: Path) -> None:
    found = study_of(
        tmp_path,
        '[[cells]]\nname = "wide"\nset = ["model.width=256"]\n[grid]\n"model.heads" = [2, 8]\n"model.layers" = [1, 2]',
    )
    assert [cell.name for cell in found.cells] == [
        "base", "wide", "heads 2, layers 1", "heads 2, layers 2", "heads 8, layers 1", "heads 8, layers 2",
    ]  # fmt: skip
    assert found.cells[-1].changes == ("model.heads=8", "model.layers=2")
    assert found.base == "base"
    assert found.cell("wide").load(seed=7).train.seed == 7


def test_the_cell_that_changes_nothing_is_the_base(tmp_path: Path) -> None:
    found = study_of(tmp_path, '[grid]\n"model.layers" = [2, 4]')
    assert (found.base, len(found.cells)) == ("layers 4", 2)


def test_with_equal_tokens_smaller_batches_get_more_updates(tmp_path: Path) -> None:
    found = study_of(
        tmp_path,
        'equal_tokens = true\n[grid]\n"data.batch_tokens" = [1024, 4096]\n"train.accumulate" = [1, 2]',
        overrides=["train.steps=1000", "train.schedule.warmup=100"],
    )
    assert found.base == "batch_tokens 4096, accumulate 1"
    recipes = {cell.name: cell.load(seed=1) for cell in found.cells}
    counts = {
        name: (
            one.train.steps, getattr(one.train.schedule, "warmup", None), one.train.validation.every,
            one.train.checkpoint_every, one.train.log_every,
        )
        for name, one in recipes.items()
    }  # fmt: skip
    assert counts == {
        "batch_tokens 1024, accumulate 1": (4000, 400, 2000, 1000, 400),
        "batch_tokens 1024, accumulate 2": (2000, 200, 1000, 500, 200),
        "batch_tokens 4096, accumulate 1": (1000, 100, 500, 250, 100),
        "batch_tokens 4096, accumulate 2": (500, 50, 250, 125, 50),
    }
    tokens = {one.data.batch_tokens * one.train.accumulate * one.train.steps for one in recipes.values()}
    assert tokens == {4_096_000}
    assert found.cells[0].changes == ("data.batch_tokens=1024", "train.accumulate=1")


def test_cells_whose_names_are_alike_have_folders_of_their_own(tmp_path: Path) -> None:
    cells = '[[cells]]\nname = "a b"\nset = ["model.layers=1"]\n[[cells]]\nname = "a, b"\nset = ["model.layers=2"]'
    assert [cell.slug for cell in study_of(tmp_path, cells).cells] == ["base", "a-b", "a-b.2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[[cells]]\nname = "a"\nset = ["model.layers=2"]\n[[cells]]\nname = "b"\nset = ["model.layers=2"]',
            "the cells `a` and `b` are the same recipe: leave one of them out.",
        ),
        (
            '[[cells]]\nname = "a"\nset = ["model.haeds=2"]',
            "`model.haeds` is not a key of the family transformer. Did you mean `heads`?",
        ),
        (
            '[[cells]]\nname = "a"\nset = ["model.layers=1"]\n[[cells]]\nname = "a"\nset = ["model.layers=2"]',
            "two cells have the name `a`: give one another name.",
        ),
        ("", "there is nothing to compare: add [[cells]] or a [grid]."),
        ('[grid]\n"model.layers" = []', "`grid.model.layers` is an empty list: give it values."),
        ('seeds = [1, 1]\n[grid]\n"model.layers" = [1]', "`seeds` has 1 twice: leave it out once."),
        ('[[cells]]\nname = "a"\nset = ["train.seed=2"]', "`train.seed` is set, but a study has `seeds`: use that."),
        ('sentense = "a"', "`sentense` is not a key of a study. Did you mean `sentence`?"),
        ('[[cells]]\nset = ["a=2"]', "`cells.0.name` is missing: every study needs it."),
        ('seeds = "one"', "`seeds.0`: input should be a valid integer."),
        ('timed = ["gpu"]', "`timed.0`: input should be 'cpu' or 'cuda'."),
        (
            'metric = "accuracy"\n[grid]\n"model.layers" = [1]',
            "cell `layers 1`: `metric` is `accuracy`, which a model that translates is not scored by. Known: bleu,",
        ),
        ('metric = "blue"\n[grid]\n"model.layers" = [1]', "is not scored by. Did you mean `bleu`?"),
        (
            '[grid]\n"train.validation.metric" = ["loss"]\n"data.valid" = [[]]\n"data.test" = [[]]',
            "the recipe has neither `data.test` nor `data.valid`, but a study scores its models: name one.",
        ),
        (
            '[[cells]]\nname = "base"\nset = ["model.layers=1"]',
            "the cell `base` changes something, but the base is the recipe without changes: give the cell another",
        ),
        (
            f'[grid]\n"model.layers" = {[*range(1, 101)]}\n"model.width" = {[*range(8, 808, 8)]}',
            "[grid] has 10,000 combinations, but a study has at most 1,000 cells: leave values out, or make several "
            "studies of it.",
        ),
    ],
)
def test_what_cannot_be_a_study_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        study_of(tmp_path, text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_scores_of_every_task_are_known() -> None:
    assert all(rules.scores for rules in TASKS.values())


@pytest.mark.parametrize("name", sorted(shipped_studies()))
def test_the_shipped_studies_have_complete_recipes(name: str) -> None:
    path = find_study(name)
    found = read_study(path, ["data.folder=x"])
    assert title_of(path) == found.title
    assert found.table.question
    assert len(found.cells) >= 3
    tokens = [known["train.steps"] * tokens_of_update(known) for known in found.keys.values()]
    assert max(tokens) < 20_000_000  # minutes on one GPU


def test_a_study_that_does_not_exist_is_named() -> None:
    with refuses("...`warmpu` is neither a file nor a shipped study. Did you mean `warmup`?..."):
        find_study("warmpu")
    with refuses("...studies/none.toml: no such file..."):
        find_study("studies/none.toml")
