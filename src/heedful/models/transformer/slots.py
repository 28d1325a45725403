"""What a decoder remembers in buffers that never move, so that a step can be recorded once and replayed.

S slots decode a sentence each, with K rows, and each at a position of its own: a sentence that is done makes room for
another while the others go on.

Shape letters of this file: S  slots    P  positions that a slot has room for    M  packed tokens of all memories
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.packed import Packed


@dataclass(frozen=True, eq=False)
class Slots:
    """The buffers of a Transformer's decoder.

    Keys and values of row k stay where they were written when rows change places; `ancestors` says for every position
    which row wrote what row k has there.
    """

    cache: Float[Tensor, "layers 2 S P K H D"]
    ancestors_SKP: Int[Tensor, "S K P"]
    positions_S: Int[Tensor, "S"]
    memory: Float[Tensor, "layers M 2 H D"]
    starts_S: Int[Tensor, "S"]  # of each slot's memory
    lengths_S: Int[Tensor, "S"]  # 0 where a slot is idle

    @classmethod
    def empty(
        cls, shape: "SlotShape", layers: int, heads: int, width: int, dtype: torch.dtype, device: torch.device
    ) -> "Slots":
        """Buffers of idle slots; `width` is a head's."""
        each = torch.zeros(shape.slots, dtype=torch.int32, device=device)
        return cls(
            torch.zeros((layers, 2, shape.slots, shape.room, shape.beams, heads, width), dtype=dtype, device=device),
            torch.zeros((shape.slots, shape.beams, shape.room), dtype=torch.int32, device=device),
            each,
            torch.zeros((layers, shape.memory, 2, heads, width), dtype=dtype, device=device),
            each.clone(),
            each.clone(),
        )

    @property
    def positions_R(self) -> Int[Tensor, "R"]:
        """The position of each row."""
        return self.positions_S.unsqueeze(1).expand(-1, self.ancestors_SKP.shape[1]).flatten()

    @property
    def room(self) -> int:
        """P: how many positions a slot has."""
        return self.ancestors_SKP.shape[2]

    def admit(self, slots: Int[Tensor, "A"], starts: Int[Tensor, "A"], lengths: Int[Tensor, "A"]) -> None:
        """Give these slots the memories of their sentences."""
        self.starts_S[slots] = starts
        self.lengths_S[slots] = lengths


@dataclass(frozen=True)
class SlotShape:
    """How much the buffers hold."""

    slots: int
    beams: int
    room: int  # positions
    memory: int  # tokens of all memories together


@runtime_checkable
class SlotDecoder(Protocol):
    """A decoder that can decode in slots; those that cannot are stepped with a `State`."""

    @property
    def decodes_in_slots(self) -> bool:
        """Whether it can, as it is built."""
        ...

    @property
    def head_bytes(self) -> int:
        """Of the vector that one head has for a token."""
        ...

    def slots(self, shape: SlotShape) -> Slots:
        """Make buffers of this shape, all slots idle."""
        ...

    def remember(self, memory: Packed, slots: Slots) -> None:
        """Put the memories of sentences into the buffers, from the first place on."""
        ...

    def step_slots(self, tokens_R: Int[Tensor, "R"], slots: Slots) -> Float[Tensor, "R V"]:
        """Take one more token a row, and write it into the buffers; return the scores of the next.

        Positions and ancestors stay: whoever chooses the next tokens moves them on.
        """
        ...
