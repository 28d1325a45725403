"""The length of a run: updates or epochs, the last one that is given."""

import pytest
from tests.unit.config.reading.written_recipes import DATA, complaints, load, recipe_file

from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.train.table import Train


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))


@pytest.mark.parametrize(
    ("epochs", "updates", "steps"), [(3, 100, 300), (0.5, 7, 4), (0.1, 30, 3), (1e-6, 5, 1), (None, 5, 100_000)]
)
def test_epochs_are_counted_in_updates(epochs: float | None, updates: int, steps: int) -> None:
    counted = Train(epochs=epochs).in_steps(updates)
    assert (counted.steps, counted.epochs) == (steps, None)


def test_a_run_has_one_length() -> None:
    assert complaints(f"{DATA}[train]\nsteps = 5\nepochs = 2") == [
        "my.toml: in `train`, `steps` and `epochs` are both set, but a run has one length: leave one of them out."
    ]


def test_the_length_that_is_given_last_replaces_the_other() -> None:
    assert load(f"{DATA}[train]\nsteps = 5", "train.epochs=2").train.epochs == 2
    assert load(f"{DATA}[train]\nepochs = 2", "train.steps=5").train.epochs is None
    recipe_file(f"{DATA}[train]\nsteps = 5\nseed = 9", "base.toml")
    train = load('extends = "base.toml"\n[train]\nepochs = 2').train
    assert (train.epochs, train.seed, "steps" in train.model_fields_set) == (2, 9, False)


def test_a_recipe_with_epochs_is_the_same_when_it_is_read_again() -> None:
    recipe = load(f"{DATA}[train]\nepochs = 2.5")
    assert recipe_from_json(recipe_to_json(recipe), "config.json") == recipe
    counted = recipe.model_copy(update={"train": recipe.train.in_steps(10)})
    assert recipe_from_json(recipe_to_json(counted), "config.json") == counted


def test_epochs_of_other_toolkits_lead_to_ours() -> None:
    assert complaints(f"{DATA}[train]\nmax_epochs = 5") == [
        "my.toml: `train.max_epochs` is not a key. Did you mean `train.epochs`?"
    ]
