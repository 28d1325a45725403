"""Encoders and decoders with a fixed context and with attention: equations 2.13 to 2.21."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.model.recurrent import RecurrentModel
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.recurrent.encoder import summary
from heedful.models.recurrent.wirings import Bahdanau, Cho, Wiring
from heedful.nn.layers.embedding import Embedding
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.texts.checks.by_hand import gates_of, vanilla_states
from heedful.texts.checks.computed import Computed, drawn, randomize

_SOURCE, _TARGET = (2, 3, 0, 1), (3, 0, 4)  # 1: <s> and </s> of these small vocabularies
_WIDTH, _EMBEDDING, _ENCODER = 4, 3, 2


def _translator(wiring: str) -> EncoderDecoder:
    table = {"wiring": wiring, "cell": "tanh", "width": _WIDTH, "embedding": _EMBEDDING, "encoder_width": _ENCODER}
    config = RecurrentModel.model_validate({"family": "recurrent", **table})
    model = cast(EncoderDecoder, randomize(build_model(config, 4, 5)))
    set_precision(model, torch.float64)
    return model


def _embedded(part: object, tokens: Sequence[int]) -> Tensor:
    """Return the vectors of tokens, x(t) or y(t-1): rows of a matrix, times the root of their width."""
    embedding = cast(Embedding, cast(nn.Module, part).embedding)
    return math.sqrt(_EMBEDDING) * embedding.weight.detach()[list(tokens)]


def _states(model: EncoderDecoder) -> tuple[Tensor, Tensor]:
    """Return the forward and the backward states of the encoder, by 2.4."""
    embedded = _embedded(model.encoder, _SOURCE)
    stack = cast(RecurrentStack, cast(nn.Module, model.encoder).stack)
    backward = vanilla_states(embedded.flip(0), gates_of(stack, 1, 1)[0]).flip(0)
    return vanilla_states(embedded, gates_of(stack, 1, 0)[0]), backward


def last_state_of_both_directions() -> Computed:
    """C = q(h(1) .. h(T)) = h(T) in the text; what both directions end with: forward(T) and backward(1)"""
    with drawn():
        model = _translator("cho")
        forward, backward = _states(model)
        memory = model.encoder(Packed.of([_SOURCE]))
        text, right = torch.cat([forward[-1], backward[-1]]), torch.cat([forward[-1], backward[0]])
        return Computed(text, summary(memory), right)


def states_of_both_directions() -> Computed:
    """f_bi(x(t), h(t-1)) for both halves in the text; the backward half is f(x(t), backward(t+1)), as in 2.4"""
    with drawn():
        model = _translator("cho")
        forward, backward = _states(model)
        stack = cast(RecurrentStack, cast(nn.Module, model.encoder).stack)
        embedded = _embedded(model.encoder, _SOURCE)
        text = torch.cat([forward, vanilla_states(embedded, gates_of(stack, 1, 1)[0])], dim=1)
        ours = model.encoder(Packed.of([_SOURCE])).values
        return Computed(text, ours, torch.cat([forward, backward], dim=1))


def first_state_from_the_context() -> Computed:
    """s(0) = tanh(V C + b): the decoder starts from the context"""
    with drawn():
        model = _translator("cho")
        wiring = cast(Cho, _wiring(model))
        context = _run(model, _inputs())[0].context
        text = torch.tanh(wiring.first.hidden.weight.detach() @ context + wiring.first.hidden.bias.detach())
        return Computed(text, wiring.start(model.encoder(Packed.of([_SOURCE])), 1, False).recurrent.hidden[0])


def context_of_one_size() -> Computed:
    """The size of the context of sources of 1, 4 and 50 tokens: the same"""
    with drawn():
        model = _translator("cho")
        sizes = []
        for length in (1, 4, 50):
            memory = model.encoder(Packed.of([[2] * length]))
            sizes.append(float(summary(memory).shape[1]))
        return Computed([2 * _ENCODER] * 3, sizes)


def targets_of_any_length() -> Computed:
    """The tokens that a decoder scores for a source of 4 tokens and targets of 1, 3 and 9: as many as the target has"""
    with drawn():
        model = _translator("cho")
        lengths = [len(model(Packed.of([_SOURCE]), Packed.of([[2] * length]))) for length in (1, 3, 9)]
        return Computed([1, 3, 9], [float(length) for length in lengths])


# --- the decoder, written out -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """What happens at one step: y(t-1), s(t-1), the context, s(t), and the weights of what was read."""

    word: Tensor
    before: Tensor
    context: Tensor
    state: Tensor
    weights: Tensor


def _wiring(model: EncoderDecoder) -> Cho | Bahdanau:
    wiring = cast(Wiring, cast(nn.Module, model.decoder).wiring)
    assert isinstance(wiring, Cho | Bahdanau)
    return wiring


def _next_state(wiring: Cho | Bahdanau, before: Tensor, word: Tensor, context: Tensor) -> Tensor:
    """Return f(s(t-1), y(t-1), c) = tanh(W [y; c] + U s(t-1) + b)."""
    return vanilla_states(torch.cat([word, context])[None], gates_of(wiring.stack, 1)[0], before)[0]


def _softmax(scores: Tensor) -> Tensor:
    exps = [math.exp(score - float(scores.max())) for score in scores.tolist()]
    return torch.tensor([exp / sum(exps) for exp in exps], dtype=torch.float64)


def _run(model: EncoderDecoder, tokens: Sequence[int]) -> list[_Step]:
    """Return what every step of the decoder computes, from its weights, by loops."""
    wiring = _wiring(model)
    forward, backward = _states(model)
    h = torch.cat([forward, backward], dim=1)
    ends = torch.cat([forward[-1], backward[0]])
    embedded = _embedded(model.decoder, tokens)
    if isinstance(wiring, Cho):
        fixed = torch.tanh(wiring.context.weight.detach() @ ends + wiring.context.bias.detach())
        bridge, start = wiring.first, fixed
    else:
        bridge, start = wiring.first.bridge, ends  # type: ignore[assignment]
    s = torch.tanh(bridge.hidden.weight.detach() @ start + bridge.hidden.bias.detach())
    steps = []
    for word in embedded:
        if isinstance(wiring, Cho):
            context, weights = fixed, torch.zeros(0, dtype=torch.float64)
        else:
            alignment = wiring.reader.alignment
            joined = torch.cat([alignment.query_weight[0], alignment.key_weight[0]], dim=1).detach()  # type: ignore[index]
            vector = cast(Tensor, alignment.vector).detach()[0, 0]
            weights = _softmax(torch.stack([vector @ torch.tanh(joined @ torch.cat([s, one])) for one in h]))
            context = sum((weight * one for weight, one in zip(weights, h, strict=True)), torch.zeros_like(h[0]))
        after = _next_state(wiring, s, word, context)
        steps.append(_Step(word, s, context, after, weights))
        s = after
    return steps


def _chances(model: EncoderDecoder, step: _Step) -> Tensor:
    """Return g(y(t-1), s(t), c): a softmax over scores of a layer of maxout over all three."""
    output = _wiring(model).output
    summed = output.from_state.weight @ step.state + output.from_state.bias
    summed = summed + output.from_word.weight @ step.word + output.of_context.weight @ step.context
    first, second = summed.detach().chunk(2)
    return _softmax(model.output.weight.detach() @ torch.maximum(first, second))


def _inputs() -> tuple[int, ...]:
    return (1, *_TARGET[:-1])


def _product(wiring: str) -> Computed:
    with drawn():
        model = _translator(wiring)
        chances = [_chances(model, step) for step in _run(model, _inputs())]
        product = math.prod(float(chance[token]) for chance, token in zip(chances, _TARGET, strict=True))
        states = model.states(Packed.of([_SOURCE]), Packed.of([_inputs()]))
        loss, _ = smoothed_cross_entropy(states, model.output.weight, model.output.bias, torch.tensor(_TARGET), 0.0)
        return Computed([product], [float(torch.exp(-loss).detach())])


def probability_of_a_translation() -> Computed:
    """p(Y) = prod_t p(y(t) | y(1) .. y(t-1), C); Heedful's is exp of minus the loss of the translation"""
    return _product("cho")


