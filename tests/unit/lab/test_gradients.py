import pytest
import torch
from tests.shared.refusals import refuses

from heedful.lab.gradients import CELLS, gradients_over_time
from heedful.nn.recurrent.gradient_norms import gradients_by_distance
from heedful.nn.recurrent.stack import RecurrentStack


def test_norms_by_distance_are_those_of_the_chain_rule() -> None:
    """h(t) = a x(t) + b h(t-1), as long as all is positive: dL/dx(T - d) = a b^d, in each of four sequences."""
    stack = RecurrentStack("rnn_relu", 1, 1).double()
    with torch.no_grad():
        for name, value in (("weight_ih_l0", 3.0), ("weight_hh_l0", 0.5), ("bias_ih_l0", 0.0), ("bias_hh_l0", 0.0)):
            stack.layers[0].get_parameter(name).fill_(value)
    norms = gradients_by_distance(stack, torch.ones(4, 6, 1, dtype=torch.float64))
    assert norms.tolist() == pytest.approx([2 * 3 * 0.5**distance for distance in range(6)])


def test_gates_carry_gradients_further_than_tanh() -> None:
    after = {cell: gradients_over_time(cell, width=24, steps=31)[-1] for cell in CELLS}
    assert after["tanh"] < after["gru"] < 0.1 * after["lstm"] < 0.1


def test_a_curve_leaves_the_random_numbers_of_the_program_alone() -> None:
    before = torch.get_rng_state()
    assert gradients_over_time("gru", width=4, steps=3, seed=2)[0] == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_a_curve_without_steps_is_refused() -> None:
    with refuses("a curve needs a width and steps of at least 1, not 4 and 0", ValueError):
        gradients_over_time("gru", width=4, steps=0)
