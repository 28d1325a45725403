"""Recurrent networks, translators and language models of the texts, recomputed in NumPy."""

from collections.abc import Sequence

import numpy as np
from tests.numerics.texts.equations import (
    Array,
    Inputs,
    Recomputed,
    Weights,
    corrected,
    gates_of,
    gru,
    library_gru,
    linear,
    lstm,
    part,
    same,
    sigmoid,
    softmax,
    vanilla,
)


def recurrence(inputs: Inputs) -> Recomputed:
    x, tanh, memory, gates = inputs
    layers = [part(weights, "layers.0") for weights in (tanh, memory, gates)]
    return same(np.concatenate([vanilla(x, layers[0]), lstm(x, layers[1])[0], gru(x, layers[2])]))


def vanilla_alone(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    return same(vanilla(x, part(weights, "layers.0")))


def lstm_alone(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    return same(lstm(x, part(weights, "layers.0"))[0])


def two_input_vectors(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    return same(vanilla(x, part(weights, "layers.0"))[4])


def sizes_of_the_vanilla_cell(inputs: Inputs) -> Recomputed:
    d, k, q = 3, 4, 2
    return corrected([d * k, k * k, k * q, q, q], [d * k, k * k, k * q, k, q])


def outputs_fed_back(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    o, found = np.zeros(2), []
    for one in x:
        h = np.tanh(linear(one, part(weights, "from_input")) + linear(o, part(weights, "from_output")))
        o = linear(h, part(weights, "to_output"))
        found.append(o)
    return same(found)


def shapes_of_lstm(inputs: Inputs) -> Recomputed:
    weights, x, h, c = inputs
    y, hidden, memory = x, [], []
    for layer in range(2):
        own = part(weights, f"layers.{layer}")
        rows = [lstm(y[:, row], own, h[layer, row], c[layer, row]) for row in range(3)]
        y = np.stack([states for states, _ in rows], axis=1)
        hidden.append(y[-1])
        memory.append([last for _, last in rows])
    return same(np.concatenate([[5, 3, 20, 2, 3, 20, 2, 3, 20], y.ravel(), np.ravel(hidden), np.ravel(memory)]))


def shapes_of_gru(inputs: Inputs) -> Recomputed:
    weights, x, h, _ = inputs
    y, hidden = x, []
    for layer in range(2):
        own = part(weights, f"layers.{layer}")
        y = np.stack([library_gru(y[:, row], own, h[layer, row]) for row in range(3)], axis=1)
        hidden.append(y[-1])
    return same(np.concatenate([[5, 3, 20, 2, 3, 20], y.ravel(), np.ravel(hidden)]))


def gru_candidate(inputs: Inputs) -> Recomputed:
    weights, x, h, _ = inputs
    reset, _, new = gates_of(part(weights, "layers.0"), 3)
    r = sigmoid(x @ reset[0].T + h @ reset[1].T + reset[2])
    known = x @ new[0].T + (r * h) @ new[1].T
    return corrected(np.tanh(known) + new[2], np.tanh(known + new[2]))


def gru_has_no_memory(inputs: Inputs) -> Recomputed:
    matrices = [weights["layers.0.weight_hh_l0"] for weights in inputs[::4]]
    sums = [len(matrix) / matrix.shape[1] for matrix in matrices]
    return same([1, sums[0], 2, sums[1]])


def dependencies_of_the_third_state(inputs: Inputs) -> Recomputed:
    w_x, w_h, _, x, _, h = inputs
    before = w_x @ x[1] + w_h @ h.ravel()
    own = w_x @ x[2] + w_h @ before  # positive: a state is its own maximum with 0
    changed = ((w_x + 1) @ x[2] + w_h @ before, w_x @ x[2] + (w_h + 1) @ before)
    others = (*changed, w_x @ x[2] + w_h @ (before + 1), w_x @ (x[2] + 1) + w_h @ before, own)
    return same([float(not np.array_equal(other, own)) for other in others])


def same_vector_in_any_context(inputs: Inputs) -> Recomputed:
    return same(np.eye(5)[[3, 0, 3, 2, 3]] @ inputs[0]["decoder.embedding.weight"])


# --- language models --------------------------------------------------------------------------------------------------


def _scores(weights: Weights, states: Array) -> Array:
    """Return the scores of an output layer that shares its matrix with the embedding."""
    return np.asarray(states @ weights["decoder.embedding.weight"].T + weights["decoder.output.bias"])


def causal_network(inputs: Inputs) -> Recomputed:
    (weights,) = inputs
    found = []
    for later in (2, 4):
        x = weights["decoder.embedding.weight"][[1, 3, 0, later]]
        found.append(_scores(weights, vanilla(x, part(weights, "decoder.stack.layers.0")))[:3])
    return same([np.abs(found[0] - found[1]).max()])


def markov_assumption(inputs: Inputs) -> Recomputed:
    (weights,) = inputs
    chances = []
    for first in (3, 1):
        x = weights["decoder.embedding.weight"][[1, first, 0]]
        states, _ = lstm(x, part(weights, "decoder.stack.layers.0"))
        chances.append(softmax(_scores(weights, states))[2, 4])
    return same([float(abs(chances[0] - chances[1]) > 1e-3)])


# --- translators with a tanh cell -------------------------------------------------------------------------------------

_SOURCE, _TARGET, _STARTED = (2, 3, 0, 1), (3, 0, 4), (1, 3, 0)


def _encoded(weights: Weights) -> tuple[Array, Array]:
    """Return the states of both directions."""
    x = weights["encoder.embedding.weight"][list(_SOURCE)] * np.sqrt(3)
    layer = part(weights, "encoder.stack.layers.0")
    return vanilla(x, layer), vanilla(x[::-1], layer, "_reverse")[::-1]


def _decoded(weights: Weights, tokens: Sequence[int]) -> list[Array]:
    """Return the probabilities after each token, with a fixed context."""
    wiring = part(weights, "decoder.wiring")
    forward, backward = _encoded(weights)
    context = np.tanh(linear(np.concatenate([forward[-1], backward[0]]), part(wiring, "context")))
    s, found = np.tanh(linear(context, part(wiring, "first.hidden"))), []
    for token in tokens:
        word = weights["decoder.embedding.weight"][token] * np.sqrt(3)
        (s,) = vanilla(np.concatenate([word, context])[None], part(wiring, "stack.layers.0"), h=s)
        summed = linear(s, part(wiring, "output.from_state")) + linear(word, part(wiring, "output.from_word"))
        pairs = (summed + linear(context, part(wiring, "output.of_context"))).reshape(2, -1)
        found.append(softmax(weights["decoder.output.weight"] @ pairs.max(0)))
    return found


def probability_of_a_translation(inputs: Inputs) -> Recomputed:
    chances = zip(_decoded(inputs[0], _STARTED), _TARGET, strict=True)
    return same([np.prod([chance[token] for chance, token in chances])])


def _weights_of_the_first_step(weights: Weights) -> tuple[Array, Array]:
    """Return alpha of the first step, and h."""
    wiring = part(weights, "decoder.wiring")
    forward, backward = _encoded(weights)
    h = np.concatenate([forward, backward], axis=1)
    s = np.tanh(linear(np.concatenate([forward[-1], backward[0]]), part(wiring, "first.bridge.hidden")))
    reader = part(wiring, "reader.alignment")
    inner = np.tanh(reader["query_weight"][0] @ s + h @ reader["key_weight"][0].T)
    return softmax(inner @ reader["vector"][0, 0]), h


def context_of_a_step(inputs: Inputs) -> Recomputed:
    alpha, h = _weights_of_the_first_step(inputs[0])
    return same(alpha @ h)


def targets_of_any_length(inputs: Inputs) -> Recomputed:
    return same([len(_decoded(inputs[0], [2] * length)) for length in (1, 3, 9)])


def context_of_one_size(inputs: Inputs) -> Recomputed:
    forward, backward = _encoded(inputs[0])
    return same([len(np.concatenate([forward[-1], backward[0]]))] * 3)


def reversed_lags(inputs: Inputs) -> Recomputed:
    read = np.arange(5)
    return same(np.concatenate([5 + np.arange(5) - read, 5 + np.arange(5) - read[::-1]]))
