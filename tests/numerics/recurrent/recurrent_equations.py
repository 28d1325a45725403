"""Recurrent encoder-decoders, and the equations of their papers for one sentence and one step at a time."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from tests.shared.covering import one_in
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.model.recurrent import RecurrentModel
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.recurrent.decoder import RecurrentDecoder
from heedful.models.recurrent.encoder import RecurrentEncoder
from heedful.models.recurrent.initial_state import Bridge, Bridged
from heedful.models.recurrent.wirings import Bahdanau, Cho, Luong, Sutskever, Unfed
from heedful.nn.alignments.distributions import DeAttention
from heedful.nn.alignments.networks import Additive
from heedful.nn.alignments.products import General
from heedful.nn.attention.windows import MonotoneView, PredictedView
from heedful.nn.recurrent.cells import VariationalDropout
from heedful.nn.recurrent.deep_output import DeepOutput
from heedful.nn.recurrent.stack import RecurrentStack

WORDS = 17
Options = dict[str, Any]
Pair = tuple[list[int], list[int]]
PAIRS: list[Pair] = [([3, 1, 4], [1, 5]), ([9], [2, 6, 5, 3]), ([5, 8, 9, 7, 9, 3], [2]), ([2, 3], [8, 4, 6])]
SOURCES, TARGETS = [source for source, _ in PAIRS], [target for _, target in PAIRS]
TINY: Options = {"width": 6, "embedding": 5, "dropout": 0.0}
DEEP: Options = {"layers": 2, "decoder_layers": 3}
EQUAL: Options = {"bidirectional": False}  # the memory is as wide as the decoder's states


def named(options: Sequence[Options], number: int = 1, first: int = 0) -> pytest.MarkDecorator:
    """All options by their values; one in so many of them in every run, the rest in the wide sweep."""
    chosen = one_in(number, options, first)
    return pytest.mark.parametrize("options", chosen, ids=lambda given: "-".join(map(str, given.values())))


def model_of(options: Options, dtype: torch.dtype = torch.float64, **more: Any) -> EncoderDecoder:
    """A tiny model, always from the same draws, all of whose biases count."""
    torch.manual_seed(7)
    config = RecurrentModel(family="recurrent", **(TINY | options | more))
    model = build_model(config, WORDS, WORDS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    model.to(dtype)
    set_precision(model, dtype)
    return model


def scores_of(model: EncoderDecoder, pairs: Sequence[Pair]) -> list[Tensor]:
    scores = model(Packed.of([source for source, _ in pairs]), Packed.of([target for _, target in pairs]))
    return list(scores.split([len(target) for _, target in pairs]))


def gradients_of(model: EncoderDecoder, scores: Sequence[Tensor]) -> list[Tensor]:
    """Of a loss that reads every score with a weight of its own."""
    read = torch.cat([score.flatten() for score in scores])
    loss = (read * torch.linspace(-1, 1, len(read), dtype=read.dtype)).sum()
    parameters = list(model.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def assert_same(model: EncoderDecoder, found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """In scores, and in the gradients of all parameters."""
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)
    for one, other in zip(gradients_of(model, found), gradients_of(model, expected), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def naive_cell(
    kind: str, weights: Sequence[Tensor], x: Tensor, state: list[Tensor], mask: Tensor | float
) -> list[Tensor]:
    """h(t), and c(t) of an LSTM, gate by gate; the mask is on h before every product."""
    weight_x, weight_h, bias_x, bias_h = weights
    h, gates = state[0], len(weight_x) // len(state[0])
    from_x = [w @ x + b for w, b in zip(weight_x.chunk(gates), bias_x.chunk(gates), strict=True)]
    from_h = [w @ (h * mask) + b for w, b in zip(weight_h.chunk(gates), bias_h.chunk(gates), strict=True)]
    if kind == "rnn_tanh":
        return [torch.tanh(from_x[0] + from_h[0])]
    if kind == "rnn_relu":
        return [torch.relu(from_x[0] + from_h[0])]
    if kind == "lstm":
        i, f, o = (torch.sigmoid(from_x[gate] + from_h[gate]) for gate in (0, 1, 3))
        c = f * state[1] + i * torch.tanh(from_x[2] + from_h[2])
        return [o * torch.tanh(c), c]
    reset, update = (torch.sigmoid(from_x[gate] + from_h[gate]) for gate in (0, 1))
    candidate = torch.tanh(from_x[2] + reset * from_h[2])
    return [update * h + (1 - update) * candidate]


def naive_stack(
    stack: RecurrentStack, x: Tensor, states: list[list[Tensor]], masks: VariationalDropout | None = None, row: int = 0
) -> Tensor:
    """One step through all layers, in one direction; `states` are replaced. Returns the last layer's h."""
    for layer, module in enumerate(stack.layers):
        (weights,) = cast(nn.RNNBase, module).all_weights
        x = x if masks is None else x * masks.input_masks[layer][row]
        of_rows = None if masks is None else masks.hidden_masks[layer][0]
        mask: Tensor | float = 1.0 if of_rows is None else of_rows[row]
        states[layer] = naive_cell(stack.kind, weights, x, states[layer], mask)
        x = states[layer][0]
    return x


