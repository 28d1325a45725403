"""The doctor says nothing about values that Heedful chose, and calls runs that are far too long a problem."""

from pathlib import Path
from typing import Any

import pytest
from tests.shared.minimal_recipes import MINIMAL, minimal_recipe, write_files

from heedful.cli.main import run
from heedful.config.reading.load import load_recipe, recipe_to_toml
from heedful.config.recipe import Recipe
from heedful.defaults.apply import with_followed_defaults
from heedful.doctor.chosen_values import is_set, without_chosen
from heedful.doctor.estimates.plan import Forecast
from heedful.doctor.examination import Report, examine
from heedful.doctor.findings import Finding


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("minimal")
    write_files(made)
    return made


@pytest.fixture(autouse=True)
def _a_cache_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(folder / "cache"))


def kinds(report: Report) -> dict[str, Finding]:
    return {finding.kind: finding for finding in report.findings}


@pytest.mark.parametrize("task", MINIMAL)
def test_nothing_is_said_about_a_recipe_that_names_only_its_files_and_its_family(folder: Path, task: str) -> None:
    report = examine(load_recipe(minimal_recipe(task, folder)))
    assert [finding.what for finding in report.findings if finding.kind not in ("start", "few_numbers")] == []
    assert report.run.parameters.total > 0
    assert report.run.epochs > 0
    assert report.memory.total is not None


def test_the_strict_command_accepts_such_a_recipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = folder / "minimal.toml"
    recipe.write_text(
        f'[data]\nfolder = "{folder}"\ntrain = {{ tsv = "train.tsv", text = 1, label = 2 }}\n'
        'valid = { tsv = "valid.tsv", text = 1, label = 2 }\n[model]\nfamily = "classifier"\n'
    )
    assert run(["doctor", str(recipe), "--strict"]) == 0
    assert capsys.readouterr().out.startswith("note     run: 400 texts are few\n")


def test_the_same_values_are_criticised_where_a_recipe_sets_them(folder: Path) -> None:
    said = minimal_recipe("translate", folder, steps=20, checkpoint_every=500, validation={"every": 500})
    found = kinds(examine(load_recipe({**said, "tokenizer": {"size": 4000}})))
    assert found["rare_pieces"].keys == ("tokenizer.size",)
    assert found["late_validation"].severity == "warning"
    assert found["late_checkpoint"].severity == "note"


def test_what_is_set_is_told_from_what_is_chosen() -> None:
    said = {"data": {"train": {"builtin": "dates", "count": 50}}, "model": {"width": 64, "heads": 2}}
    recipe = load_recipe(said)
    followed = with_followed_defaults(recipe)
    assert followed.followed is not None
    assert "train.schedule" in followed.followed.keys
    for known in (recipe, followed):
        assert [key for key in ("data", "data.train", "model", "model.width") if not is_set(known, key)] == []
        for key in ("train", "train.steps", "train.schedule", "train.schedule.warmup", "tokenizer", "tokenizer.size"):
            assert not is_set(known, key)
    other = with_followed_defaults(load_recipe({**said, "tokenizer": {"kind": "unigram"}}))
    assert (is_set(other, "tokenizer"), is_set(other, "tokenizer.size")) == (True, False)


def test_what_a_default_loses_of_the_data_is_a_note() -> None:
    recipe = load_recipe({"data": {"train": {"builtin": "dates"}, "max_ratio": 2}})

    def told(kind: str, *keys: str) -> list[str]:
        one = Finding("problem", kind, "train", "what", "advice", keys=keys)
        return [finding.severity for finding in without_chosen(recipe, [one])]

    assert told("dropped", "data.max_length") == ["note"]
    assert told("dropped", "data.max_length", "data.max_ratio") == ["problem"]
    assert told("rare_pieces", "tokenizer.size") == []
    assert told("memory") == ["problem"]


# --- runs that are too long -------------------------------------------------------------------------------------------


def slow(recipe: Recipe) -> Forecast:
    return Forecast(1, 10.0, recipe.train.steps, 400_000.0, 1.0, 1, None)


LEFT_OUT = ", or leave it out, so that Heedful chooses it by the data"
CONSTANT = {"schedule": {"kind": "constant", "lr": 0.001}}


@pytest.mark.parametrize(
    ("train", "advice"),
    [
        ({"steps": 3000}, f"Set `train.steps` to 300 or less{LEFT_OUT}: "),
        ({"epochs": 400}, f"Set `train.epochs` to 300 or less{LEFT_OUT}: "),
        (CONSTANT, "Set `train.steps` to 300 or less: "),
    ],
)
def test_hundreds_of_epochs_are_a_problem(folder: Path, train: dict[str, Any], advice: str) -> None:
    model = {"family": "classifier", "encoder": {"family": "bag", "width": 8}}
    said = minimal_recipe("classify", folder, **train)
    report = examine(load_recipe({**said, "model": model, "data": {**said["data"], "batch_tokens": 100_000}}))
    found = kinds(report)["many_epochs"]
    assert (found.severity, found.part) == ("problem", "run")
    assert found.what == f"the run reads the training data {report.run.epochs:,.0f} times"
    assert found.advice == f"{advice}a model learns its data by heart long before."
    assert report.run.epochs > 300


def test_many_hours_are_a_problem_whoever_chose_them(folder: Path) -> None:
    report = examine(load_recipe(minimal_recipe("classify", folder, device="cpu")), slow)
    found = kinds(report)["long_run"]
    assert (found.severity, found.what) == ("problem", "the run takes about 111 hours on this device (cpu)")
    assert found.advice == "Lower `train.steps`, make the model smaller, or train on a GPU."
    assert report.time is not None
    assert (report.time.unit, report.time.seconds) == ("tokens", 400_000.0)


def test_a_recipe_written_in_full_is_a_recipe_that_sets_everything(folder: Path) -> None:
    chosen = with_followed_defaults(load_recipe(minimal_recipe("classify", folder)))
    (folder / "full.toml").write_text(recipe_to_toml(chosen))
    assert is_set(load_recipe(folder / "full.toml"), "tokenizer.size")
