"""What a Transformer's decoder remembers between two steps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
import torch.nn.functional as F
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
    apart: bool = False  # whether its sentences must begin together, so that no others join them

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

    @property
    def joins_in_place(self) -> bool:
        """Caches are copied."""
        return False

    def join(self, other: object) -> "TransformerState | None":
        """Return the state of both: sentences end at the same position of the cache, wherever they began."""
        if not isinstance(other, TransformerState) or self.apart:
            return None
        if self.watched is not None or other.watched is not None:
            return None
        first, second = self._described()._trimmed(), other._described()._trimmed()
        position = max(first.position, second.position)
        sides = [one._moved_to(position) for one in (first, second)]
        first, second = sides
        memory, keep = _joined_memories(first, second)
        counts_R = None
        if first.counts_R is not None and second.counts_R is not None:
            counts_R = torch.cat([first.counts_R, second.counts_R])
        return replace(
            first,
            cache=torch.cat([one.cache for one in sides], dim=2),
            descent=torch.cat([one.descent for one in sides]),
            starts_B=torch.cat([one._starts() for one in sides]),
            memory=memory,
            keep=keep,
            counts_R=counts_R,
            attention_RL=None,
        )

    def _starts(self) -> Int[Tensor, "B"]:
        if self.starts_B is not None:
            return self.starts_B
        return torch.zeros(self.descent.shape[0], dtype=torch.int64, device=self.descent.device)

    def _described(self) -> "TransformerState":
        """Say of single rows too what they descend from, which is not noted while they all began together."""
        if self.beams == 1 and self.starts_B is None:
            self.descent[:, :, : self.position] = True
        return self

    def _trimmed(self) -> "TransformerState":
        """Leave out the positions of the cache before all sentences."""
        before = 0 if self.starts_B is None else int(self.starts_B.min())
        return self._moved_to(self.position - before)

    def _moved_to(self, position: int) -> "TransformerState":
        """Return the same state with its sentences ending at another position, and little room after it."""
        more, room = position - self.position, ROOM - (self.descent.shape[2] - self.position)
        if not more and not room:
            return self
        return replace(
            self,
            position=position,
            cache=F.pad(self.cache, (0, 0, more * self.beams, room * self.beams)),
            descent=F.pad(self.descent, (0, 0, more, room)),
            starts_B=self._starts() + more,
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


def _joined_memories(
    first: TransformerState, second: TransformerState
) -> tuple[Float[Tensor, "layers 2 B H L D"] | None, Bool[Tensor, "B 1 1 L"] | None]:
    """Return the memories of both, with what tells their tokens from what fills them up."""
    if first.memory is None or second.memory is None:
        return None, None
    length = max(first.memory.shape[4], second.memory.shape[4])
    memories, keeps = [], []
    for one, memory in ((first, first.memory), (second, second.memory)):
        more = length - memory.shape[4]
        whole_B11L = torch.ones(memory.shape[2], 1, 1, memory.shape[4], dtype=torch.bool, device=memory.device)
        memories.append(F.pad(memory, (0, 0, 0, more)))
        keeps.append(F.pad(whole_B11L if one.keep is None else one.keep, (0, more)))
    return torch.cat(memories, dim=2), torch.cat(keeps)
