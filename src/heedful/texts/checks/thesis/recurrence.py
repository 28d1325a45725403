"""Recurrences, their wirings and language models: sections 2.1 and 2.1.1, and the vanilla cell of 2.1.2.

The text's vectors are rows, x W; matrices here are columns', W x. Both are the same numbers.
"""

from typing import cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.language import LanguageModelTable
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel, set_precision
from heedful.models.recurrent.wirings import Repeated
from heedful.nn.layers.linear import Linear
from heedful.nn.layers.pooling import LastPool
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.gradient_norms import gradients_by_distance
from heedful.nn.recurrent.output_feedback import OutputToHidden, TeacherForced
from heedful.nn.recurrent.stack import CellKind, RecurrentStack
from heedful.texts.checks.by_hand import INPUTS, WIDTH, gates_of, random_stack, vanilla_states
from heedful.texts.checks.computed import Computed, drawn, given, numbers, randomize

_STEPS, _OUTPUTS = 4, 2
_LAYOUT = Layout.of([_STEPS])


def recurrence() -> Computed:
    """h(t) = f(x(t), h(t-1); theta), one step at a time with the same theta, for f an RNN, an LSTM and a GRU"""
    with drawn():
        x, text, ours = numbers(_STEPS, INPUTS), [], []
        kinds: tuple[CellKind, ...] = ("rnn_tanh", "lstm", "gru_paper")
        for kind in kinds:
            stack = random_stack(kind)
            state = stack.start(1, x)
            for one in x:
                h, state = stack.step(one[None], state)
                text.append(h[0])
            ours.append(stack(x, _LAYOUT)[0])
        return Computed(torch.stack(text), torch.cat(ours))


def parameters_shared_over_time() -> Computed:
    """The number of weights that sequences of 1, 10 and 100 elements use: the same"""
    with drawn():
        stack = RecurrentStack("rnn_tanh", INPUTS, WIDTH)
    used = []
    for length in (1, 10, 100):
        stack.zero_grad()
        stack(torch.ones(length, INPUTS), Layout.of([length]))[0].sum().backward()
        used.append(float(sum(weight.numel() for weight in stack.parameters() if weight.grad is not None)))
    return Computed([WIDTH * (INPUTS + WIDTH + 2)] * 3, used)  # torch's vanilla cell has two biases


# --- figure 2.2 -------------------------------------------------------------------------------------------------------


def states_fed_back() -> Computed:
    """Figure 2.2a: h(t) = tanh(U x(t) + W h(t-1) + b), o(t) = V h(t) + c at every step"""
    with drawn():
        stack, output = random_stack("rnn_tanh"), cast(Linear, randomize(Linear(WIDTH, _OUTPUTS)))
        x = numbers(_STEPS, INPUTS)
        states = vanilla_states(x, gates_of(stack, 1)[0])
        text = [output.weight.detach() @ h + output.bias.detach() for h in states]
        return Computed(torch.stack(text), output(stack(x, _LAYOUT)[0]))


def _output_network(kind: type[OutputToHidden]) -> OutputToHidden:
    return cast(OutputToHidden, randomize(kind(INPUTS, WIDTH, _OUTPUTS)))


def _output(network: OutputToHidden, x: Tensor, fed_back: Tensor) -> Tensor:
    """Return o = V tanh(U x + W r + b) + c, for r fed back."""
    inner = network.from_input.weight @ x + network.from_output.weight @ fed_back + network.from_input.bias
    return (network.to_output.weight @ torch.tanh(inner) + network.to_output.bias).detach()


def outputs_fed_back() -> Computed:
    """Figure 2.2b: h(t) = tanh(U x(t) + W o(t-1) + b), o(t) = V h(t) + c"""
    with drawn():
        network, x = _output_network(OutputToHidden), numbers(_STEPS, INPUTS)
        o, text = torch.zeros(_OUTPUTS, dtype=torch.float64), []
        for one in x:
            o = _output(network, one, o)
            text.append(o)
        return Computed(torch.stack(text), network(x, _LAYOUT))


