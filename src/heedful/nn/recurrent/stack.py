"""Recurrent stacks over packed sentences: vanilla, LSTM and GRU, in one direction or two.

The one place where packed sentences are put into the order of time, for torch's library and for cells of our own.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Final, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

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
    TanhCell,
    VariationalDropout,
    Watch,
    unroll,
)
from heedful.packed import Layout

CellKind = Literal["rnn_tanh", "rnn_relu", "lstm", "gru"]

# A GPU's library copies weights that do not stand in one piece, and says so. Ours stand one by one, as checkpoints and
# optimizers have them, and are copied into the type of the values anyway.
warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk of memory")


@dataclass(frozen=True)
class _Kind:
    """A recurrent network: the library's module, which keeps the weights, its function, and a cell of our own."""

    module: Callable[..., nn.RNNBase]
    library: Callable[..., tuple[Tensor, ...]]
    cell: type[Cell]


KINDS: Final[Mapping[str, _Kind]] = {
    "rnn_tanh": _Kind(partial(nn.RNN, nonlinearity="tanh"), torch.rnn_tanh, TanhCell),
    "rnn_relu": _Kind(partial(nn.RNN, nonlinearity="relu"), torch.rnn_relu, ReluCell),
    "lstm": _Kind(nn.LSTM, torch.lstm, LSTMCell),
    "gru": _Kind(nn.GRU, torch.gru, GRUCell),
}


# --- the order of time ------------------------------------------------------------------------------------------------


class _Arrange(torch.autograd.Function):
    """y[i] = x[index[i]] for a permutation; the gradient goes back by the inverse one."""

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
    """x[index], for a permutation whose inverse is known: the gradient needs no sums."""
    moved: Tensor = _Arrange.apply(x_NE, index, inverse)  # type: ignore[no-untyped-call]
    return moved


