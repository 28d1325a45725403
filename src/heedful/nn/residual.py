"""Skip connections: where the norm stands is data, not a branch."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from heedful.nn.dropout import Dropout


class Residual(nn.Module):
    """Skip connection around a sublayer f with dropout D and norms N (`before`), M (`after`).

    y = M(x + D(f(N(x))))

    post      N = identity, M = norm        Vaswani et al. 2017, 3.1
    pre       N = norm, M = identity        Xiong et al. 2020
    """

    def __init__(self, before: nn.Module, after: nn.Module, dropout: float) -> None:
        super().__init__()
        self.before, self.after, self.drop = before, after, Dropout(dropout)

    def forward(self, x_NE: Float[Tensor, "N E"], sublayer: Callable[[Tensor], Tensor]) -> Float[Tensor, "N E"]:
        """Add the sublayer's answer to its input."""
        y_NE: Tensor = self.after(x_NE + self.drop(sublayer(self.before(x_NE))))
        return y_NE
