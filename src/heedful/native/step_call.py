"""What every step of one search calls the kernels with: made once, so that a step sets a few numbers and calls.

Between two steps all weights pass through the caches of a core, and what Python needs next comes from memory again:
there each operation of PyTorch takes several times what it takes in a loop of its own.
"""

from collections.abc import Sequence
from typing import Any, Final

import torch
from jaxtyping import Float
from torch import Tensor

from heedful.native.decoder_plan import DecoderPlan, Memory
from heedful.native.library import CHUNK, Frame, Library
from heedful.native.memory import Workspace
from heedful.native.plan import OUT, X

Normaliser = tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"]]  # the greatest score, and log sum exp of differences
_NORMAL: Final = "normaliser_of_kernels"  # attribute of scores that a step has just made


class StepCall:
    """Operations with their addresses, and buffers for rows."""

    def __init__(self, plan: DecoderPlan, rows: int, room: int, bound: int, vocab_size: int) -> None:
        """Make buffers for so many rows; `room` is that of the cache, `bound` the most that a row attends to."""
        self._plan, self._size = plan, vocab_size
        self._space = Workspace(plan, rows, bound)
        self.vectors_RE = torch.zeros(rows, plan.stride(X))
        self._logits = torch.empty(rows, plan.stride(OUT))
        self._greatest_R1, self._log_sum_R1 = torch.empty(rows, 1), torch.empty(rows, 1)
        self._parts = torch.empty(rows, 2, -(-vocab_size // CHUNK))
        self._ops = plan.array()
        self._kept: list[Any] = plan.give_tables(self._ops, max(room, bound))

    def for_rows(self, rows: int, room: int, bound: int) -> "StepCall":
        """Return the same operations with buffers for more rows."""
        return StepCall(self._plan, rows, room, bound, self._size)

    def place(self, caches: Sequence[tuple[Tensor, Tensor]], memories: Sequence[Memory]) -> None:
        """Put the addresses of caches and memories into the operations."""
        self._plan.place(self._ops, caches, memories)

    def grow(self, caches: Sequence[tuple[Tensor, Tensor]], room: int) -> None:
        """Take larger caches."""
        self._kept = self._plan.give_tables(self._ops, room)
        self.place(caches, ())

    def frame(self, rows: int, bound: int) -> Frame:
        """Return what the operations run on."""
        frame = self._space.frame(rows, max(bound, self._space.bound), self.vectors_RE, self._logits)
        frame.greatest, frame.log_sum = self._greatest_R1.data_ptr(), self._log_sum_R1.data_ptr()
        frame.parts = self._parts.data_ptr()
        return frame

    def run(self, kernels: Library, frame: Frame) -> Float[Tensor, "R V"]:
        """Run the operations; return the scores, which the next step uses up."""
        kernels.run(self._ops, frame)
        rows = frame.rows
        scores_RV = self._logits[:rows, : self._size]
        if self._plan.normalises:
            setattr(scores_RV, _NORMAL, (self._greatest_R1[:rows], self._log_sum_R1[:rows]))
        return scores_RV


def normaliser_of(scores_RV: Float[Tensor, "R V"]) -> Normaliser | None:
    """Return the normaliser of scores that a step returned, which nothing may have changed; None of any others."""
    found: Normaliser | None = getattr(scores_RV, _NORMAL, None)
    return found
