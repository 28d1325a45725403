"""Texts as vectors: the output of a trained encoder for a text, or for each of its tokens.

Any model that reads texts has such an encoder: masked language models and classifiers of all families.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, Literal, NamedTuple, Protocol, TypedDict, Unpack, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from heedful.arguments import check_flag, check_texts, check_whole
from heedful.config.model.any import AnyEncoder, text_encoder
from heedful.config.model.encoders import HierarchicalEncoderTable
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import CPU_MULTIPLE, Lengths, layout_of
from heedful.data.batches.documents import DocumentCollator
from heedful.data.batches.texts import AnyTextCollator, TextCollator
from heedful.data.collate import places_of
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.prepare.document_pieces import document_of, document_store
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.errors import UserError, suggestion
from heedful.models.bundle import NetworkType
from heedful.models.hierarchical import HierarchicalEncoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.layers.pooling import POOLS
from heedful.packed import Layout, Nested, Packed
from heedful.tasks.shared.evaluation_mode import evaluation_mode
from heedful.tasks.shared.loaded_model import LoadedModel
from heedful.tasks.shared.shown_options import Option, show_options

PoolName = Literal["mean", "first", "max"]
Vectors = NDArray[np.float32]
LAST: Final = -1


class TokenVectors(NamedTuple):
    """The tokens of a text and their vectors."""

    pieces: list[str]  # tokens in readable form: see `Tokenizer.pieces`
    vectors: Vectors  # tokens x width


class HasEncoder(Protocol):
    """A model whose encoder can be used on its own."""

    @property
    def recipe(self) -> Recipe:
        """Recipe, which says how texts are read."""
        ...

    @property
    def vocabularies(self) -> Vocabularies:
        """Vocabularies, among them the tokenizer "text"."""
        ...

    @property
    def network(self) -> nn.Module:
        """Network with an `encoder`."""
        ...


class EmbeddingOptions(TypedDict, total=False):
    """Options of `embed`."""

    pool: Annotated[
        PoolName,
        Option('How vectors of tokens become one: their "mean", their "max", or the "first", of `<s>`.', "mean"),
    ]
    layer: Annotated[int, Option("Layer of a Transformer: 0 is the embedding, 1 the first block, -1 the last.", LAST)]
    markers: Annotated[
        bool, Option('Whether `<s>` and `</s>` count as tokens, as they do for the pool "first".', False)
    ]


@overload
def embed(
    model: HasEncoder, texts: str | Iterable[str], of: Literal["text"] = "text", **options: Unpack[EmbeddingOptions]
) -> Vectors: ...
@overload
def embed(
    model: HasEncoder, texts: str | Iterable[str], of: Literal["tokens"], **options: Unpack[EmbeddingOptions]
) -> list[TokenVectors]: ...
def embed(
    model: HasEncoder,
    texts: str | Iterable[str],
    of: Literal["text", "tokens"] = "text",
    **options: Unpack[EmbeddingOptions],
) -> Vectors | list[TokenVectors]:
    """Return one vector per text (texts x width), or with `of="tokens"` the pieces of each text and their vectors.

    Texts are read as in training: one that is longer than `data.max_length` is cut; a blank one has no tokens, and its
    vector is zero. With a hierarchical encoder, a text's vector is pooled from those of its sentences.
    """
    if of not in ("text", "tokens"):
        raise UserError(f'`of` is "{of}", but must be "text" or "tokens".')
    unknown = next((name for name in options if name not in EmbeddingOptions.__annotations__), None)
    if unknown is not None:
        raise TypeError(f"`{unknown}` is not an option.{suggestion(unknown, list(EmbeddingOptions.__annotations__))}")
    work = _Embedding(model, **options)
    found = work.of_texts if of == "text" else work.of_tokens
    checked = check_texts([texts] if isinstance(texts, str) else texts)
    TextForm.of(model.recipe.data).check(checked)
    return found(checked)


def states_of(encoder: nn.Module, text: Packed | Nested, layer: int = LAST) -> Packed:
    """Return the vectors of tokens after a block of an encoder; 0 is the embedding, -1 the encoder's output."""
    if not isinstance(encoder, TransformerEncoder) or not isinstance(text, Packed):
        encoded: Packed = encoder(text)
        return encoded
    blocks = len(encoder.blocks)
    if layer % (blocks + 1) == blocks:
        return encoder(text)  # with the norm after the last block, where there is one
    x_NE = encoder.embedding(text.values, text.layout, text.segments)
    for block in encoder.blocks[: layer % (blocks + 1)]:
        x_NE = block(x_NE, text.layout)
    return text.with_values(x_NE)


class Embeds(LoadedModel[NetworkType]):
    """A loaded model whose encoder can be used on its own."""

    @overload
    def embed(
        self, texts: str | Iterable[str], of: Literal["text"] = "text", **options: Unpack[EmbeddingOptions]
    ) -> Vectors: ...
    @overload
    def embed(
        self, texts: str | Iterable[str], of: Literal["tokens"], **options: Unpack[EmbeddingOptions]
    ) -> list[TokenVectors]: ...
    @show_options(EmbeddingOptions)
    def embed(
        self, texts: str | Iterable[str], of: Literal["text", "tokens"] = "text", **options: Unpack[EmbeddingOptions]
    ) -> Vectors | list[TokenVectors]:
        """Return one vector per text (texts x width), or with `of="tokens"` the pieces of each text and their vectors.

        Texts are read as in training: one that is longer than `data.max_length` is cut; a blank one has no tokens, and
        its vector is zero. With a hierarchical encoder, a text's vector is pooled from those of its sentences.
        """
        return embed(self, texts, of, **options)


