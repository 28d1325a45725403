"""Each wiring equals a loop over sentences and steps that writes its equations out."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heedful.base.packed import Layout, Packed
from heedful.models.recurrent.wirings import Repeated
from heedful.nn.per_sentence import last_state
from heedful.nn.recurrent.output_feedback import (
    OutputToHidden,
    TeacherForced,
    identity,
    one_hot_argmax,
)
from heedful.nn.recurrent.stack import RecurrentStack

INPUTS, WIDTH, OUTPUTS = 3, 4, 5
LENGTHS = [2, 0, 5, 1]


def softmax(x: Tensor) -> Tensor:
    return x.softmax(dim=-1)


def close(found: Tensor, expected: Tensor) -> bool:
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=0, atol=1e-10)


def inputs(width: int = INPUTS) -> Tensor:
    return torch.randn(sum(LENGTHS), width, dtype=torch.float64, requires_grad=True)


def loop(wiring: OutputToHidden, x_NI: Tensor, targets_NO: Tensor | None = None) -> Tensor:
    """h(t) = f(U x(t) + W r(o(t-1)) + b), o(t) = g(V h(t) + c), with y(t-1) for r(o(t-1)) where it is given."""
    u, b = wiring.from_input.weight, wiring.from_input.bias
    w, v, c = wiring.from_output.weight, wiring.to_output.weight, wiring.to_output.bias
    outputs = []
    start = 0
    for length in LENGTHS:
        fed_back = torch.zeros(OUTPUTS, dtype=torch.float64)
        for token in range(start, start + length):
            h = wiring.activation(u @ x_NI[token] + w @ fed_back + b)
            o = wiring.output(v @ h + c)
            outputs.append(o)
            fed_back = wiring.feedback(o.unsqueeze(0)).squeeze(0) if targets_NO is None else targets_NO[token]
        start += length
    return torch.stack(outputs)


# --- output to hidden -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", [identity, one_hot_argmax], ids=["whole", "best"])
@pytest.mark.parametrize(("activation", "output"), [(torch.tanh, identity), (torch.relu, softmax)])
def test_output_to_hidden_equals_a_loop_with_its_gradients(
    activation: Callable[[Tensor], Tensor], output: Callable[[Tensor], Tensor], feedback: Callable[[Tensor], Tensor]
) -> None:
    wiring = OutputToHidden(INPUTS, WIDTH, OUTPUTS, activation, output, feedback).double()
    x, layout = inputs(), Layout.of(LENGTHS)
    found, expected = wiring(x, layout), loop(wiring, x)
    assert close(found, expected)
    weights = torch.randn_like(found)
    of_loop = torch.autograd.grad((expected * weights).sum(), [x, *wiring.parameters()])
    for gradient, known in zip(
        torch.autograd.grad((found * weights).sum(), [x, *wiring.parameters()]), of_loop, strict=True
    ):
        assert close(gradient, known)


def test_output_to_hidden_steps_as_it_runs() -> None:
    wiring = OutputToHidden(INPUTS, WIDTH, OUTPUTS, feedback=softmax).double()
    x = torch.randn(2, 4, INPUTS, dtype=torch.float64)
    whole = wiring(x.flatten(0, 1), Layout.of([4, 4])).unflatten(0, (2, 4))
    fed_back = wiring.start(2, x)
    for step in range(4):
        output, fed_back = wiring.step(x[:, step], fed_back)
        assert close(output, whole[:, step])
        assert close(fed_back, softmax(output))


def test_the_past_reaches_a_state_by_outputs_alone() -> None:
    """Outputs that are always zero tell nothing: then no step depends on the one before."""
    wiring = OutputToHidden(INPUTS, WIDTH, OUTPUTS, output=lambda scores: 0 * scores).double()
    x = inputs()
    assert (wiring(x, Layout.of(LENGTHS)) == 0).all()
    telling = OutputToHidden(INPUTS, WIDTH, OUTPUTS).double()
    telling.load_state_dict(wiring.state_dict())
    (gradient,) = torch.autograd.grad(telling(x, Layout.of(LENGTHS))[6].sum(), x)
    assert (gradient[2:7] != 0).any(dim=1).all()
    assert (gradient[:2] == 0).all()
    assert (gradient[7:] == 0).all()


def test_one_hot_of_best_marks_the_best_of_each_row() -> None:
    assert one_hot_argmax(torch.tensor([[0.1, 0.7, 0.2], [3.0, -1.0, 2.0]])).tolist() == [[0, 1, 0], [1, 0, 0]]


# --- teacher forced ---------------------------------------------------------------------------------------------------


def test_teacher_forcing_feeds_the_previous_target_and_use_the_previous_output() -> None:
    wiring = TeacherForced(INPUTS, WIDTH, OUTPUTS, feedback=one_hot_argmax).double()
    x, layout = inputs(), Layout.of(LENGTHS)
    targets = one_hot_argmax(torch.randn(sum(LENGTHS), OUTPUTS, dtype=torch.float64))
    assert close(wiring(x, layout, targets), loop(wiring, x, targets))
    assert close(wiring(x, layout), loop(wiring, x))


@pytest.mark.parametrize("feedback", [identity, one_hot_argmax], ids=["whole", "best"])
def test_a_teacher_who_repeats_the_network_changes_nothing(feedback: Callable[[Tensor], Tensor]) -> None:
    wiring = TeacherForced(INPUTS, WIDTH, OUTPUTS, feedback=feedback).double()
    x, layout = inputs(), Layout.of(LENGTHS)
    alone = wiring(x, layout)
    assert close(wiring(x, layout, feedback(alone)), alone)


def test_under_a_teacher_no_gradient_goes_through_time() -> None:
    wiring = TeacherForced(INPUTS, WIDTH, OUTPUTS).double()
    x = inputs()
    targets = torch.randn(sum(LENGTHS), OUTPUTS, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(wiring(x, Layout.of(LENGTHS), targets)[4].sum(), x)
    assert (gradient != 0).any(dim=1).tolist() == [token == 4 for token in range(sum(LENGTHS))]


# --- single output ----------------------------------------------------------------------------------------------------


def test_the_last_state_is_that_of_each_sentences_end() -> None:
    y = inputs(WIDTH)
    found = last_state(y, Layout.of(LENGTHS))
    assert torch.equal(found, torch.stack([y[1], torch.zeros(WIDTH, dtype=y.dtype), y[6], y[7]]))
    (gradient,) = torch.autograd.grad(found.sum(), y)
    assert gradient.sum(dim=1).tolist() == [0, WIDTH, 0, 0, 0, 0, WIDTH, WIDTH]


def test_the_last_state_of_a_stack_is_the_state_it_returns() -> None:
    stack = RecurrentStack("gru", INPUTS, WIDTH, layers=2).double()
    y, last = stack(inputs(), layout := Layout.of(LENGTHS))
    assert close(last_state(y, layout), last.top())


def test_sentences_that_begin_or_are_all_empty_have_a_last_state_of_zeros() -> None:
    assert last_state(torch.ones(2, WIDTH), Layout.of([0, 2, 0])).sum(dim=1).tolist() == [0, WIDTH, 0]
    assert last_state(torch.ones(0, WIDTH), Layout.of([0, 0])).tolist() == 2 * [WIDTH * [0.0]]


# --- vector to sequence -----------------------------------------------------------------------------------------------


def test_a_vector_is_given_at_every_step_beside_the_last_target() -> None:
    stack = RecurrentStack("rnn_tanh", INPUTS + 2, WIDTH).double()
    patches = torch.randn(2 * len(LENGTHS), 2, dtype=torch.float64, requires_grad=True)
    targets = inputs()
    memory = Packed(patches, Layout.of([2] * len(LENGTHS)))
    found = Repeated(stack)(targets, Layout.of(LENGTHS), memory)
    weight_x, weight_h, bias_x, bias_h = stack.layers[0].parameters()
    expected = []
    for image, sentence in zip(patches.split(2), targets.split(LENGTHS), strict=True):
        h = torch.zeros(WIDTH, dtype=torch.float64)
        for target in sentence:
            h = torch.tanh(weight_x @ torch.cat([target, image.mean(dim=0)]) + bias_x + weight_h @ h + bias_h)
            expected.append(h)
    assert close(found, torch.stack(expected))
    (gradient,) = torch.autograd.grad(found.sum(), patches, retain_graph=True)
    (known,) = torch.autograd.grad(torch.stack(expected).sum(), patches)
    assert close(gradient, known)


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_wirings_compute_in_the_type_of_their_input(dtype: torch.dtype) -> None:
    layout, x = Layout.of(LENGTHS), torch.randn(sum(LENGTHS), INPUTS)
    for wiring in (OutputToHidden(INPUTS, WIDTH, OUTPUTS), TeacherForced(INPUTS, WIDTH, OUTPUTS)):
        expected, found = wiring(x, layout), wiring(x.to(dtype), layout)
        assert found.dtype == dtype
        assert torch.allclose(found.float(), expected, atol=0.03)
        found.sum().backward()
        assert {weight.grad.dtype for weight in wiring.parameters() if weight.grad is not None} == {torch.float32}


def test_a_batch_without_a_token_has_no_outputs() -> None:
    assert TeacherForced(INPUTS, WIDTH, OUTPUTS)(torch.zeros(0, INPUTS), Layout.of([0, 0])).shape == (0, OUTPUTS)
