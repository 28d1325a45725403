"""Position-wise feed-forward networks, applied to each token separately."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.kernels import use_kernels
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.linear import Linear

ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # Hendrycks and Gimpel 2016, as GPT-2 computes it
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """FFN(x) = D(act(x W_1 + b_1)) W_2 + b_2, where b_1 and b_2 are optional      Vaswani et al. 2017, 3.3"""

    def __init__(
        self, width: int, inner: int, activation: str = "relu", dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.name, self.activation = activation, ACTIVATIONS[activation]
        self.into = Linear(width, inner, bias)
        self.drop = Dropout(dropout)
        self.out = Linear(inner, width, bias)

    def forward(self, x_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
        """Apply to each token; on a GPU by products that are fused with biases and the activation or its gradient."""
        if self.name in ("relu", "gelu", "gelu_tanh") and self.into.bias is not None and use_kernels(x_NE):
            from heedful.nn.layers import linear_gpu  # imports Triton, which a CPU does not need

            into, out = self.into, self.out
            if linear_gpu.supports(x_NE) and self.name == "relu":
                return out(self.drop(linear_gpu.linear_relu(x_NE, into.weight, into.bias)))
            if linear_gpu.supports(x_NE) and not (self.training and self.drop.share):
                tanh = self.name == "gelu_tanh"
                return linear_gpu.gelu_network(x_NE, into.weight, into.bias, out.weight, out.bias, tanh)
        return self.out(self.drop(self.activation(self.into(x_NE))))


class SwiGLU(nn.Module):
    """FFN(x) = D(silu(x W) * (x V)) W_2      Shazeer 2020"""

    def __init__(self, width: int, inner: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.into = Linear(width, 2 * inner, bias=False)
        self.drop = Dropout(dropout)
        self.out = Linear(inner, width, bias=False)

    def forward(self, x_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
        """Apply to each token."""
        gate, value = self.into(x_NE).chunk(2, dim=1)
        return self.out(self.drop(F.silu(gate) * value))
