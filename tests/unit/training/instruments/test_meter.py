"""The sums of a meter go through a checkpoint and back; a state that is not one changes nothing."""

import json
from typing import Any

import pytest
import torch

from heedful.training.meter import Meter
from heedful.training.objectives import Sums

CPU = torch.device("cpu")


def filled() -> Meter:
    meter = Meter(CPU, 4)
    meter.add(Sums(torch.tensor(0.1), torch.tensor(1 / 3)))
    meter.units, meter.tokens = 7, 9
    meter.skipped += 1
    return meter


def test_a_meter_continues_from_its_state() -> None:
    with (before := filled()).paused():
        state: dict[str, Any] = json.loads(json.dumps(before.state()))
        assert before.state() == state  # its clock stands still
    after = Meter(CPU, 6, state)
    with after.waiting():
        pass
    assert (after.first_step, after.units, after.tokens, int(after.skipped)) == (4, 7, 9, 1)
    for meter in (before, after):
        meter.add(Sums(torch.tensor(1e-9), torch.tensor(1e-9)))
    assert (float(before.loss), float(before.likelihood)) == (float(after.loss), float(after.likelihood))
    assert after.seconds > state["seconds"]
    assert after.waited > state["waited"]


def test_losses_that_are_not_finite_are_part_of_it() -> None:
    meter = filled()
    meter.add(Sums(torch.tensor(float("nan")), torch.tensor(float("inf"))))
    again = Meter(CPU, 6, json.loads(json.dumps(meter.state())))
    assert again.loss.isnan()
    assert again.likelihood.isinf()


@pytest.mark.parametrize(
    "odd",
    [
        {"first_step": 7}, {"units": -1}, {"units": 1.5}, {"tokens": 10**400}, {"loss": "1"}, {"skipped": True},
        {"waited": float("nan")}, {"seconds": -1.0},
    ],
    ids=str,
)  # fmt: skip
def test_an_odd_state_and_that_of_an_earlier_version_begin_anew(odd: dict[str, Any]) -> None:
    for state in (filled().state() | odd, {}, None):
        meter = Meter(CPU, 6, state)
        assert (meter.first_step, meter.units, float(meter.loss)) == (6, 0, 0.0)
