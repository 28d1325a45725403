import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from heedful.base.errors import UserError
from heedful.config.train.table import Validation
from heedful.data.prepare.prepared import Prepared
from heedful.data.token_store import TokenStore
from heedful.metrics.own_metrics import Metric
from heedful.models.bundle import Bundle
from heedful.tasks.shared.task import Validator
from heedful.tasks.shared.validation import Asked, Validated, refuse_diverged
from heedful.tasks.translate.model import Translator


@dataclass
class Scored:
    """A task whose validations find these scores."""

    scores: Mapping[str, float]

    def validate(self, bundle: Bundle[Any], prepared: Prepared, asked: Asked) -> Validated:
        return Validated(self.scores)

    def baseline(
        self, bundle: Bundle[Any], prepared: Prepared, asked: Asked, say: Callable[[str], None]
    ) -> Mapping[str, float]:
        return {}


@pytest.fixture(name="validate")
def _validate(reversing: Translator) -> Callable[..., Validator]:
    def made(scores: Mapping[str, float], metric: str) -> Validator:
        train = reversing.recipe.train.model_copy(update={"validation": Validation(metric=metric)})
        recipe = reversing.recipe.model_copy(update={"train": train})
        prepared = Prepared(reversing.vocabularies, (), (), (TokenStore.of(source=[[5]], target=[[5]]),))
        task: Any = Scored(scores)
        return Validator(task, Bundle(recipe, reversing.vocabularies, reversing.network), prepared)

    return made


def test_the_score_that_decides_comes_first_and_the_others_stay(validate: Callable[..., Validator]) -> None:
    scores = validate({"loss": 0.5, "accuracy": 0.9, "f1": 0.8}, "accuracy")()
    assert list(scores.items()) == [("accuracy", 0.9), ("loss", 0.5), ("f1", 0.8)]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_run_with_the_way_out(
    loss: float, validate: Callable[..., Validator]
) -> None:
    message = (
        r"^The validation loss is not finite: lower the learning rate, lengthen the warm-up or set `train.clip_norm`\. "
        r"What was saved before is intact\.$"
    )
    with pytest.raises(UserError, match=message):
        refuse_diverged(loss)
    with pytest.raises(UserError, match=message):
        validate({"loss": loss}, "loss")()


def test_metrics_of_a_program_need_outputs(validate: Callable[..., Validator]) -> None:
    validator = validate({"loss": 0.5}, "loss")
    validator.metrics = {"own": Metric(lambda outputs, references: 1.0)}
    message = r"^`metrics` score outputs, which this task's validation does not have: leave them out\.$"
    with pytest.raises(UserError, match=message):
        validator()
