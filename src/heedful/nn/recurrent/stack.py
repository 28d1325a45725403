"""Recurrent stacks over packed sentences: vanilla RNN, LSTM and GRU, in one direction or two.

This file alone converts packed sentences to the order of time, both for torch's functions and for our own cells.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.evaluation_mode import PerThread
from heedful.nn.layers.dropout import Dropout
from heedful.nn.recurrent.cells import (
    Cell,
    CellState,
    DropoutBetweenLayers,
    GRUCell,
    LSTMCell,
    RecurrentState,
    ReluCell,
    StackDropout,
    StackedCells,
    StackShares,
    TanhCell,
    VariationalDropout,
    Watch,
    unroll,
    widen,
)
from heedful.nn.recurrent.paper_gru import PaperGRUCell

CellKind = Literal["rnn_tanh", "rnn_relu", "lstm", "gru", "gru_paper"]

# cuDNN copies weights that are not contiguous in memory, and warns. Ours are separate tensors, for checkpoints and
# optimizers, and are converted to the dtype of the values anyway.
warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk of memory")


@dataclass(frozen=True)
class _Kind:
    """A kind of recurrent network: torch's module, which holds the weights, torch's function, and our own cell."""

    module: Callable[..., nn.RNNBase]
    library: Callable[..., tuple[Tensor, ...]] | None  # None: torch has none
    cell: type[Cell]


KINDS: Final[Mapping[str, _Kind]] = {
    "rnn_tanh": _Kind(partial(nn.RNN, nonlinearity="tanh"), torch.rnn_tanh, TanhCell),
    "rnn_relu": _Kind(partial(nn.RNN, nonlinearity="relu"), torch.rnn_relu, ReluCell),
    "lstm": _Kind(nn.LSTM, torch.lstm, LSTMCell),
    "gru": _Kind(nn.GRU, torch.gru, GRUCell),
    "gru_paper": _Kind(nn.GRU, None, PaperGRUCell),
}


# --- the order of time ------------------------------------------------------------------------------------------------


class _Arrange(torch.autograd.Function):
    """y[i] = x[index[i]] for a permutation; the gradient uses the inverse permutation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.inverse = inverse
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0].index_select(0, ctx.inverse), None, None


def permute_rows(
    x_NE: Float[Tensor, "N E"], index: Int[Tensor, "N"], inverse: Int[Tensor, "N"]
) -> Float[Tensor, "N E"]:
    """Return x[index] for a permutation whose inverse is known, so that the gradient needs no sums."""
    moved: Tensor = _Arrange.apply(x_NE, index, inverse)  # type: ignore[no-untyped-call]
    return moved