def past_only_through_outputs() -> Computed:
    """How much futures of two states h(t-1) with the same 2 outputs differ, and of those with 4 outputs: not, and do"""
    with drawn():
        x, h, differences = numbers(1, INPUTS), numbers(WIDTH), []
        for outputs in (_OUTPUTS, WIDTH):
            network = cast(OutputToHidden, randomize(OutputToHidden(INPUTS, WIDTH, outputs)))
            # The change of h that V shows least: with fewer outputs than states, not at all.
            hidden = torch.linalg.svd(network.to_output.weight.detach()).Vh[-1]
            pasts = [network.to_output(one) for one in (h, h + hidden)]
            futures = [network.step(x, past[None])[0] for past in pasts]
            differences.append(float((futures[0] - futures[1]).abs().max().detach() > 1e-9))
        return Computed([0.0, 1.0], differences)


def one_output_at_the_end() -> Computed:
    """Figure 2.2c: o = V h(T) + c, for the last state alone"""
    with drawn():
        stack, output = random_stack("rnn_tanh"), cast(Linear, randomize(Linear(WIDTH, _OUTPUTS)))
        x = numbers(_STEPS, INPUTS)
        last = vanilla_states(x, gates_of(stack, 1)[0])[-1]
        text = output.weight.detach() @ last + output.bias.detach()
        return Computed(text, output(LastPool()(stack(x, _LAYOUT)[0], _LAYOUT)))


def targets_fed_back() -> Computed:
    """Figure 2.2d: h(t) = tanh(U x(t) + W y(t-1) + b) with the targets y, o(t) = V h(t) + c"""
    with drawn():
        network = cast(TeacherForced, _output_network(TeacherForced))
        x, y = numbers(_STEPS, INPUTS), numbers(_STEPS, _OUTPUTS)
        before = [torch.zeros(_OUTPUTS, dtype=torch.float64), *y[:-1]]
        text = torch.stack([_output(network, one, target) for one, target in zip(x, before, strict=True)])
        return Computed(text, network(x, _LAYOUT, y))


def steps_apart() -> Computed:
    """With targets fed back, the gradient of U is a sum over steps that were each computed by themselves"""
    with drawn():
        network = cast(TeacherForced, _output_network(TeacherForced))
        x, y = numbers(_STEPS, INPUTS), numbers(_STEPS, _OUTPUTS)
        weight, total = network.from_input.weight, torch.zeros(WIDTH, INPUTS, dtype=torch.float64)
        before = torch.cat([torch.zeros(1, _OUTPUTS, dtype=torch.float64), y[:-1]])
        for step in range(_STEPS):
            inner = network.from_input(x[step]) + network.from_output(before[step])
            loss = (network.to_output(torch.tanh(inner)) - y[step]).square().sum()
            total += torch.autograd.grad(loss, weight)[0]
        ours = torch.autograd.grad((network(x, _LAYOUT, y) - y).square().sum(), weight)[0]
        return Computed(total, ours)


def one_vector_to_a_sequence() -> Computed:
    """Figure 2.3: h(t) = tanh(W_v v + W_y y(t-1) + W_h h(t-1) + b), the same image v at every step"""
    with drawn():
        network = Repeated(random_stack("rnn_tanh", inputs=_OUTPUTS + INPUTS))
        v, y = numbers(1, INPUTS), numbers(_STEPS, _OUTPUTS)
        w_x, w_h, b = gates_of(network.stack, 1)[0]
        h, text = torch.zeros(WIDTH, dtype=torch.float64), []
        for one in y:
            h = torch.tanh(w_x[:, _OUTPUTS:] @ v[0] + w_x[:, :_OUTPUTS] @ one + w_h @ h + b)
            text.append(h)
        return Computed(torch.stack(text), network(y, _LAYOUT, Packed(v, Layout.of([1]))))


# --- language models --------------------------------------------------------------------------------------------------

_VOCABULARY, _TEXT = 5, (3, 0, 4)


