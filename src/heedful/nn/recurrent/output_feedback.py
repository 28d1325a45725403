"""Ways to wire a recurrent network over time: what is fed back, and what is read.

hidden to hidden      h(t) = f(U x(t) + W h(t-1) + b), o(t) = g(V h(t) + c)     `RecurrentStack`, then a linear map
output to hidden      h(t) = f(U x(t) + W o(t-1) + b)                           `OutputToHidden`, `OutputFeedbackStack`
teacher forced        h(t) = f(U x(t) + W y(t-1) + b), y the targets            `TeacherForced`
single output         o = g(V h(T) + c), at the end of a sentence               `per_sentence.last_state`, linear map
vector to sequence    h(t) = f(h(t-1), [y(t-1); v]), one v for all steps        `models.recurrent.wirings.Repeated`

Goodfellow, Bengio and Courville 2016, figures 10.3 to 10.6 and 10.9.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.layers.linear import Linear
from heedful.nn.recurrent.cells import Cell, CellState, RecurrentState, unroll
from heedful.nn.recurrent.stack import TimeMajor

Elementwise = Callable[[Tensor], Tensor]


def identity(x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Return x."""
    return x


def one_hot_argmax(scores_RV: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """Return 1 for the best score of a row and 0 for the others: the feedback for one-hot targets."""
    return F.one_hot(scores_RV.argmax(dim=1), scores_RV.shape[1]).to(scores_RV.dtype)


@dataclass(frozen=True, eq=False)
class _OutputCell(Cell):
    """The cell of `OutputToHidden`: its state is not h but the last output, and the feedback from it."""

    weight_out: Float[Tensor, "O G"]
    bias_out: Float[Tensor, "O"]
    activation: Elementwise
    output: Elementwise
    feedback: Elementwise

    def recurrent_input(self, state: CellState, mask_RE: Float[Tensor, "R E"] | None) -> Float[Tensor, "R E"]:
        return super().recurrent_input(state[1:], mask_RE)

    def update(self, x_RG: Float[Tensor, "R G"], sum_RG: Float[Tensor, "R G"], state: CellState) -> CellState:
        o_RO = self.output(F.linear(self.activation(sum_RG), self.weight_out, self.bias_out))
        return o_RO, self.feedback(o_RO)


class OutputToHidden(nn.Module):
    """h(t) = f(U x(t) + W r(o(t-1)) + b),  o(t) = g(V h(t) + c)      Jordan 1986

    f is the `activation`, g the `output` function, and r the `feedback` from an output: the output itself, or a choice
    made from it; zeros before the first step. The past is known only through the outputs.
    """

    def __init__(
        self,
        input_width: int,
        width: int,
        output_width: int,
        activation: Elementwise = torch.tanh,
        output: Elementwise = identity,
        feedback: Elementwise = identity,
    ) -> None:
        super().__init__()
        self.activation, self.output, self.feedback = activation, output, feedback
        self.from_input = Linear(input_width, width)
        self.from_output = Linear(output_width, width, bias=False)
        self.to_output = Linear(width, output_width)

    def forward(self, x_NI: Float[Tensor, "N I"], layout: Layout) -> Float[Tensor, "N O"]:
        """Return the output for each token, computed step by step."""
        return self.read(x_NI, layout, self.start(layout.sentences, x_NI))[0]

    def read(
        self, x_NI: Float[Tensor, "N I"], layout: Layout, fed_back_BO: Float[Tensor, "B O"]
    ) -> tuple[Float[Tensor, "N O"], Float[Tensor, "B O"]]:
        """Return the output for each token, given the feedback for the first one, and the feedback after the last."""
        if not layout.tokens:
            return x_NI.new_zeros(0, self.output_width), fed_back_BO
        time = TimeMajor.of(layout)
        first_BO = fed_back_BO.index_select(0, time.longest_first)
        first_RO = first_BO[: time.rows]
        o_NO, (_, last_RO) = unroll(self._cell(x_NI), time.arrange(x_NI), time.sizes.tolist(), (first_RO, first_RO))
        last_BO = torch.cat([last_RO, first_BO[time.rows :]])
        return time.restore(o_NO), last_BO.index_select(0, time.ranks)

    def step(
        self, x_RI: Float[Tensor, "R I"], fed_back_RO: Float[Tensor, "R O"]
    ) -> tuple[Float[Tensor, "R O"], Float[Tensor, "R O"]]:
        """Return the output for one token per row, and the feedback for the next step."""
        o_RO, next_RO = self._cell(x_RI).step(x_RI, (fed_back_RO, fed_back_RO))
        return o_RO, next_RO

    @property
    def output_width(self) -> int:
        """Width of outputs."""
        return self.to_output.out_features

    def start(self, rows: int, like: Float[Tensor, "*any"]) -> Float[Tensor, "R O"]:
        """Return the feedback for the first step: zeros, with the dtype and device of `like`."""
        return like.new_zeros(rows, self.output_width)

    def _cell(self, like: Tensor) -> _OutputCell:
        dtype = like.dtype
        return _OutputCell(
            weight_x=self.from_input.weight.to(dtype),
            weight_h=self.from_output.weight.to(dtype),
            bias=self.from_input.bias.to(dtype),
            weight_out=self.to_output.weight.to(dtype),
            bias_out=self.to_output.bias.to(dtype),
            activation=self.activation,
            output=self.output,
            feedback=self.feedback,
        )


class OutputFeedbackStack(nn.Module):
    """`OutputToHidden` in the form of a `RecurrentStack`: its state is the last output, which it feeds back."""

    directions = 1

    def __init__(self, input_width: int, width: int, output_width: int, activation: Elementwise = torch.tanh) -> None:
        super().__init__()
        self.output_width = output_width
        self.cell = OutputToHidden(input_width, width, output_width, activation)

    def forward(
        self, x_NI: Float[Tensor, "N I"], layout: Layout, initial: RecurrentState | None = None
    ) -> tuple[Float[Tensor, "N O"], RecurrentState]:
        """Return the output for each token, and the last one of each sentence."""
        before = (initial or self.start(layout.sentences, x_NI)).to(x_NI.dtype)
        o_NO, last_BO = self.cell.read(x_NI, layout, before.hidden[0])
        return o_NO, RecurrentState(last_BO.unsqueeze(0))

    def start(self, rows: int, like: Float[Tensor, "*any"]) -> RecurrentState:
        """Return the state of zeros before the first step, for inputs like this."""
        return RecurrentState.zeros(like, 1, rows, self.output_width)

    def step(self, x_RI: Float[Tensor, "R I"], state: RecurrentState) -> tuple[Float[Tensor, "R O"], RecurrentState]:
        """Take one step per row."""
        o_RO, fed_back_RO = self.cell.step(x_RI, state.hidden[0].to(x_RI.dtype))
        return o_RO, RecurrentState(fed_back_RO.unsqueeze(0))

    def cells_without_masks(self, like: Float[Tensor, "*any"]) -> "OutputFeedbackStack":
        """Return what takes steps: the stack itself, which draws no masks."""
        return self


class TeacherForced(OutputToHidden):
    """`OutputToHidden` trained with the targets as feedback: h(t) = f(U x(t) + W y(t-1) + b)      Williams, Zipser 1989

    Targets have the form of the feedback: one-hot vectors if the feedback is the one-hot of the best score. With known
    targets all steps are computed at once, and gradients do not flow through time.
    """

    def forward(
        self, x_NI: Float[Tensor, "N I"], layout: Layout, targets_NO: Float[Tensor, "N O"] | None = None
    ) -> Float[Tensor, "N O"]:
        """Return the output for each token, with the previous target as feedback, or the model's own output without."""
        if targets_NO is None:
            return super().forward(x_NI, layout)
        first_N1 = (layout.positions == 0).unsqueeze(1)
        before_NO = targets_NO.roll(1, dims=0).masked_fill(first_N1, 0)
        h_NE = self.activation(self.from_input(x_NI) + self.from_output(before_NO))
        return self.output(self.to_output(h_NE))
