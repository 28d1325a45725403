"""What a recurrent decoder starts from."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from heedful.errors import UserError
from heedful.models.recurrent.encoder import RecurrentMemory, summary
from heedful.nn.layers.linear import Linear
from heedful.nn.recurrent.cell_gradients import tanh
from heedful.nn.recurrent.cells import RecurrentState
from heedful.packed import Packed


class Bridge(nn.Module):
    """s_0 = tanh(W v + b), one map for all layers of the decoder      Bahdanau et al. 2015, A.2.2

    An LSTM's c has a map of its own, c_0 = W' v + b': unlike h it is not bounded, so nothing squashes it.
    """

    def __init__(self, input_width: int, width: int, layers: int, cell: bool = False) -> None:
        super().__init__()
        self.width = width
        self.hidden = Linear(input_width, layers * width)
        self.cell = Linear(input_width, layers * width) if cell else None

    def forward(self, v_BC: Float[Tensor, "B C"]) -> RecurrentState:
        """From one vector a sentence to the states of all layers."""
        hidden = self._layers(tanh(self.hidden(v_BC)))
        return RecurrentState(hidden, None if self.cell is None else self._layers(self.cell(v_BC)))

    def _layers(self, x_BX: Tensor) -> Tensor:
        return x_BX.unflatten(1, (-1, self.width)).transpose(0, 1)


class InitialState(nn.Module, ABC):
    """Makes the decoder's first state of a memory."""

    @abstractmethod
    def forward(self, memory: Packed) -> RecurrentState:
        """The state of each sentence before its first token."""


class Bridged(InitialState):
    """By a bridge from a memory's summary: the encoder's last state, of its last layer, or the mean of its vectors.

    Bahdanau et al. take the backward direction's last state alone.
    """

    def __init__(self, bridge: Bridge) -> None:
        super().__init__()
        self.bridge = bridge

    def forward(self, memory: Packed) -> RecurrentState:
        """Through the bridge."""
        state: RecurrentState = self.bridge(summary(memory))
        return state


class Handed(InitialState):
    """The encoder's last state itself, layer by layer      Sutskever et al. 2014, 2"""

    def __init__(self, width: int, layers: int, cell: bool) -> None:
        super().__init__()
        self.width, self.layers, self.cell = width, layers, cell

    def forward(self, memory: Packed) -> RecurrentState:
        """As it is."""
        if not isinstance(memory, RecurrentMemory) or self._shape(memory.last) != (self.layers, self.width, self.cell):
            raise UserError(
                "The decoder starts from the encoder's last state as it is, but this encoder has none of "
                f"{self.layers} x {self.width} in one direction: leave `bidirectional = false` out of the decoder's "
                "table, and it starts from a map of what there is."
            )
        return memory.last

    @staticmethod
    def _shape(state: RecurrentState) -> tuple[int, int, bool]:
        layers, _, width = state.hidden.shape
        return layers, width, state.cell is not None