def _language_model() -> LanguageModel:
    table = {"family": "language", "decoder": {"family": "recurrent", "cell": "tanh", "width": 3, "layers": 1}}
    model = randomize(build_language_model(LanguageModelTable.model_validate(table), _VOCABULARY))
    set_precision(model, torch.float64)
    return cast(LanguageModel, model)


def _chances(model: LanguageModel, before: tuple[int, ...]) -> Tensor:
    """Return P(next token | tokens before) = softmax(E h + b), with the state h after them."""
    decoder: nn.Module = model.decoder  # type: ignore[assignment]
    embedding = cast(Tensor, decoder.embedding.weight).detach()  # type: ignore[union-attr]
    h = vanilla_states(embedding[list(before)], gates_of(cast(RecurrentStack, decoder.stack), 1)[0])[-1]
    scores = embedding @ h + cast(Tensor, decoder.output.bias).detach()  # type: ignore[union-attr]
    return scores.exp() / scores.exp().sum()


def probability_of_a_text() -> Computed:
    """P(x(1) .. x(T)) = prod_t P(x(t) | x(1) .. x(t-1)); Heedful's is exp of minus the loss of the text"""
    with drawn():
        model, product = _language_model(), 1.0
        for place, token in enumerate(_TEXT):
            product *= float(_chances(model, (1, *_TEXT[:place]))[token])  # 1: <s>
        states = model.decoder.states(Packed.of([[1, *_TEXT[:-1]]]), None)
        loss, _ = smoothed_cross_entropy(states, model.output.weight, model.output.bias, torch.tensor(_TEXT), 0.0)
        return Computed([product], [float(torch.exp(-loss).detach())])


def next_token_from_the_state() -> Computed:
    """P(x(t) | x(1) .. x(t-1)) = P(x(t) | h(t-1)): the state alone is kept from one step to the next"""
    with drawn():
        model = _language_model()
        state = model.decoder.start(None, prompt=Packed.of([[1, *_TEXT[:-1]]]))
        ours, _ = model.decoder.step(torch.tensor([_TEXT[-1]]), state)
        return Computed(_chances(model, (1, *_TEXT)), ours.softmax(-1))


def causal_network() -> Computed:
    """How much what a causal network predicts changes with a later token: not at all"""
    with drawn():
        model = _language_model()
        scores = [model(Packed.of([[1, 3, 0, later]]))[:3] for later in (2, 4)]
        return Computed([0.0], [float((scores[0] - scores[1]).abs().max().detach())])


# --- both directions --------------------------------------------------------------------------------------------------


def output_of_both_directions() -> Computed:
    """o(t) = g(h(t); theta_out), g a linear map, h(t) = Concat(forward(t), backward(t))"""
    with drawn():
        stack, output = (
            random_stack("rnn_tanh", bidirectional=True),
            cast(Linear, randomize(Linear(2 * WIDTH, _OUTPUTS))),
        )
        x = numbers(_STEPS, INPUTS)
        forward = vanilla_states(x, gates_of(stack, 1, 0)[0])
        backward = vanilla_states(x.flip(0), gates_of(stack, 1, 1)[0]).flip(0)
        h = torch.cat([forward, backward], dim=1)
        text = h @ output.weight.detach().T + output.bias.detach()
        return Computed(text, output(stack(x, _LAYOUT)[0]))


# --- the vanilla cell -------------------------------------------------------------------------------------------------


def sizes_of_the_vanilla_cell() -> Computed:
    """Sizes of W_x, W_h, W_out, b of 2.6 and b of 2.7: d k, k k, k q and q for both b in the text; b of 2.6 has k"""
    d, k, q = INPUTS, WIDTH, _OUTPUTS
    with drawn():
        stack, output = RecurrentStack("rnn_tanh", d, k), Linear(k, q)
    w_x, w_h, b = gates_of(stack, 1)[0]
    ours = [float(one.numel()) for one in (w_x, w_h, output.weight, b, output.bias)]
    return Computed([d * k, k * k, k * q, q, q], ours, [d * k, k * k, k * q, k, q])


