"""Attention, Transformers and what goes in and out of them, recomputed in NumPy."""

import math
from collections.abc import Callable

import numpy as np
from tests.numerics.texts.equations import (
    Array,
    Inputs,
    Recomputed,
    Weights,
    corrected,
    cross_attention,
    decoder,
    encoder,
    feed_forward,
    gelu,
    layer_norm,
    linear,
    part,
    relu,
    same,
    scores_of,
    self_attention,
    sinusoids,
    softmax,
)


def attention_of_a_decoder(inputs: Inputs) -> Recomputed:
    weights, x, memory = inputs
    return same(cross_attention(x, memory, weights, 2))


def multi_head(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    return same(self_attention(x, weights, 2))


def causal_mask(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    return same(self_attention(x, weights, 2, causal=True))


def mask_tokens(inputs: Inputs) -> Recomputed:
    weights, x, mask = inputs
    masked = [np.concatenate([x[: i + 1], np.tile(mask, (len(x) - i - 1, 1))]) for i in range(len(x))]
    text = [self_attention(row, weights, 2)[i] for i, row in enumerate(masked)]
    return corrected(text, self_attention(x, weights, 2, causal=True))


def every_position_in_one_layer(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    changed = np.zeros(len(x))
    for place in range(len(x)):
        other = x.copy()
        other[place] += 0.1
        changed += (self_attention(x, weights, 2) != self_attention(other, weights, 2)).any(1)
    return same(changed)


def network(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    return same(feed_forward(x, weights))


def parallel_flow(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    return same(feed_forward(x, part(weights, "encoder.blocks.0.network")))


def widths_of_heads(inputs: Inputs) -> Recomputed:
    model, heads = 512, 8
    width = model // heads
    return corrected(
        [width, model, heads * width, width, heads * width, model],
        [model, model, heads * width, width, heads * width, model],
    )


# --- keys, values and queries as columns ------------------------------------------------------------------------------


def soft_weights(inputs: Inputs) -> Recomputed:
    (x,) = inputs
    columns = softmax((x.T @ x).T).T
    return same(np.concatenate([columns.ravel(), columns.sum(0)]))


def hard_weights(inputs: Inputs) -> Recomputed:
    (x,) = inputs
    return same(np.eye(x.shape[1])[(x.T @ x).argmax(0)].T)


def all_queries_at_once(inputs: Inputs) -> Recomputed:
    q, k, v = inputs
    return same(v @ softmax((k.T @ q).T).T)


def sum_of_inputs(inputs: Inputs) -> Recomputed:
    (x,) = inputs
    return same(x @ softmax(x.T @ x[:, 0]))


def longest_input(inputs: Inputs) -> Recomputed:
    x = np.array([[1.0, 2.0], [0.0, 2.0]])
    products = x.T @ x[:, 0]
    return Recomputed([np.argmax(products / np.linalg.norm(x, axis=0))], [np.argmax(products)])


def heads_to_one_width(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    return same(self_attention(x.T, weights, 2).T)


# --- scores of queries and keys ---------------------------------------------------------------------------------------


def _scored(score: Callable[[Weights], Callable[[Array, Array], object]]) -> Callable[[Inputs], Recomputed]:
    def recomputed(inputs: Inputs) -> Recomputed:
        weights, q, k = inputs
        return same(scores_of(q, k, score(weights)))

    return recomputed


def _deep(w: Weights) -> Callable[[Array, Array], object]:
    def score(q: Array, k: Array) -> object:
        inner = np.maximum(w["key_weight"][0] @ k + w["query_weight"][0] @ q + w["key_bias"][0, 0], 0)
        for layer in range(2):
            inner = np.maximum(w[f"weights.{layer}"][0] @ inner + w[f"biases.{layer}"][0, 0], 0)
        return w["vector"][0, 0] @ inner + w["bias"][0, 0, 0]

    return score


additive = _scored(
    lambda w: lambda q, k: w["vector"][0, 0] @ np.tanh(w["query_weight"][0] @ q + w["key_weight"][0] @ k)
)
deep = _scored(_deep)
dot = _scored(lambda w: lambda q, k: q @ k)
scaled_dot = _scored(lambda w: lambda q, k: q @ k / 2)
general = _scored(lambda w: lambda q, k: q @ w["weight"][0] @ k)
biased_general = _scored(lambda w: lambda q, k: k @ (w["weight"][0] @ q + w["bias"][0, 0]))
activated_general = _scored(lambda w: lambda q, k: np.tanh(q @ w["weight"][0] @ k + w["bias"][0, 0, 0]))


def weights_per_dimension(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    inner = linear(x, part(weights, "inner"))
    scores = linear(np.where(inner > 0, inner, np.expm1(inner)), part(weights, "out"))
    return same((softmax(scores.T).T * x).sum(0))


def hard_choices(inputs: Inputs) -> Recomputed:
    (scores,) = inputs
    return Recomputed([*softmax(scores), 1.0])  # Heedful's shares are counted in random draws


def sigmoid_sums_to_one(inputs: Inputs) -> Recomputed:
    return corrected([1.0], [sum(1 / (1 + math.exp(-score)) for score in (2.0, -1.0, 0.5))])


# --- Transformers -----------------------------------------------------------------------------------------------------


def every_position_at_once(inputs: Inputs) -> Recomputed:
    (weights,) = inputs
    matrix, source, target = weights["encoder.embedding.weight"], [4, 5, 6, 7, 2], [1, 7, 5, 8]

    def embedded(tokens: list[int]) -> Array:
        return np.asarray(np.sqrt(8) * matrix[tokens] + sinusoids(len(tokens), 8))

    memory = encoder(embedded(source), part(weights, "encoder"), 2, relu, 1e-5)
    rows = [decoder(embedded(target[: end + 1]), memory, part(weights, "decoder"), 2)[-1] for end in range(4)]
    return same(np.array(rows) @ matrix.T)


def from_both_sides(inputs: Inputs) -> Recomputed:
    (weights,) = inputs
    own = part(weights, "encoder.embedding")

    def predicted(text: list[int]) -> Array:
        x = own["weight"][text] + own["positions.weight"][: len(text)] + own["segments"][0]
        states = encoder(layer_norm(x, part(own, "norm"), 1e-12), part(weights, "encoder"), 2, gelu, 1e-12)
        inner = layer_norm(gelu(linear(states[3], part(weights, "head.linear"))), part(weights, "head.norm"), 1e-12)
        return softmax(inner @ own["weight"].T + weights["head.output.bias"])

    tokens = [1, 6, 7, 4, 9, 10, 2]
    changed = [[*tokens[:place], 11, *tokens[place + 1 :]] for place in range(7) if place != 3]
    seen = sum(not np.allclose(predicted(text), predicted(tokens)) for text in changed)
    return same([seen, predicted(tokens).sum()])


def printed_pre_norm_layer(inputs: Inputs) -> Recomputed:
    attention, inner, first, second, x = inputs
    normed = layer_norm(x, first, 1e-6)
    read = self_attention(normed, attention, 2)

    def rest(added: Array) -> Array:
        out = added + read
        return np.asarray(out + feed_forward(layer_norm(out, second, 1e-6), inner))

    return corrected(rest(normed), rest(x))


def learned_norm(inputs: Inputs) -> Recomputed:
    weights, x = inputs
    y = layer_norm(x, weights)
    gradients = [(2 * y * (y - weights["bias"])).sum(0), 2 * y.sum(0)]  # of the sum of squares, times the factors
    return corrected([0, 0], [float(gradient.any()) for gradient in gradients])


def attention_alone(inputs: Inputs) -> Recomputed:
    return same([0, 0])


def base_sizes(inputs: Inputs) -> Recomputed:
    layers, width, heads = 6, 512, 8
    return same([layers, layers, width, heads, width // heads, width // heads, 4 * width])


def bert_sizes(inputs: Inputs) -> Recomputed:
    def millions(width: int, layers: int, pieces: int = 30_522, positions: int = 512) -> int:
        norm, square = 2 * width, width * width + width
        block = 4 * square + 2 * norm + (4 * width * width + 4 * width) + (4 * width * width + width)
        outside = (pieces + positions + 2) * width + norm  # embeddings, whose matrix is that of the output too
        heads = square + norm + pieces + square + 2 * width + 2  # of masked tokens, and of the next sentence
        return round((layers * block + outside + heads) / 1e6)

    return Recomputed([110, 340], [millions(768, 12), millions(1024, 24)])


def t_fixup_embeddings(inputs: Inputs) -> Recomputed:
    return Recomputed([math.sqrt(64)], corrected=[1 / math.sqrt(64)])  # Heedful's deviation is of random weights


def t_fixup_xavier(inputs: Inputs) -> Recomputed:
    matrices = 3 + 1 + 2, 3 + 1 + 3 + 1 + 2  # of a block of the encoder, and of one of the decoder
    return Recomputed([1.0] * sum(matrices))  # the bound itself; Heedful's are the largest of random weights


def positions_in_halves(inputs: Inputs) -> Recomputed:
    table = sinusoids(20, 512)
    return same(np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1))


def positions(inputs: Inputs) -> Recomputed:
    return same(sinusoids(4, 6))


# --- words ------------------------------------------------------------------------------------------------------------

_WORDS = ("a", "am", "I", "thanks", "student", "<eos>")


def target_outputs(inputs: Inputs) -> Recomputed:
    return same([[float(word == one) for one in _WORDS] for word in ("I", "am", "a", "student", "<eos>")])


def one_hot(inputs: Inputs) -> Recomputed:
    (matrix,) = inputs
    vector = np.array([float(word == "am") for word in _WORDS])
    return same(np.concatenate([vector, vector @ matrix]))
