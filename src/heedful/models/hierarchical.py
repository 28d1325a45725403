"""Documents of sentences of words, encoded level by level.

The hierarchical attention network (Yang et al. 2016) is a composition; each level is an encoder followed by attention:

    Pooled(HierarchicalEncoder(Pooled(words, AttentionPool(..)), sentences), AttentionPool(..))

It maps `Nested` documents to one vector each, as `Pooled(encoder, pool)` maps plain sentences: a classifier puts its
head on either. `weights(documents)` are those of sentences, `encoder.words.weights(documents.words)` those of words.
"""

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from heedful.base.packed import Images, Nested, Packed
from heedful.models.protocols import Encoder
from heedful.nn.layers.letters import LetterVectors
from heedful.nn.layers.pooling import Pool
from heedful.nn.recurrent.stack import RecurrentStack


class Pooled(nn.Module):
    """y = pool(encoder(x)): one vector for each sentence of packed tokens, nested document or image."""

    def __init__(self, encoder: nn.Module, pool: Pool) -> None:
        super().__init__()
        self.encoder, self.pool = encoder, pool

    def forward(self, inputs: Packed | Nested | Images) -> Float[Tensor, "B E"]:
        """Encode and pool. Empty sentences become zeros."""
        encoded: Packed = self.encoder(inputs)
        return self.pool(encoded.values, encoded.layout)

    def weights(self, inputs: Packed | Nested) -> Float[Tensor, "N W"]:
        """Return the weight of each token, or of each sentence of a document, in its vector: see `layers.pooling`."""
        encoded: Packed = self.encoder(inputs)
        return self.pool.weights(encoded.values, encoded.layout)


class LetteredEncoder(nn.Module):
    """An encoder of tokens whose embeddings get the vectors of their letters, the level below words."""

    def __init__(self, encoder: nn.Module, letters: LetterVectors) -> None:
        super().__init__()
        self.encoder, self.letters = encoder, letters

    def forward(self, text: Packed) -> Packed:
        """Encode packed tokens that have letters."""
        encoded: Packed = self.encoder(self.letters(text))
        return encoded


class HierarchicalEncoder(nn.Module):
    """h_i = encode(s_1 .. s_n)_i,  s_i = pool(encode(words of sentence i))      Yang et al. 2016, 2.2

    It turns nested documents into packed vectors of sentences, each in the context of its document. `words` makes one
    vector of each sentence of tokens; `sentences` encodes packed vectors, those of a document as one sequence.
    """

    def __init__(self, words: Pooled, sentences: nn.Module) -> None:
        super().__init__()
        self.words, self.sentences = words, sentences

    def forward(self, documents: Nested) -> Packed:
        """Encode the words of each sentence, then the sentences of each document."""
        return cast(Encoder, self.sentences)(Packed(self.words(documents.words), documents.sentences))


class VectorEncoder(nn.Module):
    """A recurrent stack over packed vectors, such as those of sentences, as an encoder."""

    def __init__(self, stack: RecurrentStack) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, vectors: Packed) -> Packed:
        """Encode each sequence of vectors."""
        encoded, _ = self.stack(vectors.values, vectors.layout)
        return vectors.with_values(encoded)
