"""The Transformer's decoder by kernels: one call per step. It keeps the protocol of `models.protocols.Decoder`.

Keys and values stay where they were written: for each position of each sentence, those of all its K rows. `ancestors`
is the row that wrote the entry of row k at position t. A sentence that leaves takes its slot with it; nothing moves.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heedful.base.packed import Packed
from heedful.models.protocols import Decoder, State, with_words
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.state import TransformerState
from heedful.native.encoder import is_watched, place_rows
from heedful.native.int8 import Int8Output
from heedful.native.library import Library, library
from heedful.native.memory import Workspace, workspace
from heedful.native.plan import OUT, DecoderPlan, NotNativeError, Shape, X, memory_map
from heedful.nn.evaluation_mode import computes_by_equation

_ROOM: Final = 64  # positions of a new cache, besides twice what is read; untouched memory costs nothing
_LARGE: Final = 1 << 30  # bytes of a new cache above which it begins small


@dataclass(frozen=True, eq=False)
class NativeState:
    """What the kernels remember of the rows: caches by slot, and for each row what it descends from."""

    caches: list[tuple[Tensor, Tensor]]  # by layer: keys, values [slots, room, K, groups * width]
    memories: list[tuple[Tensor, int]]  # by layer: keys and values side by side [M, ...], and where values begin
    starts: Int[Tensor, "slots"]  # of the memory of each slot
    lengths: Int[Tensor, "slots"]
    slots_B: Int[Tensor, "B"]
    positions_B: Int[Tensor, "B"]  # of the next token
    ancestors_BKP: Int[Tensor, "B K room"]
    space: Workspace
    logits: Tensor  # memory for them: a step uses up those of the step before
    longest: int  # position that a row has reached
    counts_R: Int[Tensor, "R"] | None = None  # words of each row, where the decoder counts them
    attention_RL: None = None
    kept: list[Any] = field(default_factory=list)

    @property
    def beams(self) -> int:
        """K: rows of each sentence."""
        return self.ancestors_BKP.shape[1]

    def reorder(self, parents_BK: Int[Tensor, "B K"]) -> "NativeState":
        """Let row k of a sentence continue that sentence's row parents[k]."""
        sentences = torch.arange(len(parents_BK)).unsqueeze(1)
        return replace(
            self,
            ancestors_BKP=self.ancestors_BKP[sentences, parents_BK],
            counts_R=self._rows(lambda counts_BK: counts_BK[sentences, parents_BK]),
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

    def with_room(self) -> "NativeState":
        """Return the same state with place for one more position."""
        room = self.ancestors_BKP.shape[2]
        if self.longest < room:
            return self
        caches = [(_longer(keys, 1, room), _longer(values, 1, room)) for keys, values in self.caches]
        return replace(self, caches=caches, ancestors_BKP=_longer(self.ancestors_BKP, 2, room))


class NativeDecoder:
    """A decoder with int8 maps whose steps kernels run; the decoder itself does what they cannot do."""

    def __init__(self, decoder: TransformerDecoder, kernels: Library) -> None:
        self.output, self._decoder, self._kernels = decoder.output, decoder, kernels
        output = decoder.output
        if not isinstance(output, Int8Output):
            raise NotNativeError("its output layer is not in int8")
        blocks = [decoder._block(layer) for layer in range(len(decoder.blocks))]
        width = decoder.output.weight.shape[1]
        self._step = DecoderPlan(blocks, decoder.final, output.map.packed, width)
        self._reading = None
        if blocks[0].cross is None:
            self._reading = DecoderPlan(blocks, decoder.final, None, width)
        self._shape = Shape(blocks[0].attention.shape)
        self._memory_maps = [memory_map(block.cross) for block in blocks if block.cross is not None]
        self._places = {id(plan): _places_of(plan) for plan in (self._step, self._reading) if plan is not None}

    def select(self, words_U: Int[Tensor, "U"]) -> "NativeDecoder":
        """Return a decoder that scores these words only, in their order. It shares the weights."""
        made = copy(self)
        made._decoder = with_words(self._decoder, words_U)
        output = made.output = made._decoder.output
        assert isinstance(output, Int8Output)
        made._step = self._step.with_output(output.map.packed)
        made._places = {**self._places, id(made._step): _places_of(made._step)}
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
            or is_watched(self._decoder)
        ):
            return self._decoder.start(memory, beams, aligned, prompt)
        self._decoder._check(memory)
        sides = [side.layout for side in (memory, prompt) if side is not None]
        layout = sides[0]
        sentences, read = layout.sentences, 0 if prompt is None else prompt.layout.bound
        shape, layers = self._shape, len(self._step.caches)
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
        rows = sentences * beams
        state = NativeState(
            caches,
            [] if memory is None else self._project(memory),
            layout.offsets[:-1].to(torch.int32).contiguous(),
            lengths,
            torch.arange(sentences, dtype=torch.int32),
            torch.zeros(sentences, dtype=torch.int32) if prompt is None else lengths.clone(),
            torch.zeros(sentences, beams, room, dtype=torch.int16),
            Workspace(self._step, rows, max(room, layout.bound)),
            torch.empty(rows, self._step.stride(OUT)),
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
        beams, embedding = state.beams, self._decoder.embedding
        counts_R = state.counts_R
        if embedding.words is not None and counts_R is not None:
            counts_R = embedding.words.next(counts_R, tokens_R)
        positions_R = state.positions_B.long().repeat_interleave(beams)
        x = self._vectors(embedding.at(tokens_R, positions_R, state.longest + 1, counts_N=counts_R))
        frame = state.space.frame(len(x), max(state.longest + 1, int(state.space.bound)), x, state.logits)
        ops = self._place(state, self._step)
        waves = self._step.give_waves(ops, frame.bound)
        slots, positions, ancestors = state.slots_B.contiguous(), state.positions_B, state.ancestors_BKP.contiguous()
        frame.beams, frame.room = beams, ancestors.shape[2]
        frame.slot, frame.position, frame.ancestors = slots.data_ptr(), positions.data_ptr(), ancestors.data_ptr()
        frame.first, frame.count = state.starts.data_ptr(), state.lengths.data_ptr()
        self._kernels.run(ops, frame)
        del waves
        after = replace(
            state,
            positions_B=positions + 1,
            ancestors_BKP=ancestors,
            longest=state.longest + 1,
            counts_R=counts_R,
        )
        return state.logits[: len(x), : len(self.output.weight)], after

    def normaliser(self, scores_RV: Float[Tensor, "R V"]) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
        """Return what turns scores into log probabilities: see `decode.frontiers.token_scores`."""
        return self._kernels.normaliser(scores_RV)

    def best(self, scores_RV: Float[Tensor, "R V"], count: int) -> tuple[Tensor, Tensor]:
        """Return the best scores of each row, and their tokens."""
        return self._kernels.best(scores_RV, count)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _vectors(self, x: Float[Tensor, "R E"]) -> Float[Tensor, "R stride"]:
        """Return vectors as the buffer X holds them."""
        return F.pad(x.float(), (0, self._step.stride(X) - x.shape[1])).contiguous()

    def _project(self, memory: Packed) -> list[tuple[Tensor, int]]:
        """Return keys and values of the memory for each layer."""
        maps = self._memory_maps
        return [(packed.product(self._kernels, memory.values), shape.keys) for shape, packed in maps]

    def _place(self, state: NativeState, plan: DecoderPlan) -> Any:
        """Return the operations with the addresses of this state's caches and memories."""
        ops, (cached, crosses) = plan.array(), self._places[id(plan)]
        for (keys, values), indices in zip(state.caches, cached, strict=True):
            for index in indices:
                ops[index].keys, ops[index].values = keys.data_ptr(), values.data_ptr()
        for (both, begins), index in zip(state.memories, crosses, strict=True):
            ops[index].keys, ops[index].values = both.data_ptr(), both.data_ptr() + 4 * begins
            ops[index].key_row = ops[index].value_row = both.shape[1]
        return ops

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
        ops = self._place(state, plan)
        waves = plan.give_waves(ops, layout.bound)
        self._kernels.run(ops, frame)
        del kept, waves


def _places_of(plan: DecoderPlan) -> tuple[list[list[int]], list[int]]:
    """Return the indices of operations that read or write caches, by layer, and of those that read memories."""
    index = {id(op): place for place, op in enumerate(plan.ops)}
    return [[index[id(op)] for op in layer] for layer in plan.caches], [index[id(op)] for op in plan.crosses]


def _longer(x: Tensor, axis: int, more: int) -> Tensor:
    """Return a tensor with room for more positions."""
    shape = list(x.shape)
    shape[axis] += more
    longer = torch.zeros(shape, dtype=x.dtype) if x.dtype == torch.int16 else torch.empty(shape, dtype=x.dtype)
    longer.narrow(axis, 0, x.shape[axis]).copy_(x)
    return longer


def native_decoder(decoder: Decoder) -> NativeDecoder | str:
    """Return a decoder whose steps kernels run, or why they cannot; it must have int8 maps."""
    if not isinstance(decoder, TransformerDecoder):
        return f"they run the decoders of Transformers, not {type(decoder).__name__}"
    kernels = library()
    if kernels is None:
        return "there are no kernels"
    try:
        return NativeDecoder(decoder, kernels)
    except NotNativeError as reason:
        return str(reason)
