"""Encoding from recordings: on a GPU, launching a small batch takes longer than computing it.

A batch is written to buffers of one of a few sizes, powers of two; the rest of a buffer is filled with sentences that
nobody reads. One recording serves all batches of a size.
"""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from heedful.base.packed import Layout, Packed
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.cuda_graphs import as_cuda_graph
from heedful.nn.kernels.sizes import next_power_of_two

_SMALLEST: Final = 64  # tokens of a buffer
_LARGEST: Final = 2**13  # tokens up to which the host is slower than the GPU


class StaticEncoding:
    """Encodes with one encoder. It keeps buffers and recordings for all sizes it has seen."""

    def __init__(self, encoder: TransformerEncoder, device: torch.device) -> None:
        self._encoder, self._device = encoder, device
        self._sizes: dict[tuple[int, int, int], _Buffers] = {}

    def __call__(self, sentences: Sequence[Sequence[int]]) -> Packed:
        """Encode. The result is valid until the next call; other sentences may follow those that were given."""
        tokens = next_power_of_two(sum(map(len, sentences)), _SMALLEST)
        if tokens > _LARGEST:
            encoded: Packed = self._encoder(Packed.of(sentences).to(self._device))
            return encoded
        bound = next_power_of_two(max(map(len, sentences)), _SMALLEST)
        key = tokens, bound, next_power_of_two(len(sentences) + -(-tokens // bound))
        if key not in self._sizes:
            self._sizes[key] = _Buffers(self._encoder, *key, self._device)
        return self._sizes[key](sentences)


class _Buffers:
    """Buffers for a number of tokens in a number of sentences, and the encoder recorded on them."""

    def __init__(
        self, encoder: TransformerEncoder, tokens: int, bound: int, sentences: int, device: torch.device
    ) -> None:
        self._tokens, self._bound, self._sentences = tokens, bound, sentences
        self._values = torch.zeros(tokens, dtype=torch.int64, device=device)
        layout = self._filled([]).to(device)
        self._offsets, self._positions = layout.offsets, layout.positions
        self._encoded: Tensor | None = None

        def step() -> None:
            self._encoded = encoder(Packed(self._values, self._layout())).values

        self._step = as_cuda_graph(step, device)

    def __call__(self, sentences: Sequence[Sequence[int]]) -> Packed:
        flat = [token for sentence in sentences for token in sentence]
        layout = self._filled([len(sentence) for sentence in sentences])
        self._values[: len(flat)] = torch.tensor(flat)
        self._offsets.copy_(layout.offsets)
        self._positions.copy_(layout.positions)
        self._step()
        assert self._encoded is not None  # set by a step, or when the step was recorded
        return Packed(self._encoded, self._layout())

    def _layout(self) -> Layout:
        """Return the layout of the buffers without anything derived from it: that must be computed in every step."""
        return Layout(self._offsets, self._positions, self._bound)

    def _filled(self, lengths: list[int]) -> Layout:
        """Return a layout of these sentences, then some that fill the buffer, then empty ones.

        All tokens that fill have position 0: learned positions may end before the bound.
        """
        whole, rest = divmod(self._tokens - sum(lengths), self._bound)
        filled = [*lengths, *[self._bound] * whole, *([rest] if rest else [])]
        layout = Layout.of(filled + [0] * (self._sentences - len(filled)))
        layout.positions[sum(lengths) :] = 0
        return layout
