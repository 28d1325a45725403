"""Equations and worked examples of the texts: the numbers lead to the verdicts that the lists have."""

import math

import pytest
import torch

from heedful.texts.checks.computed import Computed, compute, given, numbers, randomize
from heedful.texts.checks.table import CHECKS
from heedful.texts.listing import read_texts

USES = {item.check: item for text in read_texts() for item in text.items if item.check}


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_check_computes_the_verdict_of_its_items(name: str) -> None:
    state = torch.get_rng_state()
    verdict = CHECKS[name]().verdict
    assert torch.equal(state, torch.get_rng_state())
    items = [item for text in read_texts() for item in text.items if item.check == name]
    assert items, "a check that no item uses"
    assert {item.verdict for item in items} == {verdict}


def test_worked_examples_have_the_numbers_that_the_texts_print() -> None:
    assert CHECKS["thinking_machines"]().ours == [112.0, 96.0, 14.0, 12.0, 0.88, 0.12]
    weights_and_output = [3.7266e-06, 0.99999, 3.7266e-06, 3.7266e-06, 10.004, 4.0993e-05, 0.0]
    assert CHECKS["second_key"]().ours == weights_and_output
    assert CHECKS["bert_sizes"]().ours[0] == 110


def test_a_verdict_follows_from_the_numbers() -> None:
    assert Computed([1.0, math.inf], [1.0, math.inf]).verdict == "same"
    assert Computed([1.0], [2.0], [2.0]).verdict == "corrected"
    assert Computed([1.0], [2.0], [3.0]).verdict == "measured otherwise"
    assert Computed([1.0], [2.0]).verdict == "measured otherwise"
    assert Computed([1.0], [1.0, 1.0]).verdict == "measured otherwise"


def test_the_inputs_of_a_check_are_kept_in_the_order_in_which_it_draws_them() -> None:
    def check() -> Computed:
        module = randomize(torch.nn.Linear(2, 1))
        x, whole = numbers(3, 2), given(torch.arange(3))
        return Computed(module(x), whole)

    computed, inputs = compute(check)
    weights, x, whole = inputs
    assert isinstance(weights, dict)
    assert not isinstance(x, dict)
    assert torch.equal(torch.as_tensor(computed.text), x @ weights["weight"].T + weights["bias"])
    assert whole is not computed.ours
    assert torch.as_tensor(whole).tolist() == [0, 1, 2]
