"""The Transformer's decoder, which keeps the protocol of `models.protocols.Decoder`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.models.protocols import place_limit, position_limit
from heedful.models.transformer.blocks import DecoderBlock
from heedful.models.transformer.slots import Slots, SlotShape
from heedful.models.transformer.state import TransformerState
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.padding import pad


class TransformerDecoder(nn.Module):
    """Embedding, N blocks, a final norm where the blocks leave one open, and the output layer.

    All blocks attend to a memory, or none does.
    """

    def __init__(self, embedding: Embedding, blocks: Sequence[DecoderBlock], final: nn.Module, output: Output) -> None:
        super().__init__()
        self.embedding, self.blocks, self.final, self.output = embedding, nn.ModuleList(blocks), final, output

    @property
    def longest(self) -> int | None:
        """The number of tokens that there are positions for; None if it is unlimited."""
        return min((*position_limit(self), *place_limit(self)), default=None)

    def states(self, tokens: Packed, memory: Packed | None) -> Float[Tensor, "N E"]:
        """Return the vectors of the last block, for whole sentences."""
        self._check(memory)
        x = self.embedding(tokens.values, tokens.layout)
        for block in self.blocks:
            x = block(x, tokens.layout, memory)
        last: Tensor = self.final(x)
        return last

    def forward(self, tokens: Packed, memory: Packed | None) -> Float[Tensor, "N V"]:
        """Return the scores of every next token, for whole sentences."""
        logits: Tensor = self.output(self.states(tokens, memory))
        return logits

    def start(
        self, memory: Packed | None, beams: int = 1, aligned: bool = False, prompt: Packed | None = None
    ) -> TransformerState:
        """Project and pad the keys and values of the memory, once per sentence, and read the prompt.

        With `aligned`, the state keeps the weights over the memory of the last layer but one, which align source and
        target best (Garg et al. 2019), or of the only layer.
        """
        self._check(memory)
        sides = [side for side in (memory, prompt) if side is not None]
        if not sides:
            raise ValueError("a decoder without memory starts with a prompt, which may be empty")
        if aligned and memory is None:
            raise ValueError("a decoder without memory has no weights over it to align with")
        projected, keep = self._project(memory)
        cache = self.output.weight.new_empty(
            (len(self.blocks), 2, sides[0].layout.sentences, self._heads, 0, self._head_width),
            dtype=self.embedding.precision,
        )
        watched = max(0, len(self.blocks) - 2) if aligned else None
        room = 0 if prompt is None else prompt.layout.bound
        state = TransformerState.empty(cache, beams, projected, keep, watched, room)
        if any(self._block(layer).attention.counts_places for layer in range(len(self.blocks))):
            state = replace(state, apart=True)
        if self.embedding.words is not None:
            state = replace(state, counts_R=self._words_of(prompt, sides[0].layout.sentences).repeat_interleave(beams))
        return state if prompt is None else self._read(prompt, memory, state)

    def _words_of(self, prompt: Packed | None, sentences: int) -> Int[Tensor, "B"]:
        """Return the number of words of each prompt."""
        words_B = torch.zeros(sentences, dtype=torch.int64, device=self.output.weight.device)
        if prompt is None or self.embedding.words is None:
            return words_B
        sentence_N = torch.arange(sentences, device=words_B.device).repeat_interleave(prompt.layout.lengths)
        return words_B.index_add(0, sentence_N, self.embedding.words.ends[prompt.values])

    def _project(
        self, memory: Packed | None
    ) -> tuple[Float[Tensor, "layers 2 B H L D"] | None, Bool[Tensor, "B 1 1 L"] | None]:
        if memory is None:
            return None, None
        padded = pad(self.project(memory).movedim(1, 0), memory.layout)  # [B, L, layers, 2, H, D]
        keep = None if memory.layout.even else memory.layout.keep[:, None, None, :]
        return padded.permute(2, 3, 0, 4, 1, 5).contiguous(), keep

    def _read(self, prompt: Packed, memory: Packed | None, state: TransformerState) -> TransformerState:
        """Read a prompt by one forward pass, whose keys and values fill the cache."""
        if not prompt.layout.tokens:
            return state
        return state.write_prompt(self._keys_and_values(prompt, memory), prompt.layout)

    def _keys_and_values(self, prompt: Packed, memory: Packed | None) -> Float[Tensor, "layers 2 N H D"]:
        x, read = self.embedding(prompt.values, prompt.layout), []
        for layer in range(len(self.blocks)):
            x, keys_and_values = self._block(layer).read(x, prompt.layout, memory)
            read.append(keys_and_values)
        return torch.stack(read)

    def step(
        self, tokens_R: Int[Tensor, "R"], state: TransformerState
    ) -> tuple[Float[Tensor, "R V"], TransformerState]:
        """Decode one token per row. The cache is written in place: the old state is used up."""
        state = state.with_room()
        positions_R, counts_R = state.positions_R(), state.counts_R
        if self.embedding.words is not None and counts_R is not None:
            counts_R = self.embedding.words.next(counts_R, tokens_R)
        if positions_R is None:
            x = self.embedding.step(tokens_R, state.position, counts_R)
        else:
            x = self.embedding.at(tokens_R, positions_R, state.position + 1, counts_N=counts_R)
        attention_RL = None
        for layer, (past, memory) in enumerate(zip(state.past(), state.memories(), strict=True)):
            if layer == state.watched and memory is not None:
                x, attention_RL = self._block(layer).step_aligned(x, past, memory)
            else:
                x = self._block(layer).step(x, past, memory)
        after = replace(state, position=state.position + 1, attention_RL=attention_RL, counts_R=counts_R)
        return self.output(self.final(x)), after

    # --- slots --------------------------------------------------------------------------------------------------------

    @property
    def decodes_in_slots(self) -> bool:
        """Whether slots can do what its attention does."""
        return all(self._block(layer).in_slots for layer in range(len(self.blocks)))

    @property
    def head_bytes(self) -> int:
        """The size of the vector that a cache has for one head and token."""
        return self._head_width * self.embedding.precision.itemsize

    def slots(self, shape: SlotShape) -> Slots:
        """Make buffers of this shape, with all slots idle."""
        if not self.decodes_in_slots:
            placed = all(self._block(layer).attention.positions.in_slots for layer in range(len(self.blocks)))
            why = "is not fused" if placed else "adds to scores by position"
            raise ValueError(f"a decoder whose attention {why} does not decode in slots")
        device = self.output.weight.device
        counted = self.embedding.words is not None
        width, precision = self._head_width, self.embedding.precision
        return Slots.empty(shape, len(self.blocks), self._heads, width, precision, device, counted)

    def slot_bytes(self, shape: SlotShape) -> int:
        """Return the size of the buffers of one slot, and of the scores of its next tokens."""
        vectors = 2 * len(self.blocks) * (shape.room * shape.beams + shape.memory) * self._heads * self.head_bytes
        return vectors + shape.beams * (8 * self.output.weight.shape[0] + 16 * shape.room)

    def project(self, memory: Packed) -> Float[Tensor, "layers N 2 H D"]:
        """Return the keys and values of a memory for the regions of slots."""
        crosses = [self._block(layer).cross for layer in range(len(self.blocks))]
        return torch.stack(
            [torch.stack(cross.keys_and_values(memory.values), dim=1) for cross in crosses if cross is not None]
        )

    def read_prompts(self, prompt: Packed, slots: Slots, indices: Int[Tensor, "A"]) -> None:
        """Read the prompts of sentences that start in these slots; a slot then stands after its prompt."""
        if prompt.layout.tokens:
            slots.write_prompts(self._keys_and_values(prompt, None), prompt.layout, indices)

    def step_slots(self, tokens_R: Int[Tensor, "R"], slots: Slots) -> Float[Tensor, "R V"]:
        """Decode one token per row, each slot at its own position."""
        words = self.embedding.words
        counts_R = None if words is None else slots.write_counts(words.ends[tokens_R])
        x = self.embedding.at(tokens_R, slots.positions_R, slots.room, counts_N=counts_R)
        for layer in range(len(self.blocks)):
            x = self._block(layer).step_slots(x, slots, layer)
        return self.output(self.final(x))

    # --- parts --------------------------------------------------------------------------------------------------------

    def _block(self, layer: int) -> DecoderBlock:
        return cast(DecoderBlock, self.blocks[layer])

    @property
    def _heads(self) -> int:
        return self._block(0).attention.heads

    @property
    def _head_width(self) -> int:
        return self._block(0).attention.shape.cached_width

    def _check(self, memory: Packed | None) -> None:
        attends = self._block(0).cross is not None
        if attends and memory is None:
            raise ValueError("this decoder attends to a memory, but was given none")
        if memory is not None and not attends:
            raise ValueError("this decoder has no attention over a memory, but was given one")