def _outputs(wiring: str) -> Computed:
    with drawn():
        model = _translator(wiring)
        text = torch.stack([_chances(model, step) for step in _run(model, _inputs())])
        return Computed(text, model(Packed.of([_SOURCE]), Packed.of([_inputs()])).softmax(-1))


def output_with_a_fixed_context() -> Computed:
    """p(y(t) | ...) = g(y(t-1), s(t), C)"""
    return _outputs("cho")


def output_with_attention() -> Computed:
    """p(y(t) | ...) = g(y(t-1), s(t), c(t)), with a context c(t) for every t"""
    return _outputs("bahdanau")


def _state(wiring: str, itself: Callable[[_Step], Tensor]) -> Computed:
    """Compare the state after one step with f of what the text feeds back, and of the state before."""
    with drawn():
        model = _translator(wiring)
        network = _wiring(model)
        step = _run(model, _inputs())[0]
        memory = model.encoder(Packed.of([_SOURCE]))
        rows = network.start(memory, 1, False)
        _, after = network.step(step.word[None], rows)
        text = _next_state(network, itself(step), step.word, step.context)
        return Computed(text, after.recurrent.hidden[0], step.state)


def state_with_a_fixed_context() -> Computed:
    """s(t) = f(s(t), y(t-1), C) in the text, taken as f of the new state; s(t) = f(s(t-1), y(t-1), C)"""
    return _state("cho", lambda step: step.state)


