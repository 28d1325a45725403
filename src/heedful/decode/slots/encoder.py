"""Memories of sentences for slots: encoded, and projected to the keys and values that the decoder attends to.

On a GPU, launching a small batch takes longer than computing it. So sentences are written to buffers of one of a few
sizes, whose encoding is recorded; the rest of a buffer is filled with sentences that nobody reads.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.packed import Layout, Packed
from heedful.decode.query import Query, pack_sources, token_ids
from heedful.models.protocols import Encoder, Generator
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.models.transformer.slots import SlotDecoder
from heedful.nn.cuda_graphs import as_cuda_graph, on_device

_SIZES: Final = (1, 8)  # of buffers, in sentences of the longest kind: one for few sentences, and one for many
_LEAST: Final = 4  # tokens of a sentence, on average, where a buffer is full of sentences
_LARGEST: Final = 2**13  # tokens of a buffer
_AT_ONCE: Final = 2**16  # tokens that are encoded at once where nothing is recorded


class Memories:
    """Makes the memories of sentences of at most `bound` tokens."""

    def __init__(self, model: Generator, bound: int) -> None:
        assert model.encoder is not None, "a decoder without memory reads prompts"
        self._encoder, self._decoder, self._bound = model.encoder, cast(SlotDecoder, model.decoder), bound
        self._device = model.decoder.output.weight.device
        self._buffers: dict[int, _Buffers] = {}
        recorded = isinstance(model.encoder, TransformerEncoder)  # others may ask the device for sizes
        self._sizes = [bound * size for size in _SIZES if bound * size <= _LARGEST] if recorded else []

    @property
    def recordings(self) -> int:
        """Number of recordings."""
        return len(self._buffers)

    def of(self, queries: Sequence[Query]) -> Iterator[tuple[Float[Tensor, "layers N 2 H D"], list[int]]]:
        """Yield the projected memories of some sentences, and the tokens of each; the next ones may overwrite them.

        Further tokens may follow those of the sentences.
        """
        most = self._sizes[-1] if self._sizes else _AT_ONCE
        some: list[Query] = []
        tokens = 0
        for query in queries:
            if some and (tokens + len(query.source) > most or (self._sizes and len(some) >= most // _LEAST // 2)):
                yield self._project(some, tokens)
                some, tokens = [], 0
            some.append(query)
            tokens += len(query.source)
        if some:
            yield self._project(some, tokens)

    def _project(self, queries: Sequence[Query], tokens: int) -> tuple[Tensor, list[int]]:
        # Half of what a buffer could hold of the shortest sentences: the others fill it up.
        size = next((size for size in self._sizes if size >= max(tokens, 2 * _LEAST * len(queries))), None)
        if size is None:
            packed = pack_sources(queries).to(self._device)
            memory = self._encoder(packed)
            return self._decoder.project(memory), packed.layout.lengths.tolist()
        if size not in self._buffers:
            self._buffers[size] = _Buffers(self._encoder, self._decoder, size, self._bound, self._device)
        sentences = [token_ids(query.source) for query in queries]
        return self._buffers[size](sentences), [len(sentence) for sentence in sentences]


class _Buffers:
    """Buffers for a number of tokens, in sentences of up to `bound` tokens, and the encoding recorded on them."""

    def __init__(self, encoder: Encoder, decoder: SlotDecoder, tokens: int, bound: int, device: torch.device) -> None:
        self._tokens, self._bound = tokens, bound
        self._sentences = tokens // _LEAST + 1  # with those that fill the buffer
        # Token ids, positions and offsets, in one buffer that one transfer fills.
        self._numbers = torch.zeros(2 * tokens + self._sentences + 1, dtype=torch.int32, device=device)
        self._fill([])
        self._projected: list[Tensor] = []
        numbers, sentences, projected = (
            self._numbers,
            self._sentences,
            self._projected,
        )  # not the object: it has the step

        def step() -> None:
            values, positions, offsets = numbers.split([tokens, tokens, sentences + 1])
            # Without anything derived from the layout: that must be computed in every step.
            layout = Layout(offsets, positions.long(), bound)
            projected[:] = [decoder.project(encoder(Packed(values.long(), layout)))]

        self._step = as_cuda_graph(step, device)

    def __call__(self, sentences: Sequence[Sequence[int]]) -> Tensor:
        """Encode sentences. The result is valid until the next call."""
        self._fill(sentences)
        self._step()
        return self._projected[0]  # set by a step, or when the step was recorded

    def _fill(self, sentences: Sequence[Sequence[int]]) -> None:
        """Write sentences, then some that fill the buffer, then empty ones.

        All tokens that fill have position 0: learned positions may end before the bound.
        """
        lengths = [len(sentence) for sentence in sentences]
        given, count = sum(lengths), len(lengths)
        numbers = np.zeros(len(self._numbers), np.int32)
        numbers[:given] = list(chain.from_iterable(sentences))
        offsets = np.full(self._sentences + 1, self._tokens, np.int32)
        ends = np.cumsum([0, *lengths])
        filled = np.arange(given, self._tokens, self._bound)
        offsets[: count + 1], offsets[count : count + len(filled)] = ends, filled
        numbers[self._tokens : self._tokens + given] = np.arange(given) - np.repeat(ends[:-1], lengths)
        numbers[2 * self._tokens :] = offsets
        self._numbers.copy_(on_device(numbers, self._numbers.device), non_blocking=True)
