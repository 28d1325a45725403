"""Decoders: each keeps the protocol of `models.protocols.Decoder`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.models.transformer.blocks import DecoderBlock
from heedful.models.transformer.slots import Slots, SlotShape
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.padding import pad
from heedful.packed import Packed

_ROOM = 16  # positions by which a full cache grows


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Keys and values of what was decoded, and of the memory, once for each sentence: its K rows share both.

    What was decoded is never moved when rows change places. All K rows' keys stay where they were written, position by
    position, and `descent` says which of them each row descends from.
    """

    position: int
    cache: Float[Tensor, "layers 2 B H S D"]  # S = room * K
    descent: Bool[Tensor, "B K room K2"]
    memory: Float[Tensor, "layers 2 B H L D"]
    keep: Bool[Tensor, "B 1 1 L"] | None
    watched: int | None = None  # the layer whose weights over the memory are asked for
    attention_RL: Float[Tensor, "R L"] | None = None  # those of the last step

    @property
    def beams(self) -> int:
        """K: rows of each sentence."""
        return self.descent.shape[1]

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "TransformerState":
        """Row k of a sentence goes on from that sentence's row parents[k]."""
        sentences = torch.arange(parents_BK.shape[0], device=parents_BK.device).unsqueeze(1)
        return replace(
            self,
            descent=self.descent[sentences, parents_BK],
            attention_RL=self._attention(lambda weights_BKL: weights_BKL[sentences, parents_BK]),
        )

    def narrow(self, sentences: Int[Tensor, "A"]) -> "TransformerState":
        """Keep only these sentences, with all their rows."""
        return replace(
            self,
            cache=self.cache.index_select(2, sentences),
            descent=self.descent.index_select(0, sentences),
            memory=self.memory.index_select(2, sentences),
            keep=None if self.keep is None else self.keep.index_select(0, sentences),
            attention_RL=self._attention(lambda weights_BKL: weights_BKL.index_select(0, sentences)),
        )

    def _attention(self, choose: Callable[[Tensor], Tensor]) -> Float[Tensor, "R L"] | None:
        """The weights of chosen rows, where there are any."""
        if self.attention_RL is None:
            return None
        return choose(self.attention_RL.unflatten(0, (-1, self.beams))).flatten(0, 1)

    def with_room(self) -> "TransformerState":
        """The same state with place for one more position."""
        sentences, beams, room, _ = self.descent.shape
        if self.position < room:
            return self
        more_cache = self.cache.new_zeros(*self.cache.shape[:4], _ROOM * beams, self.cache.shape[5])
        more_descent = self.descent.new_zeros(sentences, beams, _ROOM, beams)
        return replace(
            self,
            cache=torch.cat([self.cache, more_cache], dim=4),
            descent=torch.cat([self.descent, more_descent], dim=2),
        )

    def visible(self) -> Bool[Tensor, "B 1 K S"] | None:
        """What each row attends to, itself included; None where that is everything."""
        if self.beams == 1:
            return None
        self.descent[:, :, self.position] = torch.eye(self.beams, dtype=torch.bool, device=self.descent.device)
        return self.descent[:, :, : self.position + 1].flatten(2).unsqueeze(1)