def state_with_attention() -> Computed:
    """s(t) = f(s(t), y(t-1), c(t)) in the text, taken as f of the new state; s(t) = f(s(t-1), y(t-1), c(t))"""
    return _state("bahdanau", lambda step: step.state)


# --- attention of a recurrent decoder ---------------------------------------------------------------------------------


def _read(model: EncoderDecoder, step: _Step) -> tuple[Tensor, Tensor, Tensor]:
    """Return Heedful's context and weights of a step, and the states of the encoder by loops."""
    wiring = cast(Bahdanau, _wiring(model))
    memory = model.encoder(Packed.of([_SOURCE]))
    readable = wiring.reader.prepare(memory)
    context, weights = wiring.reader(step.before[None, None], readable, torch.zeros(1, dtype=torch.int64))
    return context[0, 0], weights[0, 0], torch.cat(_states(model), dim=1)


def context_of_a_step() -> Computed:
    """c(t) = sum_i alpha(t, i) h(i), with Heedful's weights alpha"""
    with drawn():
        model = _translator("bahdanau")
        context, weights, h = _read(model, _run(model, _inputs())[0])
        text = sum((weight * one for weight, one in zip(weights, h, strict=True)), torch.zeros_like(h[0]))
        return Computed(text, context)


def weights_of_a_step() -> Computed:
    """alpha(t, i) = exp(score(s(t-1), h(i))) / sum_k exp(score(s(t-1), h(k)))"""
    with drawn():
        model = _translator("bahdanau")
        step = _run(model, _inputs())[0]
        _, weights, _ = _read(model, step)
        return Computed(step.weights, weights)


def values_of_the_output() -> Computed:
    """Keys of the input and values of the output in the text, summed over states of the decoder; values are keys"""
    with drawn():
        model = _translator("bahdanau")
        steps = _run(model, (1, *_TARGET))  # as many steps as the source has tokens
        context, weights, h = _read(model, steps[0])
        text = sum((a * step.state for a, step in zip(weights, steps, strict=True)), torch.zeros(_WIDTH).double())
        right = sum((a * one for a, one in zip(weights, h, strict=True)), torch.zeros_like(h[0]))
        return Computed(text, context, right)
