"""How a recurrent decoder uses a memory, after four papers and a book.

    sutskever   s(t) = f(s(t-1), y(t-1)),           s(0) the encoder's last state
    vector      s(t) = f(s(t-1), y(t-1), v),        v the encoder's last state, s(0) zero
    cho         s(t) = f(s(t-1), y(t-1), c),        c from the encoder's last state
    bahdanau    s(t) = f(s(t-1), y(t-1), c(t)),     c(t) read with s(t-1)
    luong       s(t) = f(s(t-1), [y(t-1); h~(t-1)]), h~(t) from s(t) and from what is read with it

y(t-1) is the embedding of the previous token, the decoder's t-th input. Each class says what the output layer scores.
Stepping equals forward: `forward` computes the same equations for whole sentences, and does for all tokens at once
whatever does not depend on the previous step.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.models.recurrent.encoder import summary
from heedful.models.recurrent.initial_state import Bridge, InitialState
from heedful.models.recurrent.state import RecurrentRows
from heedful.nn.attention.windows import MonotoneView
from heedful.nn.layers.linear import Linear
from heedful.nn.padding import pad, unpad
from heedful.nn.per_sentence import copy_to_tokens
from heedful.nn.recurrent.attention import RecurrentAttention
from heedful.nn.recurrent.attention_steps import AttentionSteps
from heedful.nn.recurrent.cell_gradients import tanh
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.deep_output import DeepOutput
from heedful.nn.recurrent.loop import LoopedCells
from heedful.nn.recurrent.stack import RecurrentStack, TimeMajor
from heedful.nn.recurrent.step_products import StepProducts


class Wiring(nn.Module, ABC):
    """The decoder between its embedding and its output layer."""

    stack: RecurrentStack

    @property
    def windowed(self) -> bool:
        """Whether what a step reads depends on its position."""
        return any(isinstance(module, MonotoneView) for module in self.modules())

    @abstractmethod
    def forward(self, y_NE: Float[Tensor, "N E"], layout: Layout, memory: Packed) -> Float[Tensor, "N W"]:
        """Return what the output layer scores, for whole sentences."""

    @abstractmethod
    def start(self, memory: Packed, beams: int, aligned: bool) -> RecurrentRows:
        """Start K rows per sentence."""

    @abstractmethod
    def step(self, y_RE: Float[Tensor, "R E"], rows: RecurrentRows) -> tuple[Float[Tensor, "R W"], RecurrentRows]:
        """Take one more token per row; return what the output layer scores, and the new rows."""

    def read(self, y_NE: Float[Tensor, "N E"], layout: Layout, rows: RecurrentRows) -> RecurrentRows:
        """Read a prompt with one row per sentence: step by step, where a step needs what the last one read."""
        y_BLE = pad(y_NE, layout)
        for step in range(layout.bound):
            _, stepped = self.step(y_BLE[:, step], rows)
            rows = stepped if layout.even else stepped.keep_where(step < layout.lengths, rows)
        return replace(rows, attention_RL=None)

    def _read_by_stack(self, x_NI: Float[Tensor, "N I"], layout: Layout, rows: RecurrentRows) -> RecurrentRows:
        """Read a prompt at once, where no step needs what another read."""
        _, last = self.stack(x_NI, layout, rows.recurrent)
        return replace(rows, position=rows.position + layout.bound, recurrent=last)

    def _rows(self, memory: Packed, initial: RecurrentState, beams: int, aligned: bool) -> RecurrentRows:
        cells = self.stack.cells_without_masks(memory.values)
        repeated = RecurrentState.of([part.repeat_interleave(beams, dim=1) for part in initial.parts])
        return RecurrentRows(0, beams, cells, repeated, memory.layout.keep, aligned)


# --- one vector of the source -----------------------------------------------------------------------------------------


class Sutskever(Wiring):
    """s(t) = f(s(t-1), y(t-1)); s(0) is all that the decoder knows of the source      Sutskever et al. 2014, 2

    The output layer scores s(t) of the last layer.
    """

    def __init__(self, stack: RecurrentStack, first: InitialState) -> None:
        super().__init__()
        self.stack, self.first = stack, first

    def forward(self, y_NE: Float[Tensor, "N E"], layout: Layout, memory: Packed) -> Float[Tensor, "N W"]:
        """Run all steps by the stack."""
        s_NW, _ = self.stack(y_NE, layout, self.first(memory))
        return s_NW

    def start(self, memory: Packed, beams: int, aligned: bool) -> RecurrentRows:
        """Start K rows per sentence."""
        return self._rows(memory, self.first(memory), beams, aligned)

    def step(self, y_RE: Float[Tensor, "R E"], rows: RecurrentRows) -> tuple[Float[Tensor, "R W"], RecurrentRows]:
        """Run one step of the stack."""
        s_RW, recurrent = rows.cells.step(y_RE, rows.recurrent)
        return s_RW, rows.stepped(recurrent, _everywhere(rows))

    def read(self, y_NE: Float[Tensor, "N E"], layout: Layout, rows: RecurrentRows) -> RecurrentRows:
        """Read a prompt by the stack."""
        return self._read_by_stack(y_NE, layout, rows)


class Repeated(Wiring):
    """s(t) = f(s(t-1), [y(t-1); v]), s(0) = 0: one vector is an input of every step      Goodfellow et al. 2016, 10.2.4

    v is the encoder's last state or, of an image, the mean of its patches. The output layer scores s(t).
    """

    def __init__(self, stack: RecurrentStack) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, y_NE: Float[Tensor, "N E"], layout: Layout, memory: Packed) -> Float[Tensor, "N W"]:
        """Run all steps by the stack."""
        v_BC = self._vector(memory)
        s_NW, _ = self.stack(torch.cat([y_NE, copy_to_tokens(v_BC, layout)], dim=1), layout, self._start(v_BC))
        return self._read_out(s_NW, y_NE, v_BC, lambda of_sentences: copy_to_tokens(of_sentences, layout))

    def start(self, memory: Packed, beams: int, aligned: bool) -> RecurrentRows:
        """Start K rows per sentence."""
        v_BC = self._vector(memory)
        return replace(self._rows(memory, self._start(v_BC), beams, aligned), context_BC=v_BC)

    def step(self, y_RE: Float[Tensor, "R E"], rows: RecurrentRows) -> tuple[Float[Tensor, "R W"], RecurrentRows]:
        """Run one step of the stack."""
        assert rows.context_BC is not None
        v_RC = rows.context_BC.repeat_interleave(rows.beams, dim=0)
        s_RW, recurrent = rows.cells.step(torch.cat([y_RE, v_RC], dim=1), rows.recurrent)
        return self._read_out(s_RW, y_RE, v_RC, lambda of_rows: of_rows), rows.stepped(recurrent, _everywhere(rows))

    def read(self, y_NE: Float[Tensor, "N E"], layout: Layout, rows: RecurrentRows) -> RecurrentRows:
        """Read a prompt by the stack."""
        assert rows.context_BC is not None
        return self._read_by_stack(torch.cat([y_NE, copy_to_tokens(rows.context_BC, layout)], dim=1), layout, rows)

    def _vector(self, memory: Packed) -> Float[Tensor, "B C"]:
        return summary(memory)

    def _start(self, v_BC: Float[Tensor, "B C"]) -> RecurrentState:
        return self.stack.start(len(v_BC), v_BC)

    def _read_out(self, s_MW: Tensor, y_ME: Tensor, v: Tensor, spread: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what the output layer scores; `spread` copies rows of the vectors to those of the states."""
        return s_MW


