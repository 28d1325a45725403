"""Counts the floating-point operations of a training run.

A product of an [n, a] and an [a, b] matrix is 2 n a b operations. With n source and m target tokens (end markers
included) in sentences of s_i and t_i, width E, inner width F, and V target pieces, one forward pass takes

    encoder block      2 n (4 E^2 + g E F) + 4 E sum s_i^2
    decoder block      2 m (6 E^2 + g E F) + 4 n E^2 + 4 E sum t_i^2 + 4 E sum t_i s_i
    output             2 m E V

where g = 2, or 3 with SwiGLU. With G heads of keys and values for H heads of queries, the products that project keys
and values count G / H times. Relative positions up to a distance k add 4 n (2k + 1) E to an encoder block, and 4 m (2k
+ 1) E to a decoder block. Where `key_width` or `value_width` is set, products with queries and keys, or with values,
count in proportion to it. With `attention_radius`, self-attention counts the pairs of tokens within it, on both sides,
instead of all s_i^2. An encoder of convolutions of k tokens has 2 n k E^2 instead of attention's products, or 2 n E^2
where they are separable. Attention's 4 E s t is the scores and the weighted sum of all heads; causal attention counts
as a full square, as in torch's own counter. A training step costs three forward passes: for each product of the forward
pass, the backward pass computes two, one for the input and one for the weights. Only matrix products count: norms,
activations and the optimizer do not. Padding and recomputation are not counted either.

A recurrent layer of width W over inputs of width I takes 2 n g W (I + W) in each direction, where g is the number of
gates: 4 for an LSTM, 3 for a GRU, 1 for others. Its attention over a memory of width M takes 2 n M W for the keys, and
2 (W + M) per pair of a target and a source token. Every alignment counts as "general", or in a Transformer as scaled
dot product; the few alignments that are networks take more, and random features take less with long sentences.
"""

from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray
from torch import nn

from heedful.config.model.mixed import PairModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.nn.layers.embedding import outer_parameters

Lengths = NDArray[np.integer]

STEP: Final = 3  # a training step costs this many forward passes
_GATES: Final = {"lstm": 4, "gru": 3, "gru_paper": 3, "tanh": 1, "relu": 1}


@dataclass(frozen=True)
class Parameters:
    """The number of trained parameters."""

    total: int
    embeddings: int  # both embeddings, learned positions and the output layer; shared ones count once

    @property
    def rest(self) -> int:
        """Parameters between the embeddings and the output layer."""
        return self.total - self.embeddings


def count_parameters(model: nn.Module) -> Parameters:
    """Count each parameter once, however many modules share it."""
    return Parameters(sum(p.numel() for p in model.parameters()), sum(p.numel() for p in outer_parameters(model)))


def forward_flop(model: PairModel, source: Lengths, target: Lengths, target_size: int) -> float:
    """Count the operations of one forward pass over sentences of these lengths, end markers included."""
    s, t = source.astype(np.float64), target.astype(np.float64)  # sums of squares overflow 32 bits
    both = _Lengths(s, t)
    first, second = model.sides
    encoder = _recurrent_encoder(first, both) if isinstance(first, RecurrentModel) else _encoder(first, both)
    if isinstance(second, RecurrentModel):
        decoder = _recurrent_decoder(second, both, first.memory_width)
    else:
        decoder = _decoder(second, both, first.memory_width)
    return encoder + decoder + 2 * both.target * second.width * target_size


class _Lengths:
    """Sums of lengths and of their products."""

    def __init__(self, s: NDArray[np.float64], t: NDArray[np.float64]) -> None:
        self.source, self.target = float(s.sum()), float(t.sum())
        self.source_lengths, self.target_lengths, self.pairs = s, t, float(t @ s)


def _pairs_within(lengths: NDArray[np.float64], radius: int | None) -> float:
    """Count the pairs of positions of each sentence that are at a distance of at most a radius."""
    if radius is None:
        return float(lengths @ lengths)
    near = np.minimum(lengths - 1, radius)
    return float((lengths * (2 * near + 1) - near * (near + 1)).sum())


def _encoder(model: TransformerModel, lengths: _Lengths) -> float:
    if model.encoder_layer != "attention":
        whole = model.encoder_layer == "convolution"
        products = model.kernel * model.width**2 if whole else model.width**2
        network = _inner_matrices(model) * model.width * model.inner
        return model.layers * 2 * lengths.source * (products + network)
    heads = _Heads(model)
    projections = model.width * (heads.queries + heads.memory + heads.values)
    block = 2 * lengths.source * (projections + _position_wise(model)) + heads.pair * _pairs_within(
        lengths.source_lengths, model.attention_radius
    )
    return model.layers * block


def _decoder(model: TransformerModel, lengths: _Lengths, memory_width: int) -> float:
    heads = _Heads(model)
    projections = model.width * (2 * (heads.queries + heads.values) + heads.memory)
    block = 2 * lengths.target * (projections + _position_wise(model))
    block += 2 * lengths.source * memory_width * heads.memory
    pairs = _pairs_within(lengths.target_lengths, model.attention_radius) + lengths.pairs
    return (model.decoder_layers or model.layers) * (block + heads.pair * pairs)


class _Heads:
    """Widths of all heads together, and the operations of a pair of a query and a key."""

    def __init__(self, model: TransformerModel) -> None:
        keys, values = model.head_widths
        self.queries, self.values = model.heads * keys, model.heads * values
        self.memory = (model.key_value_heads or model.heads) * (keys + values)
        self.pair = 2 * (self.queries + self.values)


def _position_wise(model: TransformerModel) -> int:
    """Count the multiplications per token besides the projections of attention (half of the operations)."""
    distances = 2 * model.max_distance + 1 if model.positions_kind.distance_vectors else 0
    relative = distances * model.heads * sum(model.head_widths)
    return _inner_matrices(model) * model.width * model.inner + relative


def _inner_matrices(model: TransformerModel) -> int:
    """Return the number of weight matrices in a position-wise network."""
    match model.activation:
        case "relu" | "gelu" | "gelu_tanh" | "silu":
            return 2
        case "swiglu":
            return 3
        case _:
            assert_never(model.activation)


def _recurrent_encoder(model: RecurrentModel, lengths: _Lengths) -> float:
    width, directions = model.encoder_width or model.width, 2 if model.bidirectional else 1
    layer = [
        _cell(model, width, model.memory_width if layer else model.embedding_width) for layer in range(model.layers)
    ]
    return directions * lengths.source * sum(layer)


def _recurrent_decoder(model: RecurrentModel, lengths: _Lengths, memory_width: int) -> float:
    width, embedding = model.width, model.embedding_width
    context = width if model.wiring == "cho" else memory_width
    fed = {
        "sutskever": 0,
        "vector": context,
        "cho": context,
        "bahdanau": context,
        "luong": width if model.input_feeding else 0,
    }
    layers = model.decoder_layers or model.layers
    cells = [_cell(model, width, width if layer else embedding + fed[model.wiring]) for layer in range(layers)]
    read_out = {
        "sutskever": 0,
        "vector": 0,
        "cho": 2 * width * (width + embedding + context),
        "bahdanau": 2 * width * (width + embedding + context),
        "luong": width * (width + context),
    }
    attention = 2 * lengths.source * memory_width * width + 2 * (width + memory_width) * lengths.pairs
    return lengths.target * (sum(cells) + 2 * read_out[model.wiring]) + (attention if model.attends else 0)


def _cell(model: RecurrentModel, width: int, input_width: int) -> int:
    """Count the operations of one layer per direction and token."""
    return 2 * _GATES[model.cell] * width * (input_width + width)