@dataclass(frozen=True, eq=False)
class TimeMajor:
    """Packed tokens in the order of time: all first tokens, then the second of sentences that have one, and so on.

    Within a step the longest sentences come first, as in torch's PackedSequence. Sentences without a token come last
    and take part in no step.
    """

    longest_first: Int[Tensor, "B"]  # the sentences in order
    ranks: Int[Tensor, "B"]  # where each sentence stands in that order
    sizes: Int[Tensor, "T"]  # sentences in each step; on the CPU, where the library wants them
    places: Int[Tensor, "N"]  # of each packed token
    tokens: Int[Tensor, "N"]  # the packed token of each place

    @classmethod
    def of(cls, layout: Layout) -> "TimeMajor":
        """By index arithmetic on the offsets. Waits for the device once, for the sizes."""
        ranks = (longest_first := layout.lengths.argsort(descending=True, stable=True)).argsort()
        sizes = layout.keep.sum(0)
        starts = sizes.cumsum(0) - sizes
        sentences = layout.scatter // layout.bound
        places = starts[layout.positions] + ranks[sentences]
        tokens = torch.empty_like(places)
        tokens[places] = torch.arange(layout.tokens, device=places.device)
        known = sizes.cpu()
        return cls(longest_first, ranks, known[known > 0], places, tokens)

    @property
    def rows(self) -> int:
        """Sentences with a token."""
        return int(self.sizes[0])

    @property
    def even(self) -> bool:
        """Whether all of them are equally long."""
        return self.rows == int(self.sizes[-1])

    @cached_property
    def rows_N(self) -> Int[Tensor, "N"]:
        """The row of each place: the rank of its sentence."""
        return torch.cat([torch.arange(size) for size in self.sizes.tolist()]).to(self.places.device)

    def padded(self, x_NE: Float[Tensor, "N E"]) -> Float[Tensor, "B T E"]:
        """From the order of time to a row a sentence, the longest first, with zeros behind its end. No gradients."""
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
        """From the packed order to that of time."""
        return permute_rows(x_NE, self.tokens, self.places)

    def restore(self, y_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
        """From the order of time to the packed one."""
        return permute_rows(y_NE, self.places, self.tokens)


# --- stacks -----------------------------------------------------------------------------------------------------------


class RecurrentStack(nn.Module):
    """Layers of one kind, each over the outputs of the one below; in two directions, over both side by side.

    h(t) = f(x(t), h(t-1)),  h'(t) = f'(x(t), h'(t+1)),  y(t) = [h(t); h'(t)]      Schuster and Paliwal 1997

    `dropout` is of what one layer hands to the next; where it is `variational`, of every layer's inputs and of what it
    feeds back, with masks that stay the same over time (see `cells.VariationalDropout`).

    Values are computed in the type of x, and leave in it. Where 16 bits are slow (float16 on a CPU) or would have the
    weights copied at every call (cuDNN), it is float32 inside, and in the state.
    """

    def __init__(
        self,
        kind: CellKind,
        input_width: int,
        width: int,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        variational: bool = False,
    ) -> None:
        super().__init__()
        self.kind, self.width, self.variational = kind, width, variational
        self.directions = 2 if bidirectional else 1
        self.output_width = self.directions * width
        self.layers = nn.ModuleList(
            KINDS[kind].module(self.output_width if layer else input_width, width, bidirectional=bidirectional)
            for layer in range(layers)
        )
        self.drop = Dropout(dropout)
        self.watch: Callable[[int, int], Watch | None] | None = None  # see `GradientNorms`

    def forward(
        self, x_NI: Float[Tensor, "N I"], layout: Layout, initial: RecurrentState | None = None
    ) -> tuple[Float[Tensor, "N O"], RecurrentState]:
        """The last layer's output for each token, and each sentence's state at its own end.

        That of the backward direction is the one at the sentence's beginning. A sentence without a token keeps its
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
        """The state of zeros before the first step of inputs like this."""
        layers = len(self.layers) * self.directions
        inner = like.new_empty(0, dtype=_inner_type(like))
        return RecurrentState.zeros(inner, layers, rows, self.width, cell=self.kind == "lstm")

    def cells(self, rows: int, like: Float[Tensor, "*any"]) -> StackedCells:
        """The stack's cells, for steps of so many rows of inputs like this.

        Ask once for a sequence of steps: the weights are converted once, and variational masks drawn once.
        """
        make = KINDS[self.kind].cell.of
        dtype = _inner_type(like)
        layers = tuple(
            tuple(make(*(weight.to(dtype) for weight in weights)) for weights in cast(nn.RNNBase, layer).all_weights)
            for layer in self.layers
        )
        drops: StackDropout = DropoutBetweenLayers(self.drop)
        if self._draws_masks:
            drops = VariationalDropout.draw(self.drop.share, layers, rows)
        return StackedCells(layers, drops)

    def step(self, x_RI: Float[Tensor, "R I"], state: RecurrentState) -> tuple[Float[Tensor, "R E"], RecurrentState]:
        """Take one step a row: what `forward` gives for the next token of each sentence."""
        return self.cells_without_masks(x_RI).step(x_RI, state)

    def cells_without_masks(self, like: Float[Tensor, "*any"]) -> StackedCells:
        """The stack's cells, for steps of any rows: they have no masks of certain rows."""
        if self._draws_masks:
            raise ValueError(
                "a step by itself would draw variational masks of its own: ask for `cells` once, and step them"
            )
        return self.cells(0, like)

    @property
    def _draws_masks(self) -> bool:
        return self.variational and self.training and self.drop.share > 0

    def _needs_steps(self, time: TimeMajor) -> bool:
        """Whether cells of our own compute: what the library cannot, and what it is slow at.

        On a CPU its backward pass over uneven sentences takes time quadratic in the steps: ours is 1.3 to 3 times as
        fast at 30 steps and at 120. Over even ones, and without gradients, it is as fast as ours or faster.
        """
        slow = time.places.device.type == "cpu" and torch.is_grad_enabled() and not time.even
        return self._draws_masks or self.watch is not None or slow

    def _by_library(
        self, x_NI: Float[Tensor, "N I"], time: TimeMajor, initial: RecurrentState
    ) -> tuple[Float[Tensor, "N O"], RecurrentState]:
        y, lasts = x_NI, []
        for layer, module in enumerate(self.layers):
            before = self._layer_state(initial, layer, time.rows)
            weights = [weight.to(y.dtype) for some in cast(nn.RNNBase, module).all_weights for weight in some]
            # One layer, no dropout; "train" is whether cuDNN keeps what a backward pass needs.
            rest = (
                before if len(before) > 1 else before[0], weights, True, 1, 0.0,
                torch.is_grad_enabled(), self.directions == 2,
            )  # fmt: skip
            y = self.drop(y) if layer else y
            library = KINDS[self.kind].library
            if time.even:  # a rectangle: faster, and on a CPU without the quadratic backward pass
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
        """What a layer starts from: the sentences with a token, [directions, rows, E]."""
        first = layer * self.directions
        return tuple(part[first : first + self.directions, :rows].contiguous() for part in state.parts)

    @staticmethod
    def _join_layers(lasts: list[CellState], initial: RecurrentState) -> RecurrentState:
        """All layers' last states, and behind them the initial ones of sentences without a token."""
        ran = [torch.cat(parts) for parts in zip(*lasts, strict=True)]
        return RecurrentState.of(
            [torch.cat([last, part[:, last.shape[1] :]], dim=1) for last, part in zip(ran, initial.parts, strict=True)]
        )


def _inner_type(x: Tensor) -> torch.dtype:
    """The type that recurrence computes in: that of x, but float32 where 16 bits are slow or not to be had."""
    if x.dtype == torch.float16 or (x.dtype == torch.bfloat16 and x.device.type != "cpu"):
        return torch.float32
    return x.dtype


@torch.no_grad()
def init_recurrent(stack: RecurrentStack, forget_bias: float = 1.0) -> None:
    """Start each gate's input matrix uniform, its recurrent matrix orthogonal, biases at zero.

    Glorot and Bengio 2010; Saxe et al. 2014: an orthogonal matrix neither shrinks nor stretches what passes through it
    again and again. An LSTM's forget gates start at sigmoid(1) = 0.73 rather than a half, so that gradients live
    through more than a few steps: it costs nothing and makes LSTMs as good as GRUs (Jozefowicz et al. 2015). A
    `forget_bias` of 0 turns it off.
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


# --- gradients over time ----------------------------------------------------------------------------------------------


class GradientNorms:
    """The norm of dL/dh(t) at each step of one layer, to see gradients vanish or explode      Pascanu et al. 2013

        with GradientNorms(stack) as norms:
            y, _ = stack(x, layout)
        loss(y).backward()
        norms.per_step()

    Inside the block the stack runs step by step. The gradient is the whole one, by the output of step t and by all
    later steps; the norm is over all sentences that have a token there. Only the last run is kept.
    """

    def __init__(self, stack: RecurrentStack, layer: int = -1, direction: int = 0) -> None:
        self.stack = stack
        self._watched = (layer % len(stack.layers), direction)
        self._norms: dict[int, Tensor] = {}

    def __enter__(self) -> "GradientNorms":
        self.stack.watch = self._watch
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.watch = None

    def per_step(self) -> Float[Tensor, "T"]:
        """The norms after the backward pass; zero where no gradient arrived."""
        if not self._norms:
            raise ValueError("no step was watched: run the stack inside the `with` block")
        return torch.stack([self._norms[step] for step in sorted(self._norms)])

    def _watch(self, layer: int, direction: int) -> Watch | None:
        if (layer, direction) != self._watched:
            return None
        self._norms = {}
        return self._note

    def _note(self, step: int, h_RE: Tensor) -> None:
        norms = self._norms  # this run's, should a later run come before the backward pass
        norms[step] = h_RE.new_zeros(())
        if h_RE.requires_grad:
            h_RE.register_hook(lambda gradient: norms.__setitem__(step, gradient.detach().norm()))
