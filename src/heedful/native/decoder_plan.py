"""A Transformer's decoder as a list of operations: embedding, blocks, final norm, output layer and normaliser."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor, nn

from heedful.models.transformer.blocks import DecoderBlock
from heedful.native.library import EMBED, MEMORY, NORMALISE, PACKED, STEP, Op
from heedful.native.plan import OUT, WIDE, Ending, Plan, Shape, X, check_attention, read_attention
from heedful.native.weights import Packed
from heedful.nn.attention.multi_head import CrossAttention
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.positions import Learned, Sinusoidal

Memory = tuple[Tensor, int]  # keys and values side by side [M, ...], and where values begin


class DecoderPlan(Plan):
    """All blocks of a decoder and the final norm; for steps, embedding and output layer too, or for prompts."""

    def __init__(
        self, embedding: Embedding, blocks: Sequence[DecoderBlock], final: nn.Module, output: Packed | None, size: int
    ) -> None:
        """Take an output layer of so many words for steps; without one, the plan reads prompts."""
        width = embedding.weight.shape[1]
        super().__init__(width)
        self.layers = len(blocks)
        self._embedding: Embedding | None = None
        self.normalises = False
        self._caches: list[list[int]] = []  # by block: indices of what reads or writes its cache
        self._crosses: list[int] = []
        if output is not None and is_plain(embedding):
            self._embedding = embedding
            self.ops.append(Op(kind=EMBED, out=X, n=width, heads=len(embedding.weight), factor=embedding.scale))
        for block in blocks:
            self._block(block, STEP if output is not None else PACKED)
        self.norm(X, X, final)
        if output is not None:
            self.linear(X, OUT, output)
            self.ops.append(Op(kind=NORMALISE, in_=OUT, n=size))
            self.normalises = True
        self.finish()

    def _block(self, block: DecoderBlock, mode: int) -> None:
        def attend(source: int, ending: Ending) -> None:
            cached = self.self_attention(block.attention, source, mode, stores=mode == PACKED)
            self._caches.append([self.ops.index(op) for op in cached])
            read_attention(ending, block.attention)

        def over_memory(source: int, ending: Ending) -> None:
            cross = block.cross
            assert cross is not None
            check_attention(cross)
            shape = Shape(cross.shape)
            self.linear(source, WIDE, shape.widen(cross.project_query, queries=True, memory=False))
            self.attention(shape, MEMORY)
            self._crosses.append(len(self.ops) - 1)
            read_attention(ending, cross)

        self.residual(block.around_attention, attend)
        if block.around_cross is not None:
            self.residual(block.around_cross, over_memory)
        self.residual(block.around_network, lambda source, ending: self.network(block.network, source, ending))

    @property
    def embeds(self) -> bool:
        """Whether an operation reads tokens; else the caller puts vectors into X."""
        return self._embedding is not None

    def with_output(self, packed: Packed) -> Self:
        """Return the plan with another output layer and without a normaliser; it shares all other operations."""
        made = copy(self)
        made.ops, made.widths, made._frozen = self.ops[:-2], [*self.widths], None
        vars(made).pop("layout", None)
        made._kept, made.widths[OUT], made.normalises = self._kept[:-1], 0, False
        made.linear(X, OUT, packed)
        return made

    def give_tables(self, ops: Any, bound: int) -> list[Tensor]:
        """Put tables of all positions below a bound, and of words, into operations; they must live until these ran."""
        kept = [table for table in (self.give_waves(ops, bound),) if table is not None]
        if self._embedding is not None:
            words, positions = self._embedding.weight.detach(), self._embedding.positions
            kept.append(words)
            ops[0].w = words.data_ptr()
            if positions is not None:
                added = _table(positions, bound)
                ops[0].waves, ops[0].rotated = added.data_ptr(), len(added)
                kept.append(added)
        return kept

    def place(self, ops: Any, caches: Sequence[tuple[Tensor, Tensor]], memories: Sequence[Memory]) -> None:
        """Put the addresses of caches and memories into operations."""
        for (keys, values), indices in zip(caches, self._caches, strict=True):
            for index in indices:
                ops[index].keys, ops[index].values = keys.data_ptr(), values.data_ptr()
        for (both, begins), index in zip(memories, self._crosses, strict=False):  # those of larger caches stay
            ops[index].keys, ops[index].values = both.data_ptr(), both.data_ptr() + 4 * begins
            ops[index].key_row = ops[index].value_row = both.shape[1]


def is_plain(embedding: Embedding) -> bool:
    """Whether an embedding is a row of a matrix, times a factor, plus a row for the position."""
    return (
        type(embedding) is Embedding
        and (embedding.positions is None or type(embedding.positions) in (Sinusoidal, Learned))
        and embedding.words is None
        and embedding.markers is None
        and embedding.segments is None
        and type(embedding.norm) is nn.Identity
        and embedding.precision == embedding.weight.dtype == torch.float32
    )


def _table(positions: nn.Module, bound: int) -> Tensor:
    """Return vectors of all positions, at least of those below a bound where there is no limit."""
    if isinstance(positions, Learned):
        return positions.weight.detach()
    assert isinstance(positions, Sinusoidal)
    positions(torch.zeros(1, dtype=torch.int64), bound)  # lets the table grow
    return positions.table


def memory_map(cross: CrossAttention) -> tuple[Shape, Packed]:
    """Return the heads of attention over a memory, and the map from a memory to their keys and values."""
    shape = Shape(cross.shape)
    return shape, shape.widen(cross.project_memory, queries=False, memory=True)
