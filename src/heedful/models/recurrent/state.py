"""What a recurrent decoder remembers between two steps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.nn.recurrent.attention import AttendedMemory
from heedful.nn.recurrent.cells import RecurrentState


@runtime_checkable
class SteppedCells(Protocol):
    """What takes a step of a recurrent network."""

    def step(self, x_RI: Float[Tensor, "R I"], state: RecurrentState) -> tuple[Float[Tensor, "R E"], RecurrentState]:
        """Take one step per row; return the output and the new state."""


@dataclass(frozen=True, eq=False)
class RecurrentRows:
    """The states of K rows for each of B sentences, and what the rows of a sentence share: its memory, if any."""

    position: int
    beams: int
    cells: SteppedCells
    recurrent: RecurrentState
    keep_BL: Bool[Tensor, "B L"] | None = None  # True where the padded memory holds a token
    aligned: bool = False
    fed_RE: Float[Tensor, "R E"] | None = None  # input of the next step besides the token
    context_BC: Float[Tensor, "B C"] | None = None  # input of every step
    readable: AttendedMemory | None = None
    attention_RL: Float[Tensor, "R L"] | None = None

    def stepped(self, recurrent: RecurrentState, attention_RL: Float[Tensor, "R L"] | None) -> "RecurrentRows":
        """Return the rows after one more step."""
        return replace(self, position=self.position + 1, recurrent=recurrent, attention_RL=attention_RL)

    def repeat(self, beams: int) -> "RecurrentRows":
        """Return K rows per sentence, all like the one that there is."""
        rows = torch.arange(self.recurrent.hidden.shape[1], device=self.recurrent.hidden.device)
        return replace(self._with_rows(rows.repeat_interleave(beams)), beams=beams)

    def keep_where(self, going_B: Bool[Tensor, "B"], other: "RecurrentRows") -> "RecurrentRows":
        """Return these rows, and those of the other state where a sentence is not going; one row per sentence."""
        going_R1 = going_B.unsqueeze(1)
        parts = zip(self.recurrent.parts, other.recurrent.parts, strict=True)
        recurrent = RecurrentState.of([torch.where(going_R1, mine, theirs) for mine, theirs in parts])
        if self.fed_RE is None or other.fed_RE is None:
            return replace(self, recurrent=recurrent)
        return replace(self, recurrent=recurrent, fed_RE=torch.where(going_R1, self.fed_RE, other.fed_RE))

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "RecurrentRows":
        """Let row k of a sentence continue that sentence's row parents[k]."""
        first_B1 = torch.arange(0, parents_BK.numel(), self.beams, device=parents_BK.device).unsqueeze(1)
        return self._with_rows((first_B1 + parents_BK).flatten())

    def narrow(self, sentences: Int[Tensor, "A"]) -> "RecurrentRows":
        """Keep only these sentences, with all their rows."""
        rows_AK = sentences.unsqueeze(1) * self.beams + torch.arange(self.beams, device=sentences.device)
        return replace(
            self._with_rows(rows_AK.flatten()),
            keep_BL=_where_any(self.keep_BL, lambda keep: keep.index_select(0, sentences)),
            context_BC=_where_any(self.context_BC, lambda context: context.index_select(0, sentences)),
            readable=None if self.readable is None else self.readable.select(sentences),
        )

    def _with_rows(self, rows: Int[Tensor, "A"]) -> "RecurrentRows":
        return replace(
            self,
            recurrent=self.recurrent.select(rows),
            fed_RE=_where_any(self.fed_RE, lambda fed: fed.index_select(0, rows)),
            attention_RL=_where_any(self.attention_RL, lambda weights: weights.index_select(0, rows)),
        )


def _where_any(tensor: Tensor | None, choose: Callable[[Tensor], Tensor]) -> Tensor | None:
    return None if tensor is None else choose(tensor)