class _Embedding:
    """One request for vectors."""

    def __init__(self, model: HasEncoder, pool: PoolName = "mean", layer: int = LAST, markers: bool = False) -> None:
        if pool not in get_args(PoolName):
            raise UserError(f'`pool` is "{pool}", but must be "mean", "first" or "max".')
        check_whole("layer", layer)
        check_flag("markers", markers)
        encoder = getattr(model.network, "encoder", None)
        if not isinstance(encoder, nn.Module):
            raise UserError("The network of this model is its program's own and has no `encoder`: it has no vectors.")
        self._model, self._encoder, self._tokenizer = model, encoder, model.vocabularies["text"]
        self._pool, self._layer, self._markers = pool, layer, markers
        _check_layer(self._encoder, layer)

    def of_texts(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each text."""
        width = _encoder_table(self._model.recipe).memory_width
        vectors, pool = np.zeros((len(texts), width), np.float32), POOLS[self._pool](width)
        with self._using() as device:
            for rows, text in self._batches(texts):
                states = states_of(self._encoder, text.to(device), self._layer)
                values_NE, layout = states.values.float(), states.layout
                if isinstance(text, Packed) and self._pool != "first":
                    places, lengths = self._places(text.layout, len(rows), before=1)
                    values_NE = values_NE[torch.from_numpy(places).to(device)]
                    layout = layout_of(lengths, int(lengths.max())).to(device)
                vectors[rows] = pool(values_NE, layout)[: len(rows)].cpu().numpy()
        vectors[[not text.strip() for text in texts]] = 0  # markers alone do not count
        return vectors

    def of_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the pieces of each text, and a vector for each."""
        found: dict[int, TokenVectors] = {}
        with self._using() as device:
            for rows, text in self._batches(texts):
                if isinstance(text, Nested):
                    words, encoder = text.words, _words_encoder(self._encoder)
                    places, of_sentences = self._places(words.layout, text.sentences.tokens, before=0)
                    lengths = _sums(of_sentences, text.sentences)
                else:
                    words, encoder = text, self._encoder
                    places, lengths = self._places(words.layout, len(rows), before=1)
                values = states_of(encoder, words.to(device), self._layer).values.float().cpu().numpy()[places]
                pieces = self._tokenizer.pieces(words.values.numpy()[places].tolist())
                ends = np.cumsum(lengths)
                for row, begin, end in zip(rows.tolist(), (ends - lengths).tolist(), ends.tolist(), strict=True):
                    found[row] = TokenVectors(pieces[begin:end], values[begin:end])
        return [found[row] for row in range(len(texts))]

    @contextmanager
    def _using(self) -> Iterator[torch.device]:
        """Put the network into inference mode; yield its device."""
        with torch.inference_mode(), evaluation_mode(self._model.network):
            yield next(self._model.network.parameters()).device

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[Indices, Packed | Nested]]:
        """Yield batches of texts of similar lengths with their indices; padding sequences may follow the texts."""
        data = self._model.recipe.data
        formed = [TextForm.of(data)(text) for text in texts]
        collator: AnyTextCollator = TextCollator(data.max_length, data.cut)
        table = _encoder_table(self._model.recipe)
        if isinstance(table, HierarchicalEncoderTable):
            collator = DocumentCollator(data.max_length, table.max_sentence, data.cut)
            store = document_store([document_of(text, TextForm.of(data)) for text in texts], self._tokenizer)
        else:
            store = TokenStore.of(text=self._tokenizer.encode_batch([text.strip() and text for text in formed]))
        costs = collator.costs([store], np.arange(len(store)))
        for rows in batches_by_length(costs, batch_tokens=data.batch_tokens):
            yield rows, collator.batch([store], rows, multiple=CPU_MULTIPLE).text

    def _places(self, layout: Layout, count: int, before: int) -> tuple[Indices, Lengths]:
        """Return the indices of the tokens of the first `count` sequences, and the number of tokens of each.

        A sequence has `before` markers before it and one after it.
        """
        starts, lengths = layout.offsets[:count].numpy().astype(np.int64), layout.lengths[:count].numpy()
        kept = lengths.astype(np.int64) - (0 if self._markers else before + 1)
        return places_of(starts + (0 if self._markers else before), kept), kept


def _check_layer(encoder: nn.Module, layer: int) -> None:
    if not isinstance(encoder, TransformerEncoder):
        if layer != LAST:
            raise UserError(f"`layer` is {layer}, but only Transformers have layers to choose from: leave it out.")
        return
    blocks = len(encoder.blocks)
    if not -blocks - 1 <= layer <= blocks:
        raise UserError(
            f"`layer` is {layer}, but the encoder has {blocks} layers: use 0, the embedding, to {blocks}, or -1 for "
            "the last."
        )


def _encoder_table(recipe: Recipe) -> AnyEncoder:
    table = text_encoder(recipe.model)
    assert table is not None, f"{recipe.model.family} has no encoder of texts"
    return table


def _words_encoder(encoder: nn.Module) -> nn.Module:
    assert isinstance(encoder, HierarchicalEncoder)
    return encoder.words.encoder


def _sums(of_sentences: Lengths, sentences: Layout) -> Lengths:
    """Sum over the sentences of each document."""
    ends = sentences.offsets.numpy()
    return np.diff(np.concatenate(([0], np.cumsum(of_sentences)))[ends])
