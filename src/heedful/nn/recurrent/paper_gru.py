"""The gated recurrent unit as its paper has it, with the reset gate before the product."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from heedful.nn.recurrent.cell_gradients import tanh
from heedful.nn.recurrent.cells import Cell, CellState


@dataclass(frozen=True, eq=False)
class PaperGRUCell(Cell):
    """A gate between the old state and a candidate      Cho et al. 2014, 2.3

    R, Z = sigmoid(W x(t) + U h(t-1) + b), each with its own W, U and b
    candidate = tanh(W_n x(t) + U_n (R * h(t-1)) + b_n)
    h(t) = Z * h(t-1) + (1 - Z) * candidate

    A step has two products, one after the other: U h for both gates, then U_n (R * h). cuDNN has no kernels for it. Its
    weights have the form of `GRUCell`'s, but a network that was trained with one computes other values with the other.
    """

    weight_n: Float[Tensor, "E E"]

    gates: ClassVar[tuple[str, ...]] = ("reset", "update", "candidate")

    @classmethod
    def of(
        cls,
        weight_x: Float[Tensor, "G I"],
        weight_h: Float[Tensor, "G E"],
        bias_x: Float[Tensor, "G"],
        bias_h: Float[Tensor, "G"],
    ) -> "PaperGRUCell":
        """Make a cell from torch's four tensors; `weight_h` of the cell are the rows of both gates."""
        gates, candidate = weight_h.split([2 * weight_h.shape[1], weight_h.shape[1]])
        return cls(weight_x, gates, bias_x + bias_h, candidate)

    def addend(self, x_NG: Float[Tensor, "N G"]) -> Float[Tensor, "N P"]:
        """Return the inputs of both gates, which the product with the state is added to."""
        return x_NG[:, : len(self.weight_h)]

    def combine(self, x_RG: Float[Tensor, "R G"], product_RG: Float[Tensor, "R P"]) -> Float[Tensor, "R P"]:
        """Return the sums of both gates."""
        return self.addend(x_RG) + product_RG

    def update(self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R P"], state: CellState) -> CellState:
        """Return the new state, where nothing of the old one is dropped."""
        return self.advance(x_RG, sum_RG, state, state[0])

    def advance(
        self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R P"], state: CellState, fed_back_RE: Tensor
    ) -> CellState:
        """Apply the reset gate, multiply, and mix the old state and the candidate."""
        reset, update = torch.sigmoid(sum_RG).chunk(2, dim=1)
        candidate = tanh(x_RG[:, len(self.weight_h) :] + F.linear(reset * fed_back_RE, self.weight_n))
        return (torch.lerp(candidate, state[0], update),)