def _slopes(by: int, pasts: int) -> tuple[RecurrentStack, list[Tensor], list[Tensor]]:
    """Return a vanilla cell, states h(t) for some h(t-1), and the derivatives of h(t) by x(t) (0) or by h(t-1) (1)."""
    stack, x = random_stack("rnn_tanh"), numbers(INPUTS)

    def after(now: Tensor, before: Tensor) -> Tensor:
        return stack.step(now[None], RecurrentState(before[None, None]))[1].hidden[0, 0]

    befores = [0.3 * numbers(WIDTH) for _ in range(pasts)]
    slopes = [torch.autograd.functional.jacobian(after, (x, before))[by] for before in befores]
    return stack, [after(x, before).detach() for before in befores], slopes


def past_and_present() -> Computed:
    """dh(t) / dh(t-1) = phi' W_h and dh(t) / dx(t) = phi' W_x, phi = tanh: W_h weighs the past, W_x what is read now"""
    with drawn():
        text, ours = [], []
        for by in (1, 0):
            stack, (h,), (slope,) = _slopes(by, 1)
            text.append(torch.diag(1 - h.square()) @ gates_of(stack, 1)[0][by])
            ours.append(slope.flatten())
        return Computed(torch.cat([one.flatten() for one in text]), torch.cat(ours))


def flow_of_the_past() -> Computed:
    """What reaches the activation of h(t-1), as a derivative: the same W_h for three states, none kept or ignored"""
    with drawn():
        stack, states, slopes = _slopes(1, 3)
        reached = [torch.diag(1 / (1 - h.square())) @ slope for h, slope in zip(states, slopes, strict=True)]
        return Computed(torch.cat([gates_of(stack, 1)[0][1]] * 3), torch.cat(reached))


@torch.no_grad()
def _set(stack: RecurrentStack, w_h: Tensor, w_x: Tensor) -> None:
    """Set the matrices of a vanilla cell, without biases."""
    for name, weight in stack.named_parameters():
        weight.copy_(torch.zeros_like(weight) if "bias" in name else w_h if "_hh" in name else w_x)


def powers_of_a_matrix() -> Computed:
    """W multiplied by itself: per step a gradient changes by W's largest eigenvalue, here 0.5 and 1.5"""
    with drawn():
        text, ours = [], []
        rotation = given(torch.linalg.qr(numbers(WIDTH, WIDTH)).Q)
        for largest in (0.5, 1.5):
            eigenvalues = largest * torch.tensor([1.0, 0.3, 0.2, 0.1], dtype=torch.float64)
            matrix = rotation @ torch.diag(eigenvalues) @ rotation.T
            power = [torch.linalg.matrix_power(matrix, count).norm() for count in (20, 21)]
            text.append(float(power[1] / power[0]))
            stack = RecurrentStack("rnn_tanh", WIDTH, WIDTH).double()
            _set(stack, matrix, torch.eye(WIDTH, dtype=torch.float64))
            norms = gradients_by_distance(stack, torch.zeros(2, 22, WIDTH, dtype=torch.float64))
            ours.append(float(norms[21] / norms[20]))
        return Computed([0.5, 1.5, *text], [*ours, *ours], tolerance=1e-6)


def direction_of_powers() -> Computed:
    """|cos| of the angle between a state after 40 steps, h W .. W, and the first eigenvector of W: 1"""
    with drawn():
        rotation = given(torch.linalg.qr(numbers(WIDTH, WIDTH)).Q)
        matrix = rotation @ torch.diag(torch.tensor([0.9, 0.5, 0.4, 0.2], dtype=torch.float64)) @ rotation.T
        stack = RecurrentStack("rnn_tanh", WIDTH, WIDTH).double()
        _set(stack, matrix, torch.zeros(WIDTH, WIDTH, dtype=torch.float64))
        # Small states: tanh is linear there.
        state = RecurrentState(1e-6 * numbers(1, 1, WIDTH))
        for _ in range(40):
            _, state = stack.step(torch.zeros(1, WIDTH, dtype=torch.float64), state)
        last = state.hidden[0, 0].detach()
        return Computed([1.0], [float((last @ rotation[:, 0]).abs() / last.norm())])
