"""A loop over the cells of a stack in the order of time, with inputs that are not known before each step.

Inputs that are known before the first step are multiplied with the weights for all steps at once.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from heedful.nn.recurrent.cells import CellState, RecurrentState, StackedCells
from heedful.nn.recurrent.stack import TimeMajor
from heedful.nn.recurrent.step_products import StepProducts


class LoopedCells:
    """The steps of a stack whose first layer reads x(t) = [given(t); fed(t)], where only given(t) is known in advance.

    `initial` has the sentences in the order of time. Step t takes one row for each of the first sizes[t] sentences.
    """

    def __init__(
        self, cells: StackedCells, given_NI: Float[Tensor, "N I"], time: TimeMajor, initial: RecurrentState
    ) -> None:
        (first,), self._known, self._drops = cells.layers[0], given_NI.shape[1], cells.drops
        self.sizes: list[int] = time.sizes.tolist()
        self._dtype = first.weight_x.dtype
        given_NI = self._drops.inputs(0, given_NI.to(self._dtype), time.rows_N)
        given_NG = F.linear(given_NI, first.weight_x[:, : self._known], first.bias)
        self._cells = [cell for (cell,) in cells.layers]
        self._inputs = [StepProducts(first.weight_x[:, self._known :], self.sizes, given_NG)]
        for cell in self._cells[1:]:
            self._inputs.append(StepProducts(cell.weight_x, self.sizes, cell.bias.expand(len(given_NI), -1)))
        self._products = [cell.products(self.sizes) for cell in self._cells]
        parts = initial.to(self._dtype).parts
        self._states: list[CellState] = [tuple(part[layer] for part in parts) for layer in range(len(self._cells))]

    def before(self, step: int) -> Float[Tensor, "R E"]:
        """Return h of the last layer before a step, for the rows that take the step."""
        self._shrink(self.sizes[step])
        return self._states[-1][0]

    def step(self, step: int, fed_RI: Float[Tensor, "R I"]) -> Float[Tensor, "R E"]:
        """Take the next step per row through all layers; return h of the last one."""
        self._shrink(self.sizes[step])
        y, first = fed_RI.to(self._dtype), self._known
        for layer, cell in enumerate(self._cells):
            x_RG = self._inputs[layer](step, self._drops.inputs(layer, y, None, first))
            mask, state = self._drops.hidden(layer, 0), self._states[layer]
            fed_back = cell.recurrent_input(state, None if mask is None else mask[: len(y)])
            product_RG = self._products[layer](step, fed_back)
            self._states[layer] = cell.advance(x_RG, cell.combine(x_RG, product_RG), state, fed_back)
            y, first = self._states[layer][0], 0
        return y

    def _shrink(self, rows: int) -> None:
        """Remove the sentences that have ended."""
        if rows < len(self._states[0][0]):
            self._states = [tuple(part[:rows] for part in parts) for parts in self._states]