class Cho(Repeated):
    """c = tanh(V h), s(0) = tanh(V' c), s(t) = f(s(t-1), y(t-1), c)      Cho et al. 2014, A.1

    h is the encoder's last state of the last layer. The output layer scores a deep output of s(t), y(t-1) and c.
    """

    def __init__(self, stack: RecurrentStack, context: Linear, first: Bridge, output: DeepOutput) -> None:
        super().__init__(stack)
        self.context, self.first, self.output = context, first, output

    def _vector(self, memory: Packed) -> Float[Tensor, "B C"]:
        return tanh(self.context(summary(memory)))

    def _start(self, v_BC: Float[Tensor, "B C"]) -> RecurrentState:
        return self.first(v_BC)

    def _read_out(self, s_MW: Tensor, y_ME: Tensor, v: Tensor, spread: Callable[[Tensor], Tensor]) -> Tensor:
        return self.output(s_MW, y_ME, spread(self.output.of_context(v)))


def _everywhere(rows: RecurrentRows) -> Float[Tensor, "R L"] | None:
    """Return the attention of a decoder that has none: equal for all tokens of the memory."""
    if not rows.aligned or rows.keep_BL is None:
        return None
    kept_BL = rows.keep_BL.to(torch.promote_types(rows.recurrent.hidden.dtype, torch.float32))
    return (kept_BL / kept_BL.sum(1, keepdim=True).clamp(min=1)).repeat_interleave(rows.beams, dim=0)


