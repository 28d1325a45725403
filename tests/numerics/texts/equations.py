"""Equations of the texts in NumPy: nothing of Heedful and no torch. Weights have the names that modules give them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = Mapping[str, Array]
Inputs = Sequence[Any]  # arrays, and weights by name: in the order in which a check draws them


@dataclass(frozen=True)
class Recomputed:
    """Values by the text and by Heedful, and corrected, each where it can be recomputed."""

    text: Any = None
    heedful: Any = None
    corrected: Any = None


def same(values: Any) -> Recomputed:
    """Return an outcome of which both sides are equal."""
    return Recomputed(values, values)


def corrected(text: Any, right: Any) -> Recomputed:
    """Return an outcome of which Heedful computes the corrected side."""
    return Recomputed(text, right, right)


# --- single layers ----------------------------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x)"""
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: Array) -> Array:
    """e^x over their sum, in the last axis"""
    exps = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(exps / exps.sum(-1, keepdims=True))


def part(weights: Weights, name: str) -> Weights:
    """Return the weights of a module inside of another one."""
    return {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}


def linear(x: Array, weights: Weights) -> Array:
    """x W^T + b"""
    return np.asarray(x @ weights["weight"].T + weights.get("bias", 0.0))


def layer_norm(x: Array, weights: Weights, epsilon: float = 1e-5) -> Array:
    """a (x - mean) / sqrt(variance + epsilon) + b"""
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return np.asarray(weights["weight"] * (x - mean) / np.sqrt(variance + epsilon) + weights["bias"])


def relu(x: Array) -> Array:
    """max(0, x)"""
    return np.maximum(x, 0)


def feed_forward(x: Array, weights: Weights, activation: Callable[[Array], Array] = relu) -> Array:
    """f(x W_1 + b_1) W_2 + b_2"""
    return linear(activation(linear(x, part(weights, "into"))), part(weights, "out"))


def gelu(x: Array) -> Array:
    """x times the share of a normal distribution below x"""
    from math import erf

    return np.asarray(x * np.vectorize(lambda one: 0.5 * (1 + erf(one / 2**0.5)))(x))


# --- attention --------------------------------------------------------------------------------------------------------


