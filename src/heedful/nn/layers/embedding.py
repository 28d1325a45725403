"""Embeddings, from token ids to vectors, and the output layer, from vectors to scores over the vocabulary."""

import math
from collections.abc import Sequence
from typing import TypedDict, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.evaluation_mode import WithPrecision
from heedful.nn.layers.dropout import Dropout
from heedful.nn.layers.meta_embedding import MetaEmbedding
from heedful.nn.layers.positions import Learned, WordPositions


class EmbeddingParts(TypedDict, total=False):
    """The optional parts of an embedding, besides its matrix, positions and dropout."""

    scaled: bool
    words: WordPositions | None
    segments: nn.Parameter | None
    norm: nn.Module | None
    dropout_words: float
    drops_types: bool
    keeps_first: bool


class WordDropout(Dropout):
    """Drops the vectors of whole tokens, each drawn by itself      Iyyer et al. 2015"""

    def factors(self, tokens_N: Int[Tensor, "N"], like: Float[Tensor, "*any"]) -> Float[Tensor, "N 1"]:
        """Return what the vector of each token is multiplied by."""
        drawn: Tensor = self(like.new_ones(tokens_N.shape[0], 1))
        return drawn


class WordTypeDropout(WordDropout):
    """Drops rows of the embedding: every occurrence of a word in a batch, or none      Gal and Ghahramani 2016"""

    def __init__(self, share: float, vocabulary: int) -> None:
        super().__init__(share)
        self.vocabulary = vocabulary

    def factors(self, tokens_N: Int[Tensor, "N"], like: Float[Tensor, "*any"]) -> Float[Tensor, "N 1"]:
        """Return what the vector of each token is multiplied by."""
        return F.embedding(tokens_N, self(like.new_ones(self.vocabulary, 1)))


class Embedding(WithPrecision):
    """x = D(N(c * D_w(W[token]) + [P(position), P(word)] + S[segment] + a))

    c = sqrt(E), no segments, N = identity      Vaswani et al. 2017, 3.4 and 3.5
    c = 1, segments, N = norm                   Devlin et al. 2019, 3

    P(position) and P(word) stand side by side where there are both: see `WordPositions`. a are vectors from elsewhere,
    such as those of the letters of words; without them it is 0.

    D drops single values, and D_w the vectors of whole words: of single tokens, or of all tokens of a type. Without
    `positions` nothing is added: attention can have positions of its own, as in `nn.attention.relative_positions`. In
    that case a causal model must keep the first word (`keeps_first`), which attends to itself alone: from a zero
    vector, blocks with norms before their sublayers compute zeros, and each norm multiplies gradients by
    1 / sqrt(epsilon).
    Where `markers` is set to a matrix M, the vectors of tokens from V on, the size of the vocabulary, are M[token - V].
    Values are returned in `precision`, and all later modules compute in the dtype of their input.
    """

    def __init__(
        self,
        weight: nn.Parameter,
        positions: nn.Module | None,
        dropout: float,
        scaled: bool = True,
        words: WordPositions | None = None,
        segments: nn.Parameter | None = None,
        norm: nn.Module | None = None,
        dropout_words: float = 0.0,
        drops_types: bool = False,
        keeps_first: bool = False,
    ) -> None:
        super().__init__()
        self.keeps_first = keeps_first
        self.weight, self.positions, self.words, self.drop = weight, positions, words, Dropout(dropout)
        self.drop_words = WordTypeDropout(dropout_words, len(weight)) if drops_types else WordDropout(dropout_words)
        self.segments, self.norm = segments, norm or nn.Identity()
        self.scale = math.sqrt(weight.shape[1]) if scaled else 1.0
        self.markers: nn.Parameter | None = None
        self.precision = weight.dtype

    def forward(
        self,
        tokens_N: Int[Tensor, "N"],
        layout: Layout,
        segments_N: Int[Tensor, "N"] | None = None,
        added_NE: Float[Tensor, "N E"] | None = None,
    ) -> Float[Tensor, "N E"]:
        """Embed packed tokens; without `segments` all are in the first segment."""
        counts_N = None if self.words is None else self.words.count(tokens_N, layout)
        return self.at(tokens_N, layout.positions, layout.bound, segments_N, added_NE, counts_N)

    def step(
        self, tokens_R: Int[Tensor, "R"], position: int, counts_R: Int[Tensor, "R"] | None = None
    ) -> Float[Tensor, "R E"]:
        """Embed one token per row, all at the same position, after these numbers of words."""
        return self.at(tokens_R, torch.full_like(tokens_R, position), position + 1, counts_N=counts_R)

    def at(
        self,
        tokens_N: Int[Tensor, "N"],
        positions_N: Int[Tensor, "N"],
        bound: int,
        segments_N: Int[Tensor, "N"] | None = None,
        added_NE: Float[Tensor, "N E"] | None = None,
        counts_N: Int[Tensor, "N"] | None = None,
    ) -> Float[Tensor, "N E"]:
        """Embed tokens at given positions, all below `bound`, after given numbers of words."""
        words_N = tokens_N if self.markers is None else tokens_N.clamp(max=len(self.weight) - 1)
        x = self.rows(words_N) * self.scale
        if self.training and self.drop_words.share:
            factors_N1 = self.drop_words.factors(words_N, x)
            x = x * (factors_N1.where(positions_N.unsqueeze(1) > 0, 1) if self.keeps_first else factors_N1)
        if self.markers is not None:
            for token, marker_E in enumerate(self.markers, start=len(self.weight)):
                x = torch.where((tokens_N == token).unsqueeze(1), marker_E, x)
        where = [] if self.positions is None else [self.positions(positions_N, bound)]
        if self.words is not None and counts_N is not None:
            where.append(self.words(counts_N, bound))
        if where:
            x = x + (where[0] if len(where) == 1 else torch.cat(where, dim=1))
        if self.segments is not None:
            x = x + (self.segments[0] if segments_N is None else F.embedding(segments_N, self.segments))
        if added_NE is not None:
            x = x + added_NE
        dropped: Tensor = self.drop(self.norm(x).to(self.precision))
        return dropped

    def rows(self, tokens_N: Int[Tensor, "N"]) -> Float[Tensor, "N E"]:
        """Return W[token]."""
        return F.embedding(tokens_N, self.weight)


