"""A run of epochs: its updates are counted when the data is known, recorded, and the same when it resumes."""

from io import StringIO
from pathlib import Path

from rich.console import Console
from tests.unit.runs.run_folders import Make

from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.models.bundle import WEIGHTS, read_description
from heedful.runs.job import first_job
from heedful.runs.progress import RunProgress
from heedful.runs.training_run import train


def quiet() -> Console:
    return Console(file=StringIO())


def with_epochs(recipe: Recipe, epochs: float) -> Recipe:
    values = recipe_to_json(recipe)
    values["train"] = {key: value for key, value in values["train"].items() if key != "steps"} | {"epochs": epochs}
    return recipe_from_json(values, "test recipe")


def test_a_run_of_epochs_sees_all_its_batches_that_often(make: Make) -> None:
    with RunProgress(quiet()) as progress:
        job = first_job(with_epochs(make(accumulate=5), 2), progress)
        job.begin()
    batches = len(list(job.feed.plan(0)))
    assert batches % 5 != 0  # the last update of an epoch is smaller
    assert (job.recipe.train.steps, job.recipe.train.epochs) == (2 * (batches // 5 + 1), None)


def test_a_run_that_is_resumed_for_more_epochs_is_the_longer_run(make: Make, tmp_path: Path) -> None:
    recipe = make(validation={"every": 1000}, checkpoint_every=1000)
    whole = train(with_epochs(recipe, 2), tmp_path / "whole", console=quiet())
    train(with_epochs(recipe, 1), tmp_path / "parts", console=quiet())
    parts = train(with_epochs(recipe, 2), tmp_path / "parts", resume=True, console=quiet())
    assert (parts / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()
    assert read_description(parts)[0].train.steps == read_description(whole)[0].train.steps > 2
