"""A recurrent encoder, and the memory it leaves to a decoder."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.nn.layers.embedding import Embedding
from heedful.nn.padding import pad
from heedful.nn.recurrent.cells import RecurrentState
from heedful.nn.recurrent.stack import RecurrentStack, permute_rows
from heedful.packed import Layout, Packed


@dataclass(frozen=True, eq=False)
class RecurrentMemory(Packed):
    """A vector a token, and the state that the encoder ended with: a decoder may start from it."""

    last: RecurrentState = field(kw_only=True)

    def to(self, device: torch.device, non_blocking: bool = False) -> "RecurrentMemory":
        """Copy to a device."""
        last = RecurrentState.of([part.to(device, non_blocking=non_blocking) for part in self.last.parts])
        plain = super().to(device, non_blocking)
        return RecurrentMemory(plain.values, plain.layout, plain.segments, last=last)


class RecurrentEncoder(nn.Module):
    """Embedding, and a stack over it, most often in both directions      Bahdanau et al. 2015, 3.2

    `reverse`: each sentence is read from its end (Sutskever et al. 2014, 3.3), its `</s>` first, as the backward one
    of two directions reads it. The memory's places stay those of the source.
    """

    def __init__(self, embedding: Embedding, stack: RecurrentStack, reverse: bool = False) -> None:
        super().__init__()
        self.embedding, self.stack, self.reverse = embedding, stack, reverse

    def forward(self, source: Packed) -> RecurrentMemory:
        """Encode packed tokens."""
        layout = source.layout
        x_NE = self.embedding(source.values, layout)
        if self.reverse:
            turned = _from_the_end(layout)
            y_NO, last = self.stack(permute_rows(x_NE, turned, turned), layout)
            y_NO = permute_rows(y_NO, turned, turned)
        else:
            y_NO, last = self.stack(x_NE, layout)
        return RecurrentMemory(y_NO, layout, source.segments, last=last)


def summary(memory: Packed) -> Float[Tensor, "B E"]:
    """One vector a sentence: the encoder's last state, both directions side by side, or the mean of the memory.

    A memory without a state is that of an encoder that is not recurrent.
    """
    if isinstance(memory, RecurrentMemory):
        directions = memory.values.shape[1] // memory.last.hidden.shape[2]
        return memory.last.top(directions).to(memory.values.dtype)
    layout = memory.layout
    sums_BE = pad(memory.values, layout).masked_fill(~layout.keep.unsqueeze(2), 0).sum(1)
    return sums_BE / layout.lengths.clamp(min=1).unsqueeze(1)


def _from_the_end(layout: Layout) -> Int[Tensor, "N"]:
    """For each packed place, the place as far from its sentence's other end."""
    sentences = layout.scatter // layout.bound
    ends = (layout.offsets[:-1] + layout.offsets[1:] - 1).long()  # first place + last place
    return ends.index_select(0, sentences) - torch.arange(layout.tokens, device=ends.device)
