"""A recurrent encoder, and the memory that it makes for a decoder."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.packed import Layout, Packed
from heedful.nn.layers.embedding import Embedding
from heedful.nn.padding import pad
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.stack import RecurrentStack, permute_rows


@dataclass(frozen=True, eq=False)
class RecurrentMemory(Packed):
    """One vector per token, and the last state of the encoder, which a decoder may start from."""

    last: RecurrentState = field(kw_only=True)

    def to(self, device: torch.device, non_blocking: bool = False) -> "RecurrentMemory":
        """Copy to a device."""
        last = RecurrentState.of([part.to(device, non_blocking=non_blocking) for part in self.last.parts])
        plain = super().to(device, non_blocking)
        return RecurrentMemory(plain.values, plain.layout, plain.segments, last=last)


class RecurrentEncoder(nn.Module):
    """An embedding, and a stack over it, usually in both directions      Bahdanau et al. 2015, 3.2

    `reverse`: each sentence is read from its end (Sutskever et al. 2014, 3.3), its `</s>` first, as the backward
    direction of two reads it. The memory keeps the order of the source.
    """

    def __init__(self, embedding: Embedding, stack: RecurrentStack, reverse: bool = False) -> None:
        super().__init__()
        self.embedding, self.stack, self.reverse = embedding, stack, reverse

    def forward(self, source: Packed) -> RecurrentMemory:
        """Encode packed tokens."""
        layout = source.layout
        x_NE = self.embedding(source.values, layout, added_NE=source.added)
        if self.reverse:
            turned = _from_the_end(layout)
            y_NO, last = self.stack(permute_rows(x_NE, turned, turned), layout)
            y_NO = permute_rows(y_NO, turned, turned)
        else:
            y_NO, last = self.stack(x_NE, layout)
        return RecurrentMemory(y_NO, layout, source.segments, last=last)


def summary(memory: Packed) -> Float[Tensor, "B E"]:
    """Return one vector per sentence: the encoder's last state, both directions concatenated, or the memory's mean.

    Encoders that are not recurrent make memories without a state.
    """
    if isinstance(memory, RecurrentMemory):
        directions = memory.values.shape[1] // memory.last.hidden.shape[2]
        return memory.last.top(directions).to(memory.values.dtype)
    layout = memory.layout
    sums_BE = pad(memory.values, layout).masked_fill(~layout.keep.unsqueeze(2), 0).sum(1)
    return sums_BE / layout.lengths.clamp(min=1).unsqueeze(1)


def _from_the_end(layout: Layout) -> Int[Tensor, "N"]:
    """Return for each packed token the index of the token as far from the other end of its sentence."""
    sentences = layout.scatter // layout.bound
    ends = (layout.offsets[:-1] + layout.offsets[1:] - 1).long()  # first index + last index
    return ends.index_select(0, sentences) - torch.arange(layout.tokens, device=ends.device)