class MixedEmbedding(Embedding):
    """x = D(sqrt(E) * mix_i(W_i[token]) + P(position)): several matrices, mixed by attention      Kiela et al. 2018

    See `MetaEmbedding`. The first matrix is `weight`, which an output layer may share, and determines the width; the
    others may have other widths.
    """

    def __init__(
        self,
        tables: Sequence[nn.Parameter],
        positions: nn.Module | None,
        dropout: float,
        **parts: Unpack[EmbeddingParts],
    ) -> None:
        super().__init__(tables[0], positions, dropout, **parts)
        sizes = [table.shape[0] for table in tables]
        if len(set(sizes)) > 1:
            raise ValueError(f"embeddings of {sizes} words cannot be mixed: all must have the same vocabulary")
        self.others = nn.ParameterList(tables[1:])
        self.mix = MetaEmbedding([table.shape[1] for table in tables], out_width=tables[0].shape[1])

    def rows(self, tokens_N: Int[Tensor, "N"]) -> Float[Tensor, "N E"]:
        """Mix the rows of each token."""
        mixed: Tensor = self.mix([F.embedding(tokens_N, table) for table in (self.weight, *self.others)])
        return mixed


def make_table(size: int, width: int) -> nn.Parameter:
    """Make a matrix of random vectors with an average length of one, from torch's global generator."""
    return nn.Parameter(torch.randn(size, width) * width**-0.5)


def make_embedding(
    tables: Sequence[nn.Parameter], positions: nn.Module | None, dropout: float, **parts: Unpack[EmbeddingParts]
) -> Embedding:
    """Make an embedding from one matrix, or one that mixes several."""
    if len(tables) == 1:
        return Embedding(tables[0], positions, dropout, **parts)
    return MixedEmbedding(tables, positions, dropout, **parts)


class Output(nn.Module):
    """logits = x W^T + b, where W may be the matrix of the embedding      Press and Wolf 2017"""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None = None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x_NE: Float[Tensor, "N E"]) -> Float[Tensor, "N V"]:
        """Score every word of the vocabulary."""
        bias = None if self.bias is None else self.bias.to(x_NE.dtype)
        return F.linear(x_NE, self.weight.to(x_NE.dtype), bias)

    def select(self, words_U: Int[Tensor, "U"]) -> "Output":
        """Return an output layer that scores these words only, in their order."""
        bias = None if self.bias is None else nn.Parameter(self.bias[words_U], requires_grad=False)
        return Output(nn.Parameter(self.weight[words_U], requires_grad=False), bias)


def outer_parameters(model: nn.Module) -> set[nn.Parameter]:
    """Return the weights outside the hidden layers: embeddings, learned positions and output layers."""
    return {
        parameter
        for module in model.modules()
        if isinstance(module, Embedding | Output | Learned)
        for parameter in module.parameters(recurse=False)
    }
