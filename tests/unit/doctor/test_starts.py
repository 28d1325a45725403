"""A recipe with little data is advised to start from a model that has read more, in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.shared.minimal_recipes import minimal_recipe, write_files

from heedful.config.reading.load import load_recipe
from heedful.doctor.at_start import warnings_at_start
from heedful.doctor.corpora.data import check_data
from heedful.doctor.starts import advise_start

ADVICE = (
    "A start from a masked language model (BERT) that has read much text, and some like this, is better: train one "
    '(`model.family = "bert"`) or import one (`heedful import`), and name it in `train.start_from`.'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return tmp_path


def advice(said: dict[str, Any], near: Path | None = None) -> list[tuple[str, str]]:
    recipe = load_recipe(said)
    checked = check_data(recipe, lambda message: None)
    return [(found.what, found.advice) for found in advise_start(recipe, checked.part("train"), near)]


def write_model(folder: Path, family: str, train: object = ()) -> None:
    folder.mkdir(parents=True)
    recipe = {"model": {"family": family}, "data": {"train": train}}
    (folder / "config.json").write_text(json.dumps({"format": 1, "recipe": recipe}))


@pytest.mark.parametrize(
    ("task", "what"),
    [
        ("classify", "400 texts are few"),
        ("regress", "400 texts are few"),
        ("tag", "400 sentences are few"),
        ("fill", "16 kB of text is little to learn a language from"),
    ],
)
def test_few_rows_are_told_with_the_start_that_fits(folder: Path, task: str, what: str) -> None:
    assert advice(minimal_recipe(task, folder)) == [(what, ADVICE)]


def test_a_language_model_starts_from_a_language_model(folder: Path) -> None:
    ((_, told),) = advice(minimal_recipe("generate", folder))
    assert told == (
        "A start from a language model (GPT) that has read much text, and some like this, is better: train one "
        '(`model.family = "language"`) or import one (`heedful import`), and name it in `train.start_from`.'
    )


@pytest.mark.parametrize("task", ["translate", "parse", "classify_images", "answer"])
def test_no_start_is_advised_where_none_fits_or_data_are_generated(folder: Path, task: str) -> None:
    assert advice(minimal_recipe(task, folder)) == []


def test_no_start_is_advised_where_there_are_many_rows_or_a_start(folder: Path) -> None:
    said = minimal_recipe("classify", folder)
    assert advice({**said, "train": {"start_from": "runs/bert"}}) == []
    rows = (folder / "train.tsv").read_text()
    (folder / "train.tsv").write_text(rows * 3)
    assert advice(said) == []


def test_rows_that_were_not_all_read_are_not_called_few(folder: Path) -> None:
    recipe = load_recipe(minimal_recipe("classify", folder))
    first = check_data(recipe, lambda message: None, most=9).part("train")
    assert [*advise_start(recipe, first)] == []
    sampled = minimal_recipe("classify", folder)
    sampled["data"]["train"]["sample"] = 50
    recipe = load_recipe(sampled)
    assert [found.what for found in advise_start(recipe, [])] == ["50 rows are few"]


def test_a_model_that_fits_is_named(folder: Path) -> None:
    said = minimal_recipe("classify", folder)
    write_model(folder / "near" / "runs" / "gpt", "language")
    assert advice(said) == [("400 texts are few", ADVICE)]
    near = folder / "near"
    ((_, told),) = advice(said, near)
    assert told == (
        f"{near}/runs/gpt is a language model (GPT), which may be a better start: set "
        f'`train.start_from = "{near}/runs/gpt"`.'
    )
    write_model(folder / "runs" / "other", "classifier")
    write_model(folder / "runs" / "reviews", "bert")
    (folder / "runs" / "broken").mkdir()
    (folder / "runs" / "broken" / "config.json").write_text("{")
    ((_, told),) = advice(said, near)
    assert told.startswith("runs/reviews is a masked language model (BERT), ")


def test_a_run_on_the_same_text_is_no_start(folder: Path) -> None:
    said = minimal_recipe("fill", folder)
    own = load_recipe(said).model_dump(mode="json")["data"]["train"]
    write_model(folder / "runs" / "mine", "bert", own)
    assert advice(said)[0][1] == ADVICE


def test_a_run_begins_with_the_advice_in_one_line(folder: Path) -> None:
    assert warnings_at_start(load_recipe(minimal_recipe("tag", folder))) == [f"note: 400 sentences are few. {ADVICE}"]