def attend(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    """softmax(Q K^T / sqrt(d_k)) V"""
    scores = q @ k.T / np.sqrt(q.shape[1])
    if causal:
        scores = np.where(np.arange(len(k)) > np.arange(len(q))[:, None], -np.inf, scores)
    return np.asarray(softmax(scores) @ v)


def heads_of(q: Array, k: Array, v: Array, heads: int, causal: bool = False) -> Array:
    """Concat(head_1 .. head_h)"""
    queries, keys, values = (np.split(x, heads, axis=1) for x in (q, k, v))
    return np.concatenate([attend(queries[head], keys[head], values[head], causal) for head in range(heads)], axis=1)


def self_attention(x: Array, weights: Weights, heads: int, causal: bool = False) -> Array:
    """Concat(head_1 .. head_h) W_O, of queries, keys and values of one matrix"""
    q, k, v = np.split(linear(x, part(weights, "project")), 3, axis=1)
    return linear(heads_of(q, k, v, heads, causal), part(weights, "output"))


def cross_attention(x: Array, memory: Array, weights: Weights, heads: int) -> Array:
    """Attention whose keys and values are of a memory"""
    k, v = np.split(linear(memory, part(weights, "project_memory")), 2, axis=1)
    return linear(heads_of(linear(x, part(weights, "project_query")), k, v, heads), part(weights, "output"))


def scores_of(q: Array, k: Array, score: Callable[[Array, Array], Any]) -> Array:
    """Return the score of every query and key."""
    return np.array([[score(one, other) for other in k] for one in q])


# --- a Transformer with norms after its sublayers ---------------------------------------------------------------------


def sinusoids(length: int, width: int) -> Array:
    """sin(p / 10000^(2i/d)) in even dimensions, cos of the same in odd ones"""
    angles = np.arange(length)[:, None] / 10_000.0 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(length, width)


def encoder(x: Array, weights: Weights, heads: int, activation: Callable[[Array], Array], epsilon: float) -> Array:
    """Return the states of all layers' end."""
    layer = 0
    while block := part(weights, f"blocks.{layer}"):
        x = layer_norm(
            x + self_attention(x, part(block, "attention"), heads), part(block, "around_attention.after"), epsilon
        )
        x = layer_norm(
            x + feed_forward(x, part(block, "network"), activation), part(block, "around_network.after"), epsilon
        )
        layer += 1
    return x


def decoder(x: Array, memory: Array, weights: Weights, heads: int) -> Array:
    """Return the states of a decoder whose tokens see those before them."""
    layer = 0
    while block := part(weights, f"blocks.{layer}"):
        x = layer_norm(
            x + self_attention(x, part(block, "attention"), heads, causal=True), part(block, "around_attention.after")
        )
        x = layer_norm(x + cross_attention(x, memory, part(block, "cross"), heads), part(block, "around_cross.after"))
        x = layer_norm(x + feed_forward(x, part(block, "network")), part(block, "around_network.after"))
        layer += 1
    return x


# --- recurrent cells --------------------------------------------------------------------------------------------------


def gates_of(weights: Weights, count: int, suffix: str = "") -> list[tuple[Array, Array, Array]]:
    """Return W_x, W_h and b of each gate of a layer."""
    names = (f"{name}_l0{suffix}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    w_x, w_h, b_x, b_h = (np.split(weights[name], count) for name in names)
    return [(w_x[gate], w_h[gate], b_x[gate] + b_h[gate]) for gate in range(count)]


def vanilla(x: Array, weights: Weights, suffix: str = "", h: Array | None = None) -> Array:
    """h(t) = tanh(W_x x(t) + W_h h(t-1) + b)"""
    ((w_x, w_h, b),) = gates_of(weights, 1, suffix)
    h, states = np.zeros(len(w_h)) if h is None else h, []
    for one in x:
        h = np.tanh(w_x @ one + w_h @ h + b)
        states.append(h)
    return np.array(states)


def lstm(x: Array, weights: Weights, h: Array | None = None, c: Array | None = None) -> tuple[Array, Array]:
    """C = F C + I tanh(..), H = O tanh(C); returns all H, and the last C"""
    i, f, g, o = gates_of(weights, 4)
    zeros = np.zeros(len(i[1]))
    h, c, states = zeros if h is None else h, zeros if c is None else c, []
    for one in x:
        read, kept, written = (sigmoid(w_x @ one + w_h @ h + b) for w_x, w_h, b in (i, f, o))
        c = kept * c + read * np.tanh(g[0] @ one + g[1] @ h + g[2])
        h = written * np.tanh(c)
        states.append(h)
    return np.array(states), c


def gru(x: Array, weights: Weights) -> Array:
    """H = Z H + (1 - Z) tanh(W_x x + W_h (R H) + b), with the reset gate on the state"""
    r, z, n = gates_of(weights, 3)
    h, states = np.zeros(len(r[1])), []
    for one in x:
        reset, update = (sigmoid(w_x @ one + w_h @ h + b) for w_x, w_h, b in (r, z))
        h = update * h + (1 - update) * np.tanh(n[0] @ one + n[1] @ (reset * h) + n[2])
        states.append(h)
    return np.array(states)


def library_gru(x: Array, weights: Weights, h: Array) -> Array:
    """H = Z H + (1 - Z) tanh(W_x x + b_x + R (W_h H + b_h)), as torch.nn.GRU has it"""
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    (wr, wz, wn), (ur, uz, un), (br, bz, bn), (cr, cz, cn) = (np.split(weights[f"{one}_l0"], 3) for one in parts)
    states = []
    for one in x:
        reset, update = sigmoid(wr @ one + br + ur @ h + cr), sigmoid(wz @ one + bz + uz @ h + cz)
        h = update * h + (1 - update) * np.tanh(wn @ one + bn + reset * (un @ h + cn))
        states.append(h)
    return np.array(states)
