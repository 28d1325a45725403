"""Initial states of recurrent decoders."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.base.packed import Packed
from heedful.models.recurrent.encoder import RecurrentMemory, summary
from heedful.nn.layers.linear import Linear
from heedful.nn.recurrent.cell_gradients import tanh
from heedful.nn.recurrent.cells import RecurrentState


class Bridge(nn.Module):
    """s_0 = tanh(W v + b), one map for all layers of the decoder      Bahdanau et al. 2015, A.2.2

    The c of an LSTM has its own map, c_0 = W' v + b': unlike h it is not bounded, so there is no tanh.
    """

    def __init__(self, input_width: int, width: int, layers: int, cell: bool = False) -> None:
        super().__init__()
        self.width = width
        self.hidden = Linear(input_width, layers * width)
        self.cell = Linear(input_width, layers * width) if cell else None

    def forward(self, v_BC: Float[Tensor, "B C"]) -> RecurrentState:
        """Return the states of all layers, from one vector per sentence."""
        hidden = self._layers(tanh(self.hidden(v_BC)))
        return RecurrentState(hidden, None if self.cell is None else self._layers(self.cell(v_BC)))

    def _layers(self, x_BX: Tensor) -> Tensor:
        return x_BX.unflatten(1, (-1, self.width)).transpose(0, 1)


class InitialState(nn.Module, ABC):
    """Makes the initial state of a decoder from a memory."""

    @abstractmethod
    def forward(self, memory: Packed) -> RecurrentState:
        """Return the state of each sentence before its first token."""


class Bridged(InitialState):
    """Applies a bridge to a memory's summary: the last state of the encoder's last layer, or the mean of its vectors.

    Bahdanau et al. use the last state of the backward direction alone.
    """

    def __init__(self, bridge: Bridge) -> None:
        super().__init__()
        self.bridge = bridge

    def forward(self, memory: Packed) -> RecurrentState:
        """Apply the bridge."""
        state: RecurrentState = self.bridge(summary(memory))
        return state


class Handed(InitialState):
    """Takes the encoder's last state as it is, layer by layer      Sutskever et al. 2014, 2"""

    def __init__(self, width: int, layers: int, cell: bool) -> None:
        super().__init__()
        self.width, self.layers, self.cell = width, layers, cell

    def forward(self, memory: Packed) -> RecurrentState:
        """Return the encoder's last state, if it has the shape of the decoder's."""
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
