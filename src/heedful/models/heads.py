"""Heads of an encoder: the class of a text, a masked token, whether one text follows another."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.embedding import Output
from heedful.nn.layers.feedforward import ACTIVATIONS
from heedful.nn.layers.linear import Linear


class Pooler(nn.Module):
    """y = tanh(W x + b) of the class token's vector      Devlin et al. 2019, as in their program

    The vector of a pair of texts may be wider; y has the encoder's width, as in Lu et al. 2016, 3.4.
    """

    def __init__(self, width: int, pooled_width: int | None = None) -> None:
        super().__init__()
        self.linear = Linear(pooled_width or width, width)

    def forward(self, x_BG: Float[Tensor, "B G"]) -> Float[Tensor, "B E"]:
        """Apply to each text's vector."""
        y_BE: Tensor = self.linear(x_BG).tanh()
        return y_BE


class Hidden(nn.Module):
    """y = relu(W D(x) + b), the hidden layer of a head, with dropout D before it; the head has its own after it."""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.drop, self.linear = Dropout(dropout), Linear(width, inner)

    def forward(self, x_BE: Float[Tensor, "B E"]) -> Float[Tensor, "B G"]:
        """Apply to each vector."""
        y_BG: Tensor = self.linear(self.drop(x_BE)).relu()
        return y_BG


class OneScore(Linear):
    """scores = (-z/2, z/2), z = w . x + b: the probability of the second of two classes is sigmoid(z)

    The score is shared evenly, so that each class has gradients to explain it by.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, 1)

    def forward(self, input: Float[Tensor, "*any E"]) -> Float[Tensor, "*any 2"]:
        """Score both classes of each vector."""
        half = super().forward(input) / 2
        return torch.cat([-half, half], dim=-1)


class MaskedHead(nn.Module):
    """scores = N(act(W x + b)) V^T + c, with the embedding's own matrix V      Devlin et al. 2019, 3.1"""

    def __init__(
        self, width: int, weight: nn.Parameter, bias: nn.Parameter, norm: nn.Module, activation: str = "gelu"
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.linear, self.norm = Linear(width, width), norm
        self.output = Output(weight, bias)

    def states(self, x_PE: Float[Tensor, "P E"]) -> Float[Tensor, "P E"]:
        """Return the vectors that `output` scores."""
        y_PE: Tensor = self.norm(self.activation(self.linear(x_PE)))
        return y_PE

    def forward(self, x_PE: Float[Tensor, "P E"]) -> Float[Tensor, "P V"]:
        """Score every token of the vocabulary."""
        scores_PV: Tensor = self.output(self.states(x_PE))
        return scores_PV
