"""What a run computes, in floating-point operations.

A product of an [n, a] and an [a, b] matrix is 2 n a b operations. With n source and m target tokens (end markers
included) in sentences of s_i and t_i, width E, inner width F, and V target pieces, one forward pass takes

    encoder block      2 n (4 E^2 + g E F) + 4 E sum s_i^2
    decoder block      2 m (6 E^2 + g E F) + 4 n E^2 + 4 E sum t_i^2 + 4 E sum t_i s_i
    output             2 m E V

where g = 2, or 3 with SwiGLU. Relative positions up to a distance k add 4 n (2k + 1) E to an encoder block, and
4 m (2k + 1) E to a decoder block. Attention's 4 E s t is the scores and the weighted sum, all heads together; the
causal one counts as a whole square, as torch's own counter does. A training step is three forward passes: the backward
pass makes two products, one for the input and one for the weights, of each one of the forward pass. Norms, activations
and the optimizer are not counted: they are no matrix products. Padding and recomputation are no work, and not counted.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from heedful.config.schema import TransformerModel
from heedful.nn.embedding import Embedding, Output
from heedful.nn.positions import Learned

Lengths = NDArray[np.integer]

STEP: Final = 3  # forward passes' worth of work in a training step
_MATRICES: Final = {"relu": 2, "gelu": 2, "swiglu": 3}  # of a position-wise network


@dataclass(frozen=True)
class Parameters:
    """The numbers that are trained."""

    total: int
    embeddings: int  # of both embeddings, learned positions and the output layer; shared ones count once

    @property
    def rest(self) -> int:
        """Everything between the embeddings and the output layer."""
        return self.total - self.embeddings


def count_parameters(model: nn.Module) -> Parameters:
    """Count each parameter once, however many modules share it."""
    outer = {
        parameter
        for module in model.modules()
        if isinstance(module, Embedding | Output | Learned)
        for parameter in module.parameters(recurse=False)
    }
    return Parameters(sum(p.numel() for p in model.parameters()), sum(p.numel() for p in outer))


def forward_flop(model: TransformerModel, source: Lengths, target: Lengths, target_size: int) -> float:
    """The operations of one forward pass over sentences of these lengths, end markers included."""
    width, network = model.width, _MATRICES[model.activation] * model.width * model.inner
    s, t = source.astype(np.float64), target.astype(np.float64)  # squares of long corpora leave 32 bits
    n, m = float(s.sum()), float(t.sum())
    relative = 2 * (2 * model.max_distance + 1) * width if model.positions == "relative" else 0
    encoder = 2 * n * (4 * width**2 + network + relative) + 4 * width * float(s @ s)
    decoder = 2 * m * (6 * width**2 + network + relative) + 4 * n * width**2 + 4 * width * float(t @ t + t @ s)
    return model.layers * encoder + (model.decoder_layers or model.layers) * decoder + 2 * m * width * target_size
