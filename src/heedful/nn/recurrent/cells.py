"""One step of a recurrent network, the loop over all steps, and the state between them.

    h(t) = f(x(t), h(t-1))

A cell uses the tensors of torch.nn.RNN, LSTM and GRU: the matrices of all gates stacked in rows, [gates * E, I] for
inputs (`weight_ih_l0`) and [gates * E, E] for states (`weight_hh_l0`), in the order of the class's `gates`. Vectors are
rows, so W x of the papers is x W^T here. The library has two biases; only their sum matters, except in the candidate of
a GRU.

Shape letters of this file: I  input width    G  width of all gates    S  layers * directions
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.nn.layers.dropout import Dropout
from heedful.nn.recurrent.cell_gradients import gru_update, tanh
from heedful.nn.recurrent.step_products import StepProducts

CellState = tuple[Tensor, ...]  # state of one layer in one direction, [R, E] each: h, or h and c for an LSTM
Watch = Callable[[int, Tensor], None]  # called with each step and its h


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """The state of a stack: h of every layer and direction, and c for an LSTM.

    The first axis is ordered as in torch: by layer, then the forward direction first.
    """

    hidden: Float[Tensor, "S R E"]
    cell: Float[Tensor, "S R E"] | None = None

    @classmethod
    def zeros(cls, like: Tensor, layers: int, rows: int, width: int, cell: bool = False) -> "RecurrentState":
        """Return the state before the first step, with the dtype and device of `like`; directions count as layers."""
        hidden = like.new_zeros(layers, rows, width)
        return cls(hidden, torch.zeros_like(hidden) if cell else None)

    @classmethod
    def of(cls, parts: Sequence[Float[Tensor, "S R E"]]) -> "RecurrentState":
        """Make a state from its parts: h, or h and c."""
        return cls(*parts)

    @property
    def parts(self) -> CellState:
        """h, or h and c, each [S, R, E]."""
        return (self.hidden,) if self.cell is None else (self.hidden, self.cell)

    def select(self, rows_A: Int[Tensor, "A"]) -> "RecurrentState":
        """Return the states of these rows, in this order; rows may repeat."""
        return self.of([part.index_select(1, rows_A) for part in self.parts])

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "RecurrentState":
        """Continue row k of each sentence from the row parents[k] of that sentence."""
        sentences, beams = parents_BK.shape
        first = torch.arange(0, sentences * beams, beams, device=parents_BK.device).unsqueeze(1)
        return self.select((first + parents_BK).flatten())

    def detach(self) -> "RecurrentState":
        """Return the same values without their history, to truncate back-propagation through time."""
        return self.of([part.detach() for part in self.parts])

    def to(self, dtype: torch.dtype) -> "RecurrentState":
        """Return the same state in another dtype."""
        return self.of([part.to(dtype) for part in self.parts])

    def restart(self, fresh_R: Bool[Tensor, "R"]) -> "RecurrentState":
        """Return the state on the device of `fresh`, with zeros for the rows that are fresh."""
        # Filled, not multiplied: values that are not finite must not survive.
        fresh_R1 = fresh_R.unsqueeze(1)
        return self.of([part.to(fresh_R.device).masked_fill(fresh_R1, 0) for part in self.parts])

    def top(self, directions: int = 1) -> Float[Tensor, "R O"]:
        """Return h of the last layer, with both directions concatenated. Each has read the whole sentence."""
        return self.hidden[-directions:].transpose(0, 1).flatten(1)


# --- cells ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Cell(ABC):
    """One layer in one direction: x W_x^T + b depends on the input only, h W_h^T is added to it at every step."""

    weight_x: Float[Tensor, "G I"]
    weight_h: Float[Tensor, "_G E"]  # G rows, or fewer where a gate has a product of its own
    bias: Float[Tensor, "G"]

    gates: ClassVar[tuple[str, ...]] = ("hidden",)

    @classmethod
    def of(
        cls,
        weight_x: Float[Tensor, "G I"],
        weight_h: Float[Tensor, "G E"],
        bias_x: Float[Tensor, "G"],
        bias_h: Float[Tensor, "G"],
    ) -> "Cell":
        """Make a cell from torch's four tensors."""
        return cls(weight_x, weight_h, bias_x + bias_h)

    def step(
        self, x_RI: Float[Tensor, "R I"], state: CellState, mask_RE: Float[Tensor, "R E"] | None = None
    ) -> CellState:
        """Take one step per row; the first part of the new state is the output. `mask` is for recurrent dropout."""
        x_RG, fed_back_RE = self.project(x_RI), self.recurrent_input(state, mask_RE)
        sum_RG = torch.addmm(self.addend(x_RG), fed_back_RE, self.weight_h.t())
        return self.advance(x_RG, sum_RG, state, fed_back_RE)

    def project(self, x_NI: Float[Tensor, "N I"]) -> Float[Tensor, "N G"]:
        """Return x W_x^T + b: it does not depend on the state, so that one product serves all steps."""
        return F.linear(x_NI, self.weight_x, self.bias)

    def addend(self, x_NG: Float[Tensor, "N G"]) -> Float[Tensor, "N G"]:
        """Return what the product with the state is added to."""
        return x_NG

    def recurrent_input(self, state: CellState, mask_RE: Float[Tensor, "R E"] | None) -> Float[Tensor, "R E"]:
        """Return what is multiplied by W_h: h of the previous step."""
        return state[0] if mask_RE is None else state[0] * mask_RE

    def products(self, sizes: Sequence[int]) -> StepProducts:
        """Return the products with the state, for inputs that are not known before the step."""
        return StepProducts(self.weight_h, sizes)

    def combine(self, x_RG: Float[Tensor, "R G"], product_RG: Float[Tensor, "R G"]) -> Float[Tensor, "R G"]:
        """Return the sum that `update` needs, from the projected input and such a product."""
        return x_RG + product_RG

    @abstractmethod
    def update(self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R G"], state: CellState) -> CellState:
        """Return the new state, from the projected input, its sum with the product, and the old state."""

    def advance(
        self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R _G"], state: CellState, fed_back_RE: Tensor
    ) -> CellState:
        """Return the new state; `fed_back` is what was multiplied by W_h, for cells that have a second product."""
        return self.update(x_RG, sum_RG, state)


class TanhCell(Cell):
    """h(t) = tanh(W_x x(t) + W_h h(t-1) + b)      Elman 1990"""

    def update(self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R G"], state: CellState) -> CellState:
        """Apply tanh."""
        return (tanh(sum_RG),)


class ReluCell(Cell):
    """h(t) = max(0, W_x x(t) + W_h h(t-1) + b)      Le et al. 2015"""

    def update(self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R G"], state: CellState) -> CellState:
        """Apply the ReLU."""
        return (torch.relu(sum_RG),)


class LSTMCell(Cell):
    """A memory c with gates      Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000

    I, F, O = sigmoid(W x(t) + U h(t-1) + b), each with its own W, U and b
    candidate = tanh(W_c x(t) + U_c h(t-1) + b_c)
    c(t) = F * c(t-1) + I * candidate
    h(t) = O * tanh(c(t))
    """

    gates: ClassVar[tuple[str, ...]] = ("input", "forget", "candidate", "output")

    def update(self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R G"], state: CellState) -> CellState:
        """Forget, write to and read from the memory."""
        i, f, candidate, o = sum_RG.chunk(4, dim=1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * tanh(candidate)
        return torch.sigmoid(o) * tanh(c), c


@dataclass(frozen=True, eq=False)
class GRUCell(Cell):
    """A gate between the old state and a candidate      Cho et al. 2014

    R, Z = sigmoid(W x(t) + U h(t-1) + b), each with its own W, U and b
    candidate = tanh(W_n x(t) + b_n + R * (U_n h(t-1) + d_n))
    h(t) = Z * h(t-1) + (1 - Z) * candidate

    The paper applies the reset gate before the product, U_n (R * h(t-1)): see `paper_gru`. Applied after it, as in
    cuDNN and torch, one product serves all gates.
    """

    bias_h: Float[Tensor, "G"]

    gates: ClassVar[tuple[str, ...]] = ("reset", "update", "candidate")

    @classmethod
    def of(
        cls,
        weight_x: Float[Tensor, "G I"],
        weight_h: Float[Tensor, "G E"],
        bias_x: Float[Tensor, "G"],
        bias_h: Float[Tensor, "G"],
    ) -> "GRUCell":
        """Make a cell from torch's four tensors, with separate biases."""
        return cls(weight_x, weight_h, bias_x, bias_h)

    def addend(self, x_NG: Float[Tensor, "N G"]) -> Float[Tensor, "N G"]:
        """Return the bias of the state: the reset gate applies to the product before the input is added."""
        return self.bias_h.expand_as(x_NG)

    def products(self, sizes: Sequence[int]) -> StepProducts:
        """Return the products with the state, including its bias."""
        return StepProducts(self.weight_h, sizes, self.bias_h.expand(sum(sizes), -1))

    def combine(self, x_RG: Float[Tensor, "R G"], product_RG: Float[Tensor, "R G"]) -> Float[Tensor, "R G"]:
        """Return the product only, for the reset gate."""
        return product_RG

    def update(self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R G"], state: CellState) -> CellState:
        """Apply the reset gate, then mix the old state and the candidate."""
        return (gru_update(x_RG, sum_RG, state[0]),)


# --- all steps --------------------------------------------------------------------------------------------------------


def unroll(
    cell: Cell,
    x_NI: Float[Tensor, "N I"],
    sizes: Sequence[int],
    initial: CellState,
    backward: bool = False,
    mask_BE: Float[Tensor, "B E"] | None = None,
    watch: Watch | None = None,
) -> tuple[Float[Tensor, "N E"], CellState]:
    """Run a cell over sentences in the order of time; return the outputs and the last state of each sentence.

    `x` holds the first token of every sentence, then the second token of those that have one, and so on; sentences are
    sorted, the longest first. Step t takes the next sizes[t] rows, one for each of the first sizes[t] sentences: there
    is no padding. `backward` reads each sentence from its end.
    """
    x_NG = cell.project(x_NI)
    inputs, products = x_NG.split(list(sizes)), StepProducts(cell.weight_h, sizes, cell.addend(x_NG))
    rows = sizes[-1] if backward else sizes[0]
    state, ended, outputs = tuple(part[:rows] for part in initial), [], [x_NI] * len(sizes)
    for step in reversed(range(len(sizes))) if backward else range(len(sizes)):
        before, rows = rows, sizes[step]
        if rows < before:  # the shortest sentences have ended
            ended.append(tuple(part[rows:] for part in state))
            state = tuple(part[:rows] for part in state)
        elif rows > before:  # reading backwards: shorter sentences start
            state = tuple(torch.cat([part, first[before:rows]]) for part, first in zip(state, initial, strict=True))
        fed_back = cell.recurrent_input(state, None if mask_BE is None else mask_BE[:rows])
        state = cell.advance(inputs[step], products(step, fed_back), state, fed_back)
        outputs[step] = state[0]
        if watch is not None:
            watch(step, state[0])
    last = tuple(torch.cat(pieces) for pieces in zip(state, *reversed(ended), strict=False)) if ended else state
    return torch.cat(outputs), last


# --- stacks of cells --------------------------------------------------------------------------------------------------


@runtime_checkable
class StackDropout(Protocol):
    """Where a stack applies dropout."""

    def inputs(
        self, layer: int, x_NI: Float[Tensor, "N I"], rows_N: Int[Tensor, "N"] | None, first: int = 0
    ) -> Float[Tensor, "N I"]:
        """Drop from the inputs of a layer, or from some of their components, starting with `first`.

        `rows` is the row of each input, if they are not one per row, in order, starting with the first row.
        """

    def hidden(self, layer: int, direction: int) -> Float[Tensor, "R E"] | None:
        """Return the mask of the states that a layer feeds back."""


@dataclass(frozen=True)
class StackShares:
    """The shares of what a stack drops in training."""

    between: float = 0.0  # of the inputs of every layer but the first
    inputs: float = 0.0  # of the inputs of the first layer; only with masks that are the same at every step
    states: float = 0.0  # of the states that a layer feeds back; likewise
    weights: float = 0.0  # of the recurrent matrices

    @classmethod
    def all(cls, share: float) -> "StackShares":
        """Drop the same share of all values, and no weights."""
        return cls(share, share, share)

    @property
    def of_values(self) -> bool:
        """Whether any values are dropped."""
        return max(self.between, self.inputs, self.states) > 0


@dataclass(frozen=True, eq=False)
class DropoutBetweenLayers:
    """Dropout between layers, drawn again at every step      Zaremba et al. 2014"""

    drop: Dropout

    def inputs(
        self, layer: int, x_NI: Float[Tensor, "N I"], rows_N: Int[Tensor, "N"] | None, first: int = 0
    ) -> Float[Tensor, "N I"]:
        """Drop from the inputs of every layer but the first."""
        return self.drop(x_NI) if layer else x_NI

    def hidden(self, layer: int, direction: int) -> None:
        """Return None: states that are fed back are not dropped."""


@dataclass(frozen=True, eq=False)
class VariationalDropout:
    """One mask per row for the inputs of each layer, and one for the states it feeds back, the same at every step.

    Gal and Ghahramani 2016, with one mask for all gates ("tied weights" there). The outputs of the last layer are not
    dropped here.
    """

    input_masks: tuple[Float[Tensor, "R _I"], ...]  # per layer
    hidden_masks: tuple[tuple[Float[Tensor, "R _E"] | None, ...], ...]  # per layer and direction

    @classmethod
    def draw(
        cls,
        shares: StackShares,
        input_widths: Sequence[int],
        widths: Sequence[int],
        directions: int,
        like: Float[Tensor, "*any"],
        rows: int,
    ) -> "VariationalDropout":
        """Draw masks for layers of these widths, in the dtype and on the device of `like`."""
        first, between, states = Dropout(shares.inputs), Dropout(shares.between), Dropout(shares.states)
        with torch.no_grad():
            return cls(
                tuple(
                    (between if layer else first)(like.new_ones(rows, width))
                    for layer, width in enumerate(input_widths)
                ),
                tuple(
                    tuple(states(like.new_ones(rows, width)) if shares.states else None for _ in range(directions))
                    for width in widths
                ),
            )

    def inputs(
        self, layer: int, x_NI: Float[Tensor, "N I"], rows_N: Int[Tensor, "N"] | None, first: int = 0
    ) -> Float[Tensor, "N I"]:
        """Drop from the inputs of every layer."""
        mask = self.input_masks[layer][:, first : first + x_NI.shape[1]]
        return x_NI * (mask[: len(x_NI)] if rows_N is None else mask.index_select(0, rows_N))

    def hidden(self, layer: int, direction: int) -> Float[Tensor, "R _E"] | None:
        """Return the mask of the states that a layer feeds back."""
        return self.hidden_masks[layer][direction]


@dataclass(frozen=True, eq=False)
class StackedCells:
    """The cells of a stack, with weights in one dtype, and its dropout: for loops that do more than the stack."""

    layers: tuple[tuple[Cell, ...], ...]  # per layer and direction
    drops: StackDropout

    def step(self, x_RI: Float[Tensor, "R I"], state: RecurrentState) -> tuple[Float[Tensor, "R E"], RecurrentState]:
        """Take one step per row through all layers. The output has the dtype of x, the state that of the weights."""
        if len(self.layers[0]) > 1:
            raise ValueError("a bidirectional stack cannot take one step: its second direction starts at the end")
        y, dtype = x_RI.to(self.layers[0][0].weight_x.dtype), x_RI.dtype
        state, lasts = state.to(y.dtype), []
        for layer, (cell,) in enumerate(self.layers):
            y = self.drops.inputs(layer, y, None)
            before = tuple(part[layer, :, : cell.weight_h.shape[1]] for part in state.parts)
            lasts.append(cell.step(y, before, self.drops.hidden(layer, 0)))
            y = lasts[-1][0]
        width = state.hidden.shape[2]
        joined = [torch.stack([widen(part, width) for part in parts]) for parts in zip(*lasts, strict=True)]
        return y.to(dtype), RecurrentState.of(joined)


def widen(x: Float[Tensor, "*any _E"], width: int) -> Float[Tensor, "*any _W"]:
    """Fill the last axis up with zeros to a width, which it may have already."""
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))
