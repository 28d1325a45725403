"""Settings of a run that cannot take effect before it ends."""

import pytest

from heedful.config.recipe import Recipe
from heedful.doctor.schedule import find_schedule_problems

TAKES = "the warm-up takes 20 updates, but the run has 10"


@pytest.mark.parametrize(
    ("train", "effect"),
    [
        (
            {"schedule": {"kind": "constant", "lr": 1.0, "warmup": 20}},
            "schedule.warmup: the learning rate never reaches",
        ),
        ({"warmup": {"kind": "linear", "steps": 20}}, "warmup.steps: the learning rate never reaches its maximum"),
        ({"warmup": {"kind": "exponential", "steps": 20}}, "warmup.steps: the learning rate stays below two thirds"),
        ({"warmup": {"kind": "wait", "steps": 20}}, "warmup.steps: no weight changes before the warm-up ends"),
    ],
)
def test_a_warmup_that_outlasts_the_run_is_told_with_what_it_does(train: dict[str, object], effect: str) -> None:
    constant = {"schedule": {"kind": "constant", "lr": 1.0}}
    table = {"steps": 10, "checkpoint_every": 10, **constant, **train}
    recipe = Recipe.model_validate({"data": {"train": {"builtin": "dates"}}, "train": table})
    (finding,) = find_schedule_problems(recipe)
    key, words = effect.split(": ")
    assert finding.what == TAKES
    assert finding.advice.startswith(f"Lower `train.{key}` or raise `train.steps`: {words}")
    assert list(find_schedule_problems(recipe, updates=21)) == []
