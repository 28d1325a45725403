"""The Transformer's decoder by kernels: one call per step. It keeps the protocol of `models.protocols.Decoder`.

Keys and values stay where they were written: for each position of each sentence, those of all its K rows. `ancestors`
is the row that wrote the entry of row k at position t. A sentence that leaves takes its slot with it; nothing moves.
"""

import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import Packed
from heedful.models.protocols import Decoder, State, with_words
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.state import TransformerState
from heedful.native.decoder_plan import DecoderPlan, Memory, memory_map
from heedful.native.encoder import hooks_of, place_rows
from heedful.native.floats import PackedFloats, versions_of
from heedful.native.int8 import Int8Output
from heedful.native.library import Library, library
from heedful.native.memory import workspace
from heedful.native.plan import Shape, X
from heedful.native.step_call import StepCall, normaliser_of
from heedful.native.weights import NotNativeError, weights_of
from heedful.nn.evaluation_mode import computes_by_equation, has_hook_here

_ROOM: Final = 64  # positions of a new cache, besides twice what is read; untouched memory costs nothing
_SLOTS: Final = 8  # of a state that others join, half of them free
_REGION: Final = 64  # rows of memory by which the region of a slot grows
_LONGEST: Final = 256  # tokens of a prompt in float32: PyTorch reads longer ones faster
_LARGE: Final = 1 << 30  # bytes of a new cache above which it begins small