class TransformerDecoder(nn.Module):
    """Embedding, N blocks over the memory, a final norm where the blocks leave one open, and the output layer."""

    def __init__(self, embedding: Embedding, blocks: Sequence[DecoderBlock], final: nn.Module, output: Output) -> None:
        super().__init__()
        self.embedding, self.blocks, self.final, self.output = embedding, nn.ModuleList(blocks), final, output

    def states(self, tokens: Packed, memory: Packed) -> Float[Tensor, "N E"]:
        """The last block's vectors for whole sentences."""
        x = self.embedding(tokens.values, tokens.layout)
        for block in self.blocks:
            x = block(x, tokens.layout, memory)
        last: Tensor = self.final(x)
        return last

    def forward(self, tokens: Packed, memory: Packed) -> Float[Tensor, "N V"]:
        """The scores of every next token, for whole sentences."""
        logits: Tensor = self.output(self.states(tokens, memory))
        return logits

    def start(self, memory: Packed, beams: int = 1, aligned: bool = False) -> TransformerState:
        """Project and pad the memory's keys and values, once for each sentence.

        With `aligned`, the weights over the memory are kept of the last layer but one, which align source and target
        best (Garg et al. 2019), or of the only layer.
        """
        layout = memory.layout
        projected = torch.stack(
            [torch.stack(cast(DecoderBlock, block).cross.keys_and_values(memory.values)) for block in self.blocks]
        )  # [layers, 2, M, H, D]
        padded = pad(projected.movedim(2, 0), layout)  # [B, L, layers, 2, H, D]
        keep = None if layout.even else layout.keep[:, None, None, :]
        heads, width = projected.shape[-2:]
        cache = projected.new_zeros(len(self.blocks), 2, layout.sentences, heads, _ROOM * beams, width)
        descent = torch.zeros(layout.sentences, beams, _ROOM, beams, dtype=torch.bool, device=cache.device)
        watched = max(0, len(self.blocks) - 2) if aligned else None
        return TransformerState(0, cache, descent, padded.permute(2, 3, 0, 4, 1, 5).contiguous(), keep, watched)

    def step(
        self, tokens_R: Int[Tensor, "R"], state: TransformerState
    ) -> tuple[Float[Tensor, "R V"], TransformerState]:
        """Decode one token a row. The cache is written in place: the old state is spent."""
        state = state.with_room()
        cache, descent = state.cache[..., : (state.position + 1) * state.beams, :], state.visible()
        x = self.embedding.step(tokens_R, state.position)
        attention_RL = None
        for layer, block in enumerate(self.blocks):
            block, held = cast(DecoderBlock, block), (cache[layer], descent, state.memory[layer], state.keep)
            if layer == state.watched:
                x, attention_RL = block.step_aligned(x, *held)
            else:
                x = block.step(x, *held)
        return self.output(self.final(x)), replace(state, position=state.position + 1, attention_RL=attention_RL)

    @property
    def decodes_in_slots(self) -> bool:
        """Whether slots can do what its attention does."""
        return all(self._block(layer).in_slots for layer in range(len(self.blocks)))

    @property
    def head_bytes(self) -> int:
        """Of the vector that one head has for a token."""
        return self.output.weight.shape[1] // self._block(0).cross.heads * self.embedding.precision.itemsize

    def slots(self, shape: SlotShape) -> Slots:
        """Make buffers of this shape, all slots idle."""
        if not self.decodes_in_slots:
            placed = all(self._block(layer).attention.positions.in_slots for layer in range(len(self.blocks)))
            why = "is not fused" if placed else "adds to scores by position"
            raise ValueError(f"a decoder whose attention {why} does not decode in slots")
        heads, weight = self._block(0).cross.heads, self.output.weight
        width = weight.shape[1] // heads
        return Slots.empty(shape, len(self.blocks), heads, width, self.embedding.precision, weight.device)

    def remember(self, memory: Packed, slots: Slots) -> None:
        """Project the memories' keys and values into the buffers, from the first place on."""
        for layer in range(len(self.blocks)):
            projected = torch.stack(self._block(layer).cross.keys_and_values(memory.values), dim=1)
            slots.memory[layer, : len(projected)] = projected

    def step_slots(self, tokens_R: Int[Tensor, "R"], slots: Slots) -> Float[Tensor, "R V"]:
        """Decode one token a row, each slot at its own position."""
        x = self.embedding.at(tokens_R, slots.positions_R, slots.room)
        for layer in range(len(self.blocks)):
            x = self._block(layer).step_slots(x, slots, layer)
        return self.output(self.final(x))

    def _block(self, layer: int) -> DecoderBlock:
        return cast(DecoderBlock, self.blocks[layer])
