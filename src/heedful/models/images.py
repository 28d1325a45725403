"""Networks that read images: from packed images to packed vectors of their patches, and answers to questions."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Images, Layout, Packed
from heedful.data.batches.images import AskedImages
from heedful.models.heads import Pooler
from heedful.models.transformer.blocks import DecoderBlock, EncoderBlock
from heedful.nn.attention.pair_pooling import AnyCoAttention
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.embedding import Embedding
from heedful.nn.layers.images.embedding import ImageEmbedding
from heedful.nn.layers.linear import Linear
from heedful.nn.padding import pad


class ImageEncoder(nn.Module):
    """Embedding of patches, N blocks, and a final norm      Dosovitskiy et al. 2021, 3.1

    Without blocks it is what its stem is: with convolutions, a convolutional network.
    """

    def __init__(self, embedding: ImageEmbedding, blocks: Sequence[EncoderBlock], final: nn.Module) -> None:
        super().__init__()
        self.embedding, self.blocks, self.final = embedding, nn.ModuleList(blocks), final

    def forward(self, images: Images) -> Packed:
        """Encode images."""
        x = self.embedding(images)
        for block in self.blocks:
            x = block(x, images.layout)
        return Packed(self.final(x), images.layout)


# --- questions --------------------------------------------------------------------------------------------------------


class QuestionBlock(DecoderBlock):
    """Self-attention of the words of a question, attention to the patches of its image, then a network

    One side of the co-attentional layer of Lu et al. 2019, 3.1: patches are the same for all questions about an image.
    """

    def look(self, x: Float[Tensor, "N E"], words: Layout, together: Layout, patches: Packed) -> Float[Tensor, "N E"]:
        """Transform all words of all questions; `together` takes the questions about an image as one sequence."""
        y = self.around_attention(x, lambda h: self.attention(h, words))
        return self.drop(x, self._over_memory(y, together, patches))


class LookingEncoder(nn.Module):
    """An encoder of questions whose blocks attend to the patches: embedding, N blocks, and a final norm."""

    def __init__(self, embedding: Embedding, blocks: Sequence[QuestionBlock], final: nn.Module) -> None:
        super().__init__()
        self.embedding, self.blocks, self.final = embedding, nn.ModuleList(blocks), final

    def forward(self, asked: AskedImages, patches: Packed) -> Packed:
        """Encode questions in view of their images."""
        questions = asked.questions
        x = self.embedding(questions.values, questions.layout, questions.segments, questions.added)
        for block in self.blocks:
            assert isinstance(block, QuestionBlock)
            x = block.look(x, questions.layout, asked.together, patches)
        return questions.with_values(self.final(x))


class BlindEncoder(nn.Module):
    """An encoder of questions that does not see their images: any encoder of texts."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, asked: AskedImages, patches: Packed) -> Packed:
        """Encode questions."""
        encoded: Packed = self.encoder(asked.questions)
        return encoded


class ImageAnswerer(nn.Module):
    """scores = W D(tanh(U [q; v] + c)) + b: q and v pooled from words and patches by co-attention

    Lu et al. 2016, 3.4, where U is the same matrix for q and v, which have the same width there.
    """

    def __init__(
        self,
        encoder: ImageEncoder,
        questions: LookingEncoder | BlindEncoder,
        attention: AnyCoAttention,
        pooler: Pooler,
        dropout: float,
        output: Linear,
    ) -> None:
        super().__init__()
        self.encoder, self.questions, self.attention = encoder, questions, attention
        self.pooler, self.drop, self.output = pooler, Dropout(dropout), output

    def forward(self, asked: AskedImages) -> Float[Tensor, "Q C"]:
        """Score every answer to each question."""
        patches: Packed = self.encoder(asked.images)
        words: Packed = self.questions(asked, patches)
        of_words, of_patches = self.attention(*self._sides(words, patches, asked))
        scores_QC: Tensor = self.output(self.drop(self.pooler(torch.cat([of_words, of_patches], dim=1))))
        return scores_QC

    def weights(self, asked: AskedImages) -> tuple[Float[Tensor, "Q L"], Float[Tensor, "Q M"]]:
        """Return the weights of the words of each question, and of the patches of its image, 0 for padding."""
        patches: Packed = self.encoder(asked.images)
        return self.attention.weights(*self._sides(self.questions(asked, patches), patches, asked))

    def _sides(self, words: Packed, patches: Packed, asked: AskedImages) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return words and patches, padded, one row per question, each with what is not padding."""
        padded_BME, keep_BM = pad(patches.values, patches.layout), patches.layout.keep
        return pad(words.values, words.layout), words.layout.keep, padded_BME[asked.owners], keep_BM[asked.owners]
