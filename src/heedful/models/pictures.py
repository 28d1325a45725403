"""The encoder of pictures: from packed pictures to packed vectors of their patches."""

from collections.abc import Sequence

from torch import nn

from heedful.models.transformer.blocks import EncoderBlock
from heedful.nn.layers.pictures.embedding import PictureEmbedding
from heedful.packed import Packed, Pictures


class PictureEncoder(nn.Module):
    """Embedding of patches, N blocks, and a final norm      Dosovitskiy et al. 2021, 3.1

    Without blocks it is what its stem is: with convolutions, a convolutional network.
    """

    def __init__(self, embedding: PictureEmbedding, blocks: Sequence[EncoderBlock], final: nn.Module) -> None:
        super().__init__()
        self.embedding, self.blocks, self.final = embedding, nn.ModuleList(blocks), final

    def forward(self, pictures: Pictures) -> Packed:
        """Encode pictures."""
        x = self.embedding(pictures)
        for block in self.blocks:
            x = block(x, pictures.layout)
        return Packed(self.final(x), pictures.layout)