def naive_encoder(
    encoder: RecurrentEncoder, source: list[int]
) -> tuple[list[Tensor], list[Tensor], list[list[Tensor]]]:
    """The memory, the last h of the last layer in all directions, and all layers' last states in the first one."""
    stack, order = encoder.stack, range(len(source))
    values = [encoder.embedding.weight[token] * encoder.embedding.scale for token in source]
    values = values[::-1] if encoder.reverse else values
    states = []
    for module in stack.layers:
        outputs: list[list[Tensor]] = [[] for _ in source]
        lasts = []
        for direction, weights in enumerate(cast(nn.RNNBase, module).all_weights):
            state = [torch.zeros(stack.width, dtype=torch.float64)] * (2 if stack.kind == "lstm" else 1)
            for place in order if direction == 0 else reversed(order):
                state = naive_cell(stack.kind, weights, values[place], state, 1.0)
                outputs[place].append(state[0])
            lasts.append(state)
        values = [torch.cat(both) for both in outputs]
        states.append(lasts[0])
    return (values[::-1] if encoder.reverse else values), [last[0] for last in lasts], states


def naive_bridge(bridge: Bridge, v: Tensor) -> list[list[Tensor]]:
    hidden = torch.tanh(bridge.hidden.weight @ v + bridge.hidden.bias).split(bridge.width)
    if bridge.cell is None:
        return [[h] for h in hidden]
    return [
        [h, c] for h, c in zip(hidden, (bridge.cell.weight @ v + bridge.cell.bias).split(bridge.width), strict=True)
    ]


def naive_weights(wiring: Bahdanau | Luong, q: Tensor, memory: list[Tensor], step: int) -> Tensor:
    """Additive or general scores, a softmax over the window, and the Gaussian of a predicted one; or de-attention."""
    alignment, view, length = wiring.reader.alignment, wiring.reader.view, len(memory)
    if isinstance(alignment, Additive):
        (w,), (u,), ((v,),) = alignment.query_weight, alignment.key_weight, alignment.vector
        scores = [v @ torch.tanh(w @ q + u @ k) for k in memory]
    else:
        assert isinstance(alignment, General)
        scores = [q @ alignment.weight[0] @ k for k in memory]
    if isinstance(wiring.reader.distribution, DeAttention):
        distances = torch.stack([-(q - k).abs().sum() for k in memory]) / len(q) ** 0.5
        return torch.tanh(torch.stack(scores)) * torch.sigmoid(distances - distances.mean())
    middle, half = torch.tensor(0.0, dtype=torch.float64), 99
    if isinstance(view, MonotoneView):
        middle, half = middle + min(step, length - 1), view.window.half_width
    if isinstance(view, PredictedView):
        half = view.predicted.window.half_width
        middle = length * torch.sigmoid(view.predicted.out.weight[0] @ torch.tanh(view.predicted.inner.weight @ q))
    near = [place for place in range(length) if abs(place - float(middle.detach())) <= half]
    exponentials = torch.stack([scores[place].exp() if place in near else scores[place] * 0 for place in range(length)])
    weights = exponentials / exponentials.sum()
    if isinstance(view, PredictedView):
        weights = weights * torch.exp(-((torch.arange(length) - middle) ** 2) / (2 * (half / 2) ** 2))
    return weights


def naive_deep(output: DeepOutput, s: Tensor, y: Tensor, c: Tensor) -> Tensor:
    u = (
        output.from_state.weight @ s
        + output.from_state.bias
        + output.from_word.weight @ y
        + output.of_context.weight @ c
    )
    return torch.stack([torch.max(u[place], u[place + len(u) // 2]) for place in range(len(u) // 2)])


def naive_vectors(
    model: EncoderDecoder, source: list[int], target: list[int], masks: VariationalDropout | None = None, row: int = 0
) -> Tensor:
    """What the output layer scores, for one sentence pair."""
    decoder = cast(RecurrentDecoder, model.decoder)
    memory, ends, lasts = naive_encoder(cast(RecurrentEncoder, model.encoder), source)
    wiring, last, vectors = decoder.wiring, torch.cat(ends), []
    words = [decoder.embedding.weight[token] * decoder.embedding.scale for token in target]
    fed = torch.zeros(wiring.stack.width, dtype=torch.float64)
    if isinstance(wiring, Cho):
        context = torch.tanh(wiring.context.weight @ last + wiring.context.bias)
        states = naive_bridge(wiring.first, context)
    else:
        first = cast(Sutskever | Bahdanau | Luong, wiring).first
        states = naive_bridge(first.bridge, last) if isinstance(first, Bridged) else lasts
    for step, y in enumerate(words):
        match wiring:
            case Sutskever():
                vectors.append(naive_stack(wiring.stack, y, states, masks, row))
            case Cho():
                s = naive_stack(wiring.stack, torch.cat([y, context]), states, masks, row)
                vectors.append(naive_deep(wiring.output, s, y, context))
            case Bahdanau():
                weights = naive_weights(wiring, states[-1][0], memory, step)
                c = sum(weight * value for weight, value in zip(weights, memory, strict=True))
                s = naive_stack(wiring.stack, torch.cat([y, cast(Tensor, c)]), states, masks, row)
                vectors.append(naive_deep(wiring.output, s, y, cast(Tensor, c)))
            case Luong():
                s = naive_stack(
                    wiring.stack, y if isinstance(wiring, Unfed) else torch.cat([y, fed]), states, masks, row
                )
                weights = naive_weights(wiring, s, memory, step)
                c = sum(weight * value for weight, value in zip(weights, memory, strict=True))
                fed = torch.tanh(
                    torch.cat([wiring.from_context.weight, wiring.from_state.weight], dim=1)
                    @ torch.cat([cast(Tensor, c), s])
                )
                vectors.append(fed)
    return torch.stack(vectors)
