import math

import pytest

from heedful.base.errors import UserError
from heedful.tasks.shared.validation import metric_first, refuse_diverged


def test_the_score_that_decides_comes_first_and_the_others_stay() -> None:
    scores = metric_first({"loss": 0.5, "accuracy": 0.9, "f1": 0.8}, "accuracy")
    assert list(scores.items()) == [("accuracy", 0.9), ("loss", 0.5), ("f1", 0.8)]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_run_with_the_way_out(loss: float) -> None:
    message = (
        r"^The validation loss is not finite: lower the learning rate, lengthen the warm-up or set `train.clip_norm`\. "
        r"What was saved before is intact\.$"
    )
    with pytest.raises(UserError, match=message):
        refuse_diverged(loss)
    with pytest.raises(UserError, match=message):
        metric_first({"loss": loss}, "loss")
