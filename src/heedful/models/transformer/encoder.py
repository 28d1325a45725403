"""The Transformer's encoder: from packed tokens to packed vectors."""

from collections.abc import Sequence

from torch import nn

from heedful.base.packed import Packed
from heedful.models.transformer.blocks import EncoderBlock
from heedful.nn.layers.embedding import Embedding


class TransformerEncoder(nn.Module):
    """Embedding, N blocks, and a final norm where the blocks leave one open      Vaswani et al. 2017, 3.1"""

    def __init__(self, embedding: Embedding, blocks: Sequence[EncoderBlock], final: nn.Module) -> None:
        super().__init__()
        self.embedding, self.blocks, self.final = embedding, nn.ModuleList(blocks), final

    def forward(self, source: Packed) -> Packed:
        """Encode packed tokens."""
        x = self.embedding(source.values, source.layout, source.segments, source.added)
        for block in self.blocks:
            x = block(x, source.layout)
        return source.with_values(self.final(x))