@dataclass(frozen=True, eq=False)
class NativeState:
    """What the kernels remember of the rows: caches by slot, and for each row what it descends from."""

    caches: list[tuple[Tensor, Tensor]]  # by layer: keys, values [slots, room, K, groups * width]
    memories: list[Memory]  # by layer
    starts: Int[Tensor, "slots"]  # of the memory of each slot
    lengths: Int[Tensor, "slots"]
    slots_B: Int[Tensor, "B"]
    positions_B: Int[Tensor, "B"]  # of the next token
    ancestors_BKP: Int[Tensor, "B K room"]
    call: StepCall  # which all states of a search have in common
    longest: int  # position that a row has reached
    counts_R: Int[Tensor, "R"] | None = None  # words of each row, where the decoder counts them
    region: int = 0  # rows of the memory that each slot has to itself; 0 before others have joined
    attention_RL: None = None

    @property
    def beams(self) -> int:
        """K: rows of each sentence."""
        return self.ancestors_BKP.shape[1]

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "NativeState":
        """Let row k of a sentence continue that sentence's row parents[k]."""
        rows_BK1 = parents_BK.unsqueeze(2)
        return replace(
            self,
            ancestors_BKP=self.ancestors_BKP.gather(1, rows_BK1.expand(-1, -1, self.ancestors_BKP.shape[2])),
            counts_R=self._rows(lambda counts_BK: counts_BK.gather(1, parents_BK)),
        )

    def narrow(self, sentences: Int[Tensor, "A"]) -> "NativeState":
        """Keep only these sentences, with all their rows."""
        return replace(
            self,
            slots_B=self.slots_B[sentences],
            positions_B=self.positions_B[sentences],
            ancestors_BKP=self.ancestors_BKP[sentences],
            counts_R=self._rows(lambda counts_BK: counts_BK[sentences]),
        )

    def _rows(self, choose: Callable[[Tensor], Tensor]) -> Tensor | None:
        return None if self.counts_R is None else choose(self.counts_R.unflatten(0, (-1, self.beams))).flatten(0, 1)

    def join(self, other: object) -> "NativeState | None":
        """Return the state of both. What this one has stays where it is, if there are slots for the others."""
        if not isinstance(other, NativeState) or self.beams != other.beams:
            return None
        taken = set(self.slots_B.tolist())
        free = [slot for slot in range(len(self.starts)) if slot not in taken][: len(other.slots_B)]
        fits = len(free) == len(other.slots_B) and self.ancestors_BKP.shape[2] >= other.ancestors_BKP.shape[2]
        if not (self.region and fits and other.most_read <= self.region):
            wider = self._moved(other)
            return None if wider is None else wider.join(other)
        slots_B = torch.tensor(free, dtype=torch.int32)
        self._take(other, slots_B)
        counts_R = None
        if self.counts_R is not None and other.counts_R is not None:
            counts_R = torch.cat([self.counts_R, other.counts_R])
        room = self.ancestors_BKP.shape[2] - other.ancestors_BKP.shape[2]
        return replace(
            self,
            slots_B=torch.cat([self.slots_B, slots_B]),
            positions_B=torch.cat([self.positions_B, other.positions_B]),
            ancestors_BKP=torch.cat([self.ancestors_BKP, F.pad(other.ancestors_BKP, (0, room))]),
            longest=int(max(self.positions_B.max(), other.positions_B.max())),
            counts_R=counts_R,
        )

    @property
    def joins_in_place(self) -> bool:
        """There are free slots, or once in a while new ones."""
        return True

    @property
    def most_read(self) -> int:
        """The greatest number of memory rows of a sentence."""
        return int(self.lengths[self.slots_B].max()) if self.memories else 0

    def _moved(self, other: "NativeState") -> "NativeState | None":
        """Return the same state with free slots for others; None where it would be too large."""
        slots = 2 * max(_SLOTS, len(self.slots_B) + len(other.slots_B))
        room = max(self.ancestors_BKP.shape[2], other.ancestors_BKP.shape[2])
        region = -(-max(self.most_read, other.most_read, 1) // _REGION) * _REGION
        width = sum(keys.shape[3] + values.shape[3] for keys, values in self.caches)
        if slots * room * self.beams >= 1 << 30 or 4 * slots * room * self.beams * width > _LARGE:
            return None
        moved = replace(
            self,
            caches=[
                (torch.empty(slots, room, *keys.shape[2:]), torch.empty(slots, room, *values.shape[2:]))
                for keys, values in self.caches
            ],
            memories=[(torch.empty(slots * region, both.shape[1]), begins) for both, begins in self.memories],
            starts=region * torch.arange(slots, dtype=torch.int32),
            lengths=torch.zeros(slots, dtype=torch.int32),
            slots_B=torch.arange(len(self.slots_B), dtype=torch.int32),
            ancestors_BKP=F.pad(self.ancestors_BKP, (0, room - self.ancestors_BKP.shape[2])),
            call=self.call.for_rows(slots * self.beams, room, max(room, region)),
            region=region,
        )
        moved.call.place(moved.caches, moved.memories)
        moved._take(self, moved.slots_B)
        return moved

    def _take(self, other: "NativeState", slots_B: Int[Tensor, "B"]) -> None:
        """Copy what another state remembers into slots of this one."""
        theirs, length = other.slots_B.long(), other.longest
        if length:
            for ours, those in zip(self.caches, other.caches, strict=True):
                for mine, their in zip(ours, those, strict=True):
                    mine[slots_B.long(), :length] = their[theirs, :length]
        self.lengths[slots_B.long()] = other.lengths[theirs]
        for slot, old in zip(slots_B.tolist(), theirs.tolist(), strict=True):
            begin, start, rows = self.region * slot, int(other.starts[old]), int(other.lengths[old])
            for (mine, _), (their, _) in zip(self.memories, other.memories, strict=True):
                mine[begin : begin + rows] = their[start : start + rows]

    def with_room(self) -> "NativeState":
        """Return the same state with place for one more position."""
        room = self.ancestors_BKP.shape[2]
        if self.longest < room:
            return self
        caches = [(_longer(keys, 1, room), _longer(values, 1, room)) for keys, values in self.caches]
        self.call.grow(caches, 2 * room)
        return replace(self, caches=caches, ancestors_BKP=_longer(self.ancestors_BKP, 2, room))


class NativeDecoder:
    """A decoder whose steps kernels run; the decoder itself does what they cannot do."""

    def __init__(self, decoder: TransformerDecoder, kernels: Library) -> None:
        self.output, self._decoder, self._kernels = decoder.output, decoder, kernels
        self._original, self._hooks = decoder, hooks_of(decoder)
        self._versions = versions_of(decoder)
        self._longest = sys.maxsize if isinstance(decoder.output, Int8Output) else _LONGEST
        blocks = [decoder._block(layer) for layer in range(len(decoder.blocks))]
        parts = decoder.embedding, blocks, decoder.final
        self._words = len(decoder.output.weight)
        self._step = DecoderPlan(*parts, weights_of(decoder.output).packed(), self._words)
        self._reading = DecoderPlan(*parts, None, 0) if blocks[0].cross is None else None
        self._shape = Shape(blocks[0].attention.shape)
        self._memory_maps = [memory_map(block.cross) for block in blocks if block.cross is not None]

    def select(self, words_U: Int[Tensor, "U"]) -> "NativeDecoder":
        """Return a decoder that scores these words only, in their order. It shares the weights."""
        made = copy(self)
        made._decoder = with_words(self._decoder, words_U)
        output = made.output = made._decoder.output
        if isinstance(output, Int8Output):
            made._step = self._step.with_output(output.map.packed)
        else:
            made._step = self._step.with_output(PackedFloats.of(output.weight, output.bias))
        made._words = len(words_U)
        return made

    @property
    def longest(self) -> int | None:
        """The number of tokens that there are positions for; None if it is unlimited."""
        return self._decoder.longest

    def states(self, tokens: Packed, memory: Packed | None) -> Float[Tensor, "N E"]:
        """Return the vectors that `output` turns into scores, for whole sentences."""
        return self._decoder.states(tokens, memory)

    def __call__(self, tokens: Packed, memory: Packed | None) -> Float[Tensor, "N V"]:
        """Return the scores of every next token, for whole sentences."""
        scores: Tensor = self._decoder(tokens, memory)
        return scores

    def start(
        self, memory: Packed | None, beams: int = 1, aligned: bool = False, prompt: Packed | None = None
    ) -> State:
        """Start K rows per sentence; kernels neither align nor read prompts next to a memory."""
        if (
            aligned
            or (memory is not None and (prompt is not None or int(memory.layout.lengths.min()) < 1))
            or computes_by_equation()
            or has_hook_here(self._hooks)
            or versions_of(self._original) != self._versions  # weights have changed since they were packed
            or (prompt is not None and prompt.layout.bound > self._longest)
        ):
            return self._decoder.start(memory, beams, aligned, prompt)
        self._decoder._check(memory)
        sides = [side.layout for side in (memory, prompt) if side is not None]
        layout = sides[0]
        sentences, read = layout.sentences, 0 if prompt is None else prompt.layout.bound
        shape, layers = self._shape, self._step.layers
        room = 2 * layout.bound + _ROOM
        if 4 * layers * sentences * room * beams * (shape.keys + shape.values) > _LARGE:
            room = read + _ROOM // 2
        if sentences * 2 * room * beams >= 1 << 31:
            return self._decoder.start(memory, beams, aligned, prompt)
        caches = [
            (torch.empty(sentences, room, beams, shape.keys), torch.empty(sentences, room, beams, shape.values))
            for _ in range(layers)
        ]
        lengths = layout.lengths.to(torch.int32)
        memories = [] if memory is None else self._project(memory)
        call = StepCall(self._step, sentences * beams, room, max(room, layout.bound), self._words)
        call.place(caches, memories)
        state = NativeState(
            caches,
            memories,
            layout.offsets[:-1].to(torch.int32).contiguous(),
            lengths,
            torch.arange(sentences, dtype=torch.int32),
            torch.zeros(sentences, dtype=torch.int32) if prompt is None else lengths.clone(),
            torch.zeros(sentences, beams, room, dtype=torch.int16),
            call,
            read,
        )
        words = self._decoder.embedding.words
        if words is not None:
            counts_R = self._decoder._words_of(prompt, sentences).repeat_interleave(beams)
            state = replace(state, counts_R=counts_R)
        if prompt is not None and prompt.layout.tokens:
            self._read(prompt, state)
        return state

    def step(self, tokens_R: Int[Tensor, "R"], state: State) -> tuple[Float[Tensor, "R V"], State]:
        """Take one more token per row. Caches are written in place, and the old state is used up."""
        if not isinstance(state, NativeState):
            return self._decoder.step(tokens_R, cast(TransformerState, state))
        state = state.with_room()
        embedding, counts_R, call = self._decoder.embedding, state.counts_R, state.call
        if embedding.words is not None and counts_R is not None:
            counts_R = embedding.words.next(counts_R, tokens_R)
        if not self._step.embeds:
            positions_R = state.positions_B.long().repeat_interleave(state.beams)
            x = embedding.at(tokens_R, positions_R, state.longest + 1, counts_N=counts_R)
            call.vectors_RE[: len(x), : x.shape[1]] = x
        frame = call.frame(len(tokens_R), state.longest + 1)
        tokens, slots, ancestors = tokens_R.contiguous(), state.slots_B.contiguous(), state.ancestors_BKP.contiguous()
        frame.beams, frame.room, frame.tokens = state.beams, ancestors.shape[2], tokens.data_ptr()
        frame.slot, frame.position = slots.data_ptr(), state.positions_B.data_ptr()
        frame.ancestors = ancestors.data_ptr()
        frame.first, frame.count = state.starts.data_ptr(), state.lengths.data_ptr()
        scores_RV = call.run(self._kernels, frame)
        after = replace(
            state,
            positions_B=state.positions_B + 1,
            ancestors_BKP=ancestors,
            longest=state.longest + 1,
            counts_R=counts_R,
        )
        return scores_RV, after

    def normaliser(self, scores_RV: Float[Tensor, "R V"]) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
        """Return what turns scores into log probabilities: see `decode.frontiers.token_scores`."""
        return normaliser_of(scores_RV) or self._kernels.normaliser(scores_RV)

    def best(self, scores_RV: Float[Tensor, "R V"], count: int) -> tuple[Tensor, Tensor]:
        """Return the best scores of each row, and their tokens."""
        return self._kernels.best(scores_RV, count)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _vectors(self, x: Float[Tensor, "R E"]) -> Float[Tensor, "R stride"]:
        """Return the vectors of prompts as the buffer X holds them."""
        return F.pad(x.float(), (0, self._step.stride(X) - x.shape[1])).contiguous()

    def _project(self, memory: Packed) -> list[Memory]:
        """Return keys and values of the memory for each layer."""
        maps = self._memory_maps
        return [(packed.product(self._kernels, memory.values), shape.keys) for shape, packed in maps]

    def _read(self, prompt: Packed, state: NativeState) -> None:
        """Read prompts by one pass, whose keys and values fill the caches."""
        assert self._reading is not None
        plan, layout, beams = self._reading, prompt.layout, state.beams
        words = self._decoder.embedding.words
        counts = None if words is None else words.count(prompt.values, layout)
        x = self._vectors(self._decoder.embedding.at(prompt.values, layout.positions, layout.bound, counts_N=counts))
        frame = workspace(plan, len(x), layout.bound).frame(len(x), layout.bound, x)
        kept = place_rows(frame, layout)
        slot = state.slots_B.repeat_interleave(layout.lengths.long())
        frame.slot, frame.beams, frame.room = slot.data_ptr(), beams, state.ancestors_BKP.shape[2]
        ops = plan.array()
        plan.place(ops, state.caches, ())
        tables = plan.give_tables(ops, layout.bound)
        self._kernels.run(ops, frame)
        del kept, tables


def _longer(x: Tensor, axis: int, more: int) -> Tensor:
    """Return a tensor with room for more positions."""
    shape = list(x.shape)
    shape[axis] += more
    longer = torch.zeros(shape, dtype=x.dtype) if x.dtype == torch.int16 else torch.empty(shape, dtype=x.dtype)
    longer.narrow(axis, 0, x.shape[axis]).copy_(x)
    return longer


def native_decoder(decoder: Decoder) -> NativeDecoder | str:
    """Return a decoder whose steps kernels run, or why they cannot; kernels must multiply by its maps."""
    if not isinstance(decoder, TransformerDecoder):
        return f"they run the decoders of Transformers, not {type(decoder).__name__}"
    kernels = library()
    if kernels is None:
        return "there are no kernels"
    try:
        return NativeDecoder(decoder, kernels)
    except NotNativeError as reason:
        return str(reason)
