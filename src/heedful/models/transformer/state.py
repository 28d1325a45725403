"""What a Transformer's decoder remembers between two steps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heedful.base.packed import Layout
from heedful.models.transformer.blocks import Memory, Past

ROOM: Final = 16  # positions by which a full cache grows


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Keys and values of what was decoded, and of the memory, once per sentence: its K rows share both.

    What was decoded is never moved when rows are reordered. The keys of all K rows stay where they were written,
    position by position, and `descent` says which of them each row descends from.

    Sentences that were started with prompts of different lengths end at the same position of the cache, not at its
    start: distances between tokens are then those of a sentence by itself.
    """

    position: int  # in the cache
    cache: Float[Tensor, "layers 2 B H S D"]  # S = room * K
    descent: Bool[Tensor, "B K room K2"]
    memory: Float[Tensor, "layers 2 B H L D"] | None
    keep: Bool[Tensor, "B 1 1 L"] | None
    starts_B: Int[Tensor, "B"] | None = None  # positions in the cache before each sentence; None if there are none
    watched: int | None = None  # the layer whose weights over the memory are kept
    attention_RL: Float[Tensor, "R L"] | None = None  # those of the last step
    counts_R: Int[Tensor, "R"] | None = None  # words of each row, where the decoder counts them

    @classmethod
    def empty(
        cls,
        cache: Float[Tensor, "layers 2 B H 0 D"],
        beams: int,
        memory: Float[Tensor, "layers 2 B H L D"] | None,
        keep: Bool[Tensor, "B 1 1 L"] | None,
        watched: int | None,
        room: int = 0,
    ) -> "TransformerState":
        """Start K rows per sentence, with place for a prompt of `room` positions; `cache` gives all other sizes."""
        layers, _, sentences, heads, _, width = cache.shape
        room = room + ROOM
        descent = torch.zeros(sentences, beams, room, beams, dtype=torch.bool, device=cache.device)
        return cls(
            0, cache.new_zeros(layers, 2, sentences, heads, room * beams, width), descent, memory, keep, None, watched
        )

    @property
    def beams(self) -> int:
        """K: rows of each sentence."""
        return self.descent.shape[1]

    def write_prompt(self, read: Float[Tensor, "layers 2 N H D"], layout: Layout) -> "TransformerState":
        """Put the keys and values of a prompt into the cache of an empty state."""
        length = layout.bound
        if layout.tokens == 0:
            return self
        starts_B = length - layout.lengths
        places_L = torch.arange(length, device=starts_B.device)
        there_BL = places_L >= starts_B.unsqueeze(1)
        tokens_BL = (layout.offsets[:-1, None] + places_L - starts_B.unsqueeze(1)).clamp(min=0).long()
        prompt = read[:, :, tokens_BL.flatten()].unflatten(2, tokens_BL.shape)  # [layers, 2, B, L, H, D]
        # All rows of a sentence descend from what its first row would have written.
        self.cache[..., : length * self.beams : self.beams, :] = prompt.transpose(3, 4)
        self.descent[:, :, :length, 0] = there_BL.unsqueeze(1)
        return replace(self, position=length, starts_B=None if layout.even else starts_B)

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "TransformerState":
        """Let row k of a sentence continue that sentence's row parents[k]."""
        sentences = torch.arange(parents_BK.shape[0], device=parents_BK.device).unsqueeze(1)
        return replace(
            self,
            descent=self.descent[sentences, parents_BK],
            attention_RL=self._rows(self.attention_RL, lambda weights_BKL: weights_BKL[sentences, parents_BK]),
            counts_R=self._rows(self.counts_R, lambda counts_BK: counts_BK[sentences, parents_BK]),
        )

    def narrow(self, sentences: Int[Tensor, "A"]) -> "TransformerState":
        """Keep only these sentences, with all their rows."""
        return replace(
            self,
            cache=self.cache.index_select(2, sentences),
            descent=self.descent.index_select(0, sentences),
            memory=None if self.memory is None else self.memory.index_select(2, sentences),
            keep=None if self.keep is None else self.keep.index_select(0, sentences),
            starts_B=None if self.starts_B is None else self.starts_B.index_select(0, sentences),
            attention_RL=self._rows(self.attention_RL, lambda weights_BKL: weights_BKL.index_select(0, sentences)),
            counts_R=self._rows(self.counts_R, lambda counts_BK: counts_BK.index_select(0, sentences)),
        )

    def _rows(self, values: Tensor | None, choose: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Return the values of chosen rows, if there are any."""
        return None if values is None else choose(values.unflatten(0, (-1, self.beams))).flatten(0, 1)

    def with_room(self) -> "TransformerState":
        """Return the same state with place for one more position."""
        sentences, beams, room, _ = self.descent.shape
        if self.position < room:
            return self
        more_cache = self.cache.new_zeros(*self.cache.shape[:4], ROOM * beams, self.cache.shape[5])
        more_descent = self.descent.new_zeros(sentences, beams, ROOM, beams)
        return replace(
            self,
            cache=torch.cat([self.cache, more_cache], dim=4),
            descent=torch.cat([self.descent, more_descent], dim=2),
        )

    def positions_R(self) -> Int[Tensor, "R"] | None:
        """Return the position of each row in its sentence; None if it is that in the cache for all."""
        if self.starts_B is None:
            return None
        return (self.position - self.starts_B).repeat_interleave(
            self.beams, output_size=self.descent.shape[0] * self.beams
        )

    def past(self) -> list[Past]:
        """Return for each layer what the rows attend to, themselves included."""
        cache, visible = self.cache[..., : (self.position + 1) * self.beams, :], self._visible()
        return [(cache[layer], visible, self.starts_B) for layer in range(len(cache))]

    def memories(self) -> list[Memory | None]:
        """Return the memory of each layer, if there is one."""
        if self.memory is None:
            return [None] * len(self.cache)
        return [(memory, self.keep) for memory in self.memory]

    def _visible(self) -> Bool[Tensor, "B 1 K S"] | None:
        """Return what each row attends to; None if that is everything."""
        if self.beams == 1 and self.starts_B is None:
            return None
        self.descent[:, :, self.position] = torch.eye(self.beams, dtype=torch.bool, device=self.descent.device)
        return self.descent[:, :, : self.position + 1].flatten(2).unsqueeze(1)
