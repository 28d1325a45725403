"""What a decoder remembers in buffers that never move, so that a step can be recorded once and replayed.

Each of S slots decodes one sentence, with K rows, at its own position: a finished sentence makes room for another while
the others continue.

Shape letters of this file: S  slots    P  positions that a slot has room for    M  packed tokens of all memories
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import Layout, Packed


@dataclass(frozen=True, eq=False)
class Slots:
    """The buffers of a Transformer's decoder.

    Keys and values of row k stay where they were written when rows are reordered; `ancestors` says for every position
    which row wrote what row k has there. Without a memory its buffers are empty.
    """

    cache: Float[Tensor, "layers 2 S P K H D"]
    ancestors_SKP: Int[Tensor, "S K P"]
    positions_S: Int[Tensor, "S"]
    memory: Float[Tensor, "layers M 2 H D"]  # each slot has a region of its own
    starts_S: Int[Tensor, "S"]  # of each slot's region
    lengths_S: Int[Tensor, "S"]  # tokens of the memory in it; 0 before the first
    counts_SPK: Int[Tensor, "S P K"] | None = None  # words of each row at each position, where the decoder counts them

    @classmethod
    def empty(
        cls,
        shape: "SlotShape",
        layers: int,
        heads: int,
        width: int,
        dtype: torch.dtype,
        device: torch.device,
        counted: bool = False,
    ) -> "Slots":
        """Return buffers of idle slots; `width` is that of a head."""
        sizes = (shape.slots, shape.room, shape.beams)
        each = torch.zeros(shape.slots, dtype=torch.int32, device=device)
        regions = torch.arange(shape.slots, dtype=torch.int32, device=device) * shape.memory
        memories = shape.slots * shape.memory
        return cls(
            torch.zeros((layers, 2, shape.slots, shape.room, shape.beams, heads, width), dtype=dtype, device=device),
            torch.zeros((shape.slots, shape.beams, shape.room), dtype=torch.int32, device=device),
            each,
            torch.zeros((layers, memories, 2, heads, width), dtype=dtype, device=device),
            regions,
            each.clone(),
            torch.zeros(sizes, dtype=torch.int64, device=device) if counted else None,
        )

    @property
    def positions_R(self) -> Int[Tensor, "R"]:
        """The position of each row."""
        return self.positions_S.unsqueeze(1).expand(-1, self.ancestors_SKP.shape[1]).flatten()

    @property
    def room(self) -> int:
        """P: the number of positions of a slot."""
        return self.ancestors_SKP.shape[2]

    def remember(
        self, projected: Float[Tensor, "layers M 2 H D"], places_N: Int[Tensor, "N"], slots: Tensor, lengths: Tensor
    ) -> None:
        """Put the keys and values of sentences into the regions of their slots; tokens go to these places of all."""
        self.memory.index_copy_(1, places_N, projected[:, : len(places_N)])
        self.lengths_S[slots] = lengths.to(self.lengths_S.dtype)

    def write_counts(self, ends_R: Int[Tensor, "R"]) -> Int[Tensor, "R"]:
        """Add the words that end with each row's next token to those before it; return them."""
        assert self.counts_SPK is not None
        slots_S = torch.arange(len(self.positions_S), device=ends_R.device)
        here_S = self.positions_S.long().clamp(max=self.room - 1)
        last_S = (here_S - 1).clamp(min=0)
        parents_SK = self.ancestors_SKP[slots_S, :, last_S].long()
        before_SK = self.counts_SPK[slots_S, last_S].gather(1, parents_SK) * (here_S > 0).unsqueeze(1)
        counts_SK = before_SK + ends_R.unflatten(0, before_SK.shape)
        self.counts_SPK[slots_S, here_S] = counts_SK
        return counts_SK.flatten()

    def write_prompts(self, read: Float[Tensor, "layers 2 N H D"], layout: Layout, slots: Int[Tensor, "A"]) -> None:
        """Put the keys and values of prompts into these slots; all rows descend from what the first would write."""
        slot_N = slots.repeat_interleave(layout.lengths, output_size=layout.tokens)
        self.cache[:, :, slot_N, layout.positions, 0] = read
        self.ancestors_SKP[slots] = 0
        self.positions_S[slots] = layout.lengths.to(self.positions_S.dtype)


@dataclass(frozen=True)
class SlotShape:
    """The size of the buffers."""

    slots: int
    beams: int
    room: int  # positions
    memory: int = 0  # tokens of the region that a slot has for its memory


@runtime_checkable
class SlotDecoder(Protocol):
    """A decoder that can decode in slots; others are stepped with a `State`."""

    @property
    def decodes_in_slots(self) -> bool:
        """Whether this one can, as it is built."""

    @property
    def head_bytes(self) -> int:
        """The size of the vector that one head has for a token."""

    def slots(self, shape: SlotShape) -> Slots:
        """Make buffers of this shape, with all slots idle."""

    def project(self, memory: Packed) -> Float[Tensor, "layers N 2 H D"]:
        """Return the keys and values of a memory, for `Slots.remember`."""

    def slot_bytes(self, shape: SlotShape) -> int:
        """Return the size of the buffers of one slot."""

    def read_prompts(self, prompt: Packed, slots: Slots, indices: Int[Tensor, "A"]) -> None:
        """Read the prompts of sentences that start in these slots, for a decoder without memory."""

    def step_slots(self, tokens_R: Int[Tensor, "R"], slots: Slots) -> Float[Tensor, "R V"]:
        """Take one more token per row, and write it to the buffers; return the scores of the next.

        Positions and ancestors stay: whoever chooses the next tokens advances them.
        """
