"""Memory that plans run in: buffers of rows, kept by each thread for its next call."""

import threading
from typing import Final

import torch
from torch import Tensor

from heedful.native.int8 import Rows
from heedful.native.library import BUFFERS, Frame
from heedful.native.plan import OUT, Plan

_LOCAL: Final = threading.local()
_MOST: Final = 1 << 28  # bytes that a thread keeps for one plan


class Workspace:
    """The buffers of one plan for a number of rows, all but X and OUT, which belong to the caller."""

    def __init__(self, plan: Plan, rows: int, bound: int) -> None:
        self.strides = tuple(plan.stride(buffer) for buffer in range(BUFFERS))
        self.product, self.rows, self.bound = plan.product, rows, bound
        # Zeros, since columns that fill up a width are read and never written.
        self._buffers = [
            torch.zeros(rows, stride) if stride and buffer not in (0, OUT) else None
            for buffer, stride in enumerate(self.strides)
        ]
        self._quantized = Rows(rows, plan.product)
        self._scratch(bound)

    def _scratch(self, bound: int) -> None:
        threads = torch.get_num_threads()
        self.bound, self.threads = bound, threads
        self._scores = torch.empty(threads, -(-bound // 16) * 16)
        self._places = torch.empty(threads, bound, dtype=torch.int32)

    def frame(self, rows: int, bound: int, x: Tensor, out: Tensor | None = None) -> Frame:
        """Return a frame over the first rows of these buffers; `bound` is the greatest number of rows attended to."""
        if self.bound < bound or self.threads < torch.get_num_threads():
            self._scratch(max(bound, 2 * self.bound if self.bound < bound else self.bound))
        frame = Frame(rows=rows, beams=1, bound=self.bound)
        self._quantized.give_to(frame)
        frame.scores, frame.places = self._scores.data_ptr(), self._places.data_ptr()
        for buffer in range(BUFFERS):
            given = x if buffer == 0 else out if buffer == OUT else self._buffers[buffer]
            if given is not None:
                frame.buffer[buffer], frame.stride[buffer] = given.data_ptr(), self.strides[buffer]
        return frame


def workspace(plan: Plan, rows: int, bound: int) -> Workspace:
    """Return buffers of this thread for a plan: those of an earlier call, if they fit."""
    kept: dict[tuple[int, ...], Workspace] = _LOCAL.__dict__.setdefault("kept", {})
    key = plan.layout
    found = kept.get(key)
    if found is None or found.rows < rows:
        found = Workspace(plan, rows, bound)
        size = 4 * rows * sum(plan.widths)
        if size <= _MOST:
            kept[key] = found
    return found
