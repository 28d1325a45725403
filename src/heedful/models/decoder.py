"""Decoders: each keeps the protocol of `models.protocols.Decoder`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.models.block import DecoderBlock
from heedful.nn.embedding import Embedding, Output
from heedful.nn.padding import pad
from heedful.packed import Packed

_ROOM = 16  # positions by which a full cache grows


@dataclass(frozen=True, eq=False)
class TransformerState:
    """Keys and values of what was decoded, [layers, 2, R, H, room, D], and of the memory, [layers, 2, B, H, L, D].

    The memory is kept once for each sentence: its K rows share it.
    """

    position: int
    cache: Float[Tensor, "layers 2 R H room D"]
    memory: Float[Tensor, "layers 2 B H L D"]
    keep: Bool[Tensor, "B 1 1 L"] | None

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "TransformerState":
        """Row k of a sentence goes on from that sentence's row parents[k]."""
        sentences, beams = parents_BK.shape
        first = torch.arange(sentences, device=parents_BK.device).unsqueeze(1) * beams
        return replace(self, cache=self.cache.index_select(2, (first + parents_BK).flatten()))

    def narrow(self, sentences: Int[Tensor, "A"]) -> "TransformerState":
        """Keep only these sentences, with all their rows."""
        beams = self.cache.shape[2] // self.memory.shape[2]
        rows = (sentences.unsqueeze(1) * beams + torch.arange(beams, device=sentences.device)).flatten()
        keep = None if self.keep is None else self.keep.index_select(0, sentences)
        return replace(
            self, cache=self.cache.index_select(2, rows), memory=self.memory.index_select(2, sentences), keep=keep
        )

    def with_room(self) -> "TransformerState":
        """The same state with place for one more position."""
        if self.position < self.cache.shape[4]:
            return self
        shape = (*self.cache.shape[:4], _ROOM, self.cache.shape[5])
        return replace(self, cache=torch.cat([self.cache, self.cache.new_zeros(shape)], dim=4))


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

    def start(self, memory: Packed, beams: int = 1) -> TransformerState:
        """Project and pad the memory's keys and values, once for each sentence."""
        layout = memory.layout
        projected = torch.stack(
            [torch.stack(cast(DecoderBlock, block).cross.keys_and_values(memory.values)) for block in self.blocks]
        )  # [layers, 2, M, H, D]
        padded = pad(projected.movedim(2, 0), layout)  # [B, L, layers, 2, H, D]
        keep = None if layout.even else layout.keep[:, None, None, :]
        heads, width = projected.shape[-2:]
        cache = projected.new_zeros(len(self.blocks), 2, layout.sentences * beams, heads, _ROOM, width)
        return TransformerState(0, cache, padded.permute(2, 3, 0, 4, 1, 5).contiguous(), keep)

    def step(
        self, tokens_R: Int[Tensor, "R"], state: TransformerState
    ) -> tuple[Float[Tensor, "R V"], TransformerState]:
        """Decode one token a row. The cache is written in place: the old state is spent."""
        state = state.with_room()
        x = self.embedding.step(tokens_R, state.position)
        for layer, block in enumerate(self.blocks):
            block = cast(DecoderBlock, block)
            x = block.step(x, state.cache[layer], state.position, state.memory[layer], state.keep)
        return self.output(self.final(x)), replace(state, position=state.position + 1)