# --- attention --------------------------------------------------------------------------------------------------------


class Bahdanau(Wiring):
    """c(t) = read(s(t-1)), s(t) = f(s(t-1), [y(t-1); c(t)])      Bahdanau et al. 2015, 3.1 and A.1.2

    Queries are states of the last layer. The output layer scores a deep output of s(t), y(t-1) and c(t), after the
    paper's equation 4; its appendix writes s(t-1) there.
    """

    def __init__(
        self, stack: RecurrentStack, first: InitialState, reader: RecurrentAttention, output: DeepOutput
    ) -> None:
        super().__init__()
        self.stack, self.first, self.reader, self.output = stack, first, reader, output

    def forward(self, y_NE: Float[Tensor, "N E"], layout: Layout, memory: Packed) -> Float[Tensor, "N W"]:
        """Run one step after the other, and the deep output of all at once."""
        time = TimeMajor.of(layout)
        y_NE = time.arrange(y_NE)
        looped = _looped(self.stack, y_NE, time, self.first(memory))
        reads = AttentionSteps(self.reader, self.reader.prepare(memory, time=time), time)
        contexts, states = [], []
        for step in range(len(looped.sizes)):
            contexts.append(reads(step, looped.before(step).to(y_NE.dtype)))
            states.append(looped.step(step, contexts[-1]))
        s_NW, c_NC = torch.cat(states).to(y_NE.dtype), torch.cat(contexts)
        return time.restore(self.output(s_NW, y_NE, self.output.of_context(c_NC)))

    def start(self, memory: Packed, beams: int, aligned: bool) -> RecurrentRows:
        """Prepare the memory, and start K rows per sentence."""
        rows = self._rows(memory, self.first(memory), beams, aligned)
        return replace(rows, readable=self.reader.prepare(memory))

    def step(self, y_RE: Float[Tensor, "R E"], rows: RecurrentRows) -> tuple[Float[Tensor, "R W"], RecurrentRows]:
        """Read, then step."""
        c_RC, attention_RL = _read(self.reader, rows.recurrent.top().to(y_RE.dtype), rows)
        s_RW, recurrent = rows.cells.step(torch.cat([y_RE, c_RC], dim=1), rows.recurrent)
        return self.output(s_RW, y_RE, self.output.of_context(c_RC)), rows.stepped(recurrent, attention_RL)