@dataclass(frozen=True, eq=False)
class TimeMajor:
    """Packed tokens in the order of time: all first tokens, then the second tokens, and so on.

    Within a step the longest sentences come first, as in torch's PackedSequence. Sentences without tokens come last,
    and are not part of any step.
    """

    longest_first: Int[Tensor, "B"]  # the sentences in order
    ranks: Int[Tensor, "B"]  # the index of each sentence in that order
    sizes: Int[Tensor, "T"]  # sentences in each step; on the CPU, where torch needs them
    places: Int[Tensor, "N"]  # index in the order of time, by packed index
    tokens: Int[Tensor, "N"]  # packed index, by index in the order of time

    @classmethod
    def of(cls, layout: Layout) -> "TimeMajor":
        """Compute the order of a layout by index arithmetic.

        Waits for the device once, for the sizes, unless all sentences are as long as the bound.
        """
        if layout.even and layout.tokens:
            return cls._of_rectangle(layout.sentences, layout.bound, layout.positions.device)
        ranks = (longest_first := layout.lengths.argsort(descending=True, stable=True)).argsort()
        sizes = layout.keep.sum(0)
        starts = sizes.cumsum(0) - sizes
        sentences = layout.scatter // layout.bound
        places = starts[layout.positions] + ranks[sentences]
        tokens = torch.empty_like(places)
        tokens[places] = torch.arange(layout.tokens, device=places.device)
        known = sizes.cpu()
        return cls(longest_first, ranks, known[known > 0], places, tokens)

    @classmethod
    def _of_rectangle(cls, rows: int, steps: int, device: torch.device) -> "TimeMajor":
        """Return the order of sentences of one length."""
        order, all_tokens = torch.arange(rows, device=device), torch.arange(rows * steps, device=device)
        places, tokens = (all_tokens.view(shape).t().flatten() for shape in ((steps, rows), (rows, steps)))
        return cls(order, order, torch.full((steps,), rows), places, tokens)

    @property
    def rows(self) -> int:
        """The number of sentences with at least one token."""
        return int(self.sizes[0])

    @property
    def even(self) -> bool:
        """Whether all of these sentences have the same length."""
        return self.rows == int(self.sizes[-1])

    @cached_property
    def rows_N(self) -> Int[Tensor, "N"]:
        """The row of each token in the order of time: the rank of its sentence."""
        if self.even:
            return torch.arange(self.rows, device=self.places.device).repeat(len(self.sizes))
        return torch.cat([torch.arange(size) for size in self.sizes.tolist()]).to(self.places.device)

    def padded(self, x_NE: Float[Tensor, "N E"]) -> Float[Tensor, "B T E"]:
        """Return one row per sentence, the longest first, padded with zeros, from the order of time. No gradients."""
        sentences, steps = len(self.ranks), len(self.sizes)
        if self.even and self.rows == sentences:
            return x_NE.unflatten(0, (steps, sentences)).transpose(0, 1)
        padded = x_NE.new_zeros(sentences * steps, x_NE.shape[1])
        padded.index_copy_(0, self._padded_places, x_NE)
        return padded.unflatten(0, (sentences, steps))

    @cached_property
    def _padded_places(self) -> Int[Tensor, "N"]:
        steps_N = torch.repeat_interleave(torch.arange(len(self.sizes)), self.sizes).to(self.places.device)
        return self.rows_N * len(self.sizes) + steps_N

    def arrange(self, x_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
        """Convert from the packed order to the order of time."""
        return permute_rows(x_NE, self.tokens, self.places)

    def restore(self, y_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
        """Convert from the order of time to the packed order."""
        return permute_rows(y_NE, self.places, self.tokens)


# --- stacks -----------------------------------------------------------------------------------------------------------


class RecurrentStack(nn.Module):
    """Layers of one kind, each over the outputs of the one below; with two directions, over both concatenated.

    h(t) = f(x(t), h(t-1)),  h'(t) = f'(x(t), h'(t+1)),  y(t) = [h(t); h'(t)]      Schuster and Paliwal 1997

    `dropout` applies between layers; if it is `variational`, it applies to the inputs of every layer and to the states
    it feeds back, with masks that are the same at every step (see `cells.VariationalDropout`). `StackShares` give each
    of these a share of its own, and one to the recurrent matrices. The last layer may have another width: states are as
    wide as the widest layer, and zero where a layer is narrower.

    Values are computed and returned in the dtype of x. Where 16 bits are slow (float16 on a CPU) or would require a
    copy of the weights at every call (cuDNN), the computation and the state are in float32.
    """

    def __init__(
        self,
        kind: CellKind,
        input_width: int,
        width: int,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float | StackShares = 0.0,
        variational: bool = False,
        last_width: int | None = None,
    ) -> None:
        super().__init__()
        widths = (*[width] * (layers - 1), last_width or width)
        self.kind, self.width, self.widths, self.variational = kind, max(widths), widths, variational
        self.directions = 2 if bidirectional else 1
        self.output_width = self.directions * widths[-1]
        read = (input_width, *(self.directions * each for each in widths))  # the width of each layer's inputs
        self.layers = nn.ModuleList(
            KINDS[kind].module(inputs, own, bidirectional=bidirectional)
            for inputs, own in zip(read, widths, strict=False)
        )
        self.shares = dropout if isinstance(dropout, StackShares) else StackShares.all(dropout)
        self.drop, self.drop_weights = Dropout(self.shares.between), Dropout(self.shares.weights)
        self.watch: Callable[[int, int], Watch | None] | None = None  # see `gradient_norms.GradientNorms`
        self.shown = PerThread[Callable[[StackedCells], None]]()  # called with the cells of each sequence of steps
        self.stepping = PerThread[bool]()  # threads for which steps are taken one by one

    def forward(
        self, x_NI: Float[Tensor, "N I"], layout: Layout, initial: RecurrentState | None = None
    ) -> tuple[Float[Tensor, "N O"], RecurrentState]:
        """Return the output of the last layer for each token, and the last state of each sentence.

        The last state of the backward direction is the one at the first token. Sentences without tokens keep their
        initial state.
        """
        initial = (initial or self.start(layout.sentences, x_NI)).to(_inner_type(x_NI))
        if not layout.tokens:
            return x_NI.new_zeros(0, self.output_width), initial
        time = TimeMajor.of(layout)
        run = self._by_steps if self._needs_steps(time) else self._by_library
        y_NO, last = run(time.arrange(x_NI.to(initial.hidden.dtype)), time, initial.select(time.longest_first))
        return time.restore(y_NO).to(x_NI.dtype), last.select(time.ranks)

    def start(self, rows: int, like: Float[Tensor, "*any"]) -> RecurrentState:
        """Return the state of zeros before the first step, for inputs like this."""
        layers = len(self.layers) * self.directions
        inner = like.new_empty(0, dtype=_inner_type(like))
        return RecurrentState.zeros(inner, layers, rows, self.width, cell=self.kind == "lstm")

    def cells(self, rows: int, like: Float[Tensor, "*any"]) -> StackedCells:
        """Return the cells of the stack, for steps of this number of rows, with inputs like this.

        Call it once per sequence of steps: it converts the weights and draws the variational masks.
        """
        make, dtype = KINDS[self.kind].cell.of, _inner_type(like)
        layers = tuple(tuple(make(*some) for some in self._weights(layer, dtype)) for layer in self.layers)
        made = StackedCells(layers, self._drops(rows, like.new_empty(0, dtype=dtype)))
        for show in self.shown.here():
            show(made)
        return made

    def _weights(self, layer: nn.Module, dtype: torch.dtype) -> list[tuple[Tensor, ...]]:
        """Return the weights of each direction of a layer, some of the recurrent ones dropped.

        Wan et al. 2013 drop weights; Merity et al. 2018 those of h(t-1), with one mask for all steps.
        """
        return [
            (weight_x.to(dtype), self.drop_weights(weight_h.to(dtype)), *(bias.to(dtype) for bias in biases))
            for weight_x, weight_h, *biases in cast(nn.RNNBase, layer).all_weights
        ]

    def _drops(self, rows: int, like: Tensor) -> StackDropout:
        if not self._draws_masks:
            return DropoutBetweenLayers(self.drop)
        inputs = [cast(nn.RNNBase, layer).input_size for layer in self.layers]
        return VariationalDropout.draw(self.shares, inputs, self.widths, self.directions, like, rows)

    def step(self, x_RI: Float[Tensor, "R I"], state: RecurrentState) -> tuple[Float[Tensor, "R E"], RecurrentState]:
        """Take one step per row: return what `forward` returns for the next token of each sentence."""
        return self.cells_without_masks(x_RI).step(x_RI, state)

    def cells_without_masks(self, like: Float[Tensor, "*any"]) -> StackedCells:
        """Return the cells of the stack, for steps of any number of rows: they have no masks per row."""
        if self._draws_masks or (self.training and self.shares.weights > 0):
            raise ValueError(
                "a single step would draw its own variational masks: call `cells` once, and take steps with the result"
            )
        return self.cells(0, like)

    @property
    def _draws_masks(self) -> bool:
        return self.variational and self.training and self.shares.of_values

    def _needs_steps(self, time: TimeMajor) -> bool:
        """Return whether to use our own cells: for what torch's functions cannot do, or do slowly.

        On a CPU their backward pass over sentences of different lengths takes time quadratic in the steps: our cells
        are 1.3 to 3 times as fast at 30 and 120 steps. For equal lengths, or without gradients, they are not faster.
        """
        slow = time.places.device.type == "cpu" and torch.is_grad_enabled() and not time.even
        alone, watched = KINDS[self.kind].library is None, self.watch is not None or bool(self.stepping.here())
        return alone or (self._draws_masks and self.shares.states > 0) or watched or slow

    def _by_library(
        self, x_NI: Float[Tensor, "N I"], time: TimeMajor, initial: RecurrentState
    ) -> tuple[Float[Tensor, "N O"], RecurrentState]:
        y, lasts, drops = x_NI, [], self._drops(time.rows, x_NI)
        rows_N = time.rows_N if self._draws_masks else None
        for layer, module in enumerate(self.layers):
            before = self._layer_state(initial, layer, time.rows)
            weights = [weight for some in self._weights(module, y.dtype) for weight in some]
            if self.training and self.shares.weights > 0 and y.is_cuda:
                weights = _next_to_each_other(weights)
            # One layer without dropout; "train" tells cuDNN to keep what a backward pass needs.
            rest = (
                before if len(before) > 1 else before[0], weights, True, 1, 0.0,
                torch.is_grad_enabled(), self.directions == 2,
            )  # fmt: skip
            y = drops.inputs(layer, y, rows_N)
            library = KINDS[self.kind].library
            assert library is not None, "steps are taken where torch has no function"
            if time.even:  # a rectangle is faster, and avoids the quadratic backward pass on a CPU
                y_TBO, *last = library(y.unflatten(0, (-1, time.rows)), *rest, False)
                y = y_TBO.flatten(0, 1)
            else:
                y, *last = library(y, time.sizes, *rest)
            lasts.append(tuple(last))
        return y, self._join_layers(lasts, initial)

    def _by_steps(
        self, x_NI: Float[Tensor, "N I"], time: TimeMajor, initial: RecurrentState
    ) -> tuple[Float[Tensor, "N O"], RecurrentState]:
        stacked, sizes = self.cells(time.rows, x_NI), time.sizes.tolist()
        y, lasts = x_NI, []
        for layer, cells in enumerate(stacked.layers):
            y = stacked.drops.inputs(layer, y, time.rows_N)
            before = self._layer_state(initial, layer, time.rows)
            ran = [
                unroll(
                    cell, y, sizes, tuple(part[direction] for part in before),
                    backward=direction == 1,
                    mask_BE=stacked.drops.hidden(layer, direction),
                    watch=self.watch and self.watch(layer, direction),
                )
                for direction, cell in enumerate(cells)
            ]  # fmt: skip
            y = torch.cat([output for output, _ in ran], dim=1)
            lasts.append(tuple(torch.stack(parts) for parts in zip(*(last for _, last in ran), strict=True)))
        return y, self._join_layers(lasts, initial)

    def _layer_state(self, state: RecurrentState, layer: int, rows: int) -> CellState:
        """Return the state of one layer, for sentences with tokens, [directions, rows, E]."""
        first = layer * self.directions
        own = self.widths[layer]
        return tuple(part[first : first + self.directions, :rows, :own].contiguous() for part in state.parts)

    def _join_layers(self, lasts: list[CellState], initial: RecurrentState) -> RecurrentState:
        """Join the last states of all layers, followed by the initial states of sentences without tokens."""
        ran = [torch.cat([widen(part, self.width) for part in parts]) for parts in zip(*lasts, strict=True)]
        return RecurrentState.of(
            [torch.cat([last, part[:, last.shape[1] :]], dim=1) for last, part in zip(ran, initial.parts, strict=True)]
        )


def _inner_type(x: Tensor) -> torch.dtype:
    """Return the dtype of the computation: that of x, but float32 where 16 bits are slow or not supported."""
    if x.dtype == torch.float16 or (x.dtype == torch.bfloat16 and x.device.type != "cpu"):
        return torch.float32
    return x.dtype


def _next_to_each_other(weights: Sequence[Tensor]) -> list[Tensor]:
    """Return the weights in one piece of memory, matrices first, as cuDNN needs them: it would copy them, and warn."""
    order = sorted(range(len(weights)), key=lambda place: -weights[place].ndim)  # stable
    flat = torch.cat([weights[place].flatten() for place in order])
    parts = dict(zip(order, flat.split([weights[place].numel() for place in order]), strict=True))
    return [parts[place].view_as(weight) for place, weight in enumerate(weights)]


@torch.no_grad()
def init_recurrent(stack: RecurrentStack, forget_bias: float = 1.0) -> None:
    """Initialize the input matrix of each gate uniformly, its recurrent matrix as orthogonal, and biases to zero.

    Glorot and Bengio 2010; Saxe et al. 2014: repeated multiplication with an orthogonal matrix neither shrinks nor
    stretches a vector. Forget gates of an LSTM start at sigmoid(1) = 0.73 instead of 0.5, so that gradients survive
    more than a few steps: this is free, and makes LSTMs as good as GRUs (Jozefowicz et al. 2015). A `forget_bias` of 0
    turns it off.
    """
    gates = KINDS[stack.kind].cell.gates
    for layer in stack.layers:
        for weight_x, weight_h, bias_x, bias_h in cast(nn.RNNBase, layer).all_weights:
            for of_input, of_state in zip(weight_x.chunk(len(gates)), weight_h.chunk(len(gates)), strict=True):
                nn.init.xavier_uniform_(of_input)
                nn.init.orthogonal_(of_state)
            bias_x.zero_()
            bias_h.zero_()
            if "forget" in gates:
                bias_x.chunk(len(gates))[gates.index("forget")].fill_(forget_bias)