class Luong(Wiring):
    """s(t) = f(s(t-1), [y(t-1); h~(t-1)]), h~(t) = tanh(W_c [c(t); s(t)]), c(t) = read(s(t))      Luong et al. 2015, 3

    Queries are states of the last layer; h~(0) is zero. The output layer scores h~(t). W_c is kept as two matrices, and
    the one for c(t) is applied to the memory once: W sum w v = sum w (W v).
    """

    def __init__(
        self, stack: RecurrentStack, first: InitialState, reader: RecurrentAttention, memory_width: int
    ) -> None:
        super().__init__()
        self.stack, self.first, self.reader = stack, first, reader
        self.from_context = Linear(memory_width, stack.width, bias=False)
        self.from_state = Linear(stack.width, stack.width, bias=False)

    def forward(self, y_NE: Float[Tensor, "N E"], layout: Layout, memory: Packed) -> Float[Tensor, "N W"]:
        """Run one step after the other."""
        time = TimeMajor.of(layout)
        y_NE = time.arrange(y_NE)
        looped = _looped(self.stack, y_NE, time, self.first(memory))
        readable = self.reader.prepare(memory, self.from_context(memory.values), time)
        reads = AttentionSteps(self.reader, readable, time)
        from_state = StepProducts(self.from_state.weight.to(y_NE.dtype), looped.sizes)
        fed_RW, vectors = y_NE.new_zeros(looped.sizes[0], self.stack.width), []
        for step, rows in enumerate(looped.sizes):
            s_RW = looped.step(step, fed_RW[:rows]).to(y_NE.dtype)
            fed_RW = tanh(reads(step, s_RW) + from_state(step, s_RW))
            vectors.append(fed_RW)
        return time.restore(torch.cat(vectors))

    def start(self, memory: Packed, beams: int, aligned: bool) -> RecurrentRows:
        """Prepare the memory, and start K rows per sentence."""
        rows = self._rows(memory, self.first(memory), beams, aligned)
        readable = self.reader.prepare(memory, self.from_context(memory.values))
        fed_RE = memory.values.new_zeros(rows.recurrent.hidden.shape[1], self.stack.width)
        return replace(rows, readable=readable, fed_RE=fed_RE)

    def step(self, y_RE: Float[Tensor, "R E"], rows: RecurrentRows) -> tuple[Float[Tensor, "R W"], RecurrentRows]:
        """Step, then read."""
        assert rows.fed_RE is not None
        return self._step(torch.cat([y_RE, rows.fed_RE], dim=1), rows)

    def _step(self, x_RI: Float[Tensor, "R I"], rows: RecurrentRows) -> tuple[Float[Tensor, "R W"], RecurrentRows]:
        s_RW, recurrent = rows.cells.step(x_RI, rows.recurrent)
        r_RW, attention_RL = _read(self.reader, s_RW, rows)
        h_RW = tanh(r_RW + self.from_state(s_RW))
        return h_RW, replace(rows.stepped(recurrent, attention_RL), fed_RE=h_RW)


class Unfed(Luong):
    """Luong without input feeding: s(t) = f(s(t-1), y(t-1)), so that no step needs what another read."""

    def forward(self, y_NE: Float[Tensor, "N E"], layout: Layout, memory: Packed) -> Float[Tensor, "N W"]:
        """Run all steps by the stack, then all reads at once."""
        s_NW, _ = self.stack(y_NE, layout, self.first(memory))
        readable = self.reader.prepare(memory, self.from_context(memory.values))
        r_BTW, _ = self.reader(pad(s_NW, layout), readable, torch.arange(layout.bound, device=s_NW.device))
        return tanh(unpad(r_BTW, layout) + self.from_state(s_NW))

    def step(self, y_RE: Float[Tensor, "R E"], rows: RecurrentRows) -> tuple[Float[Tensor, "R W"], RecurrentRows]:
        """Step, then read."""
        return self._step(y_RE, rows)

    def read(self, y_NE: Float[Tensor, "N E"], layout: Layout, rows: RecurrentRows) -> RecurrentRows:
        """Read a prompt by the stack."""
        return self._read_by_stack(y_NE, layout, rows)


def _looped(stack: RecurrentStack, y_NE: Tensor, time: TimeMajor, first: RecurrentState) -> LoopedCells:
    cells = stack.cells(time.rows, y_NE)
    return LoopedCells(cells, y_NE, time, first.select(time.longest_first[: time.rows]))


def _read(reader: RecurrentAttention, q_RE: Tensor, rows: RecurrentRows) -> tuple[Tensor, Tensor | None]:
    """Return what rows read, the K of a sentence as K queries over one memory; and each token's share, if aligned."""
    assert rows.readable is not None
    positions_K = torch.full((rows.beams,), rows.position, device=q_RE.device)
    r_BKD, weights_BKC = reader(q_RE.unflatten(0, (-1, rows.beams)), rows.readable, positions_K)
    shares = reader.shares(weights_BKC, rows.readable).flatten(0, 1) if rows.aligned else None
    return r_BKD.flatten(0, 1), shares
