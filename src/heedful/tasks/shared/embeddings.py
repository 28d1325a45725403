"""Texts as vectors: the output of a trained encoder for a text, or for each of its tokens.

Any model that reads texts has such an encoder: masked language models, classifiers of all families and translators. Of
a language model it is the decoder, whose vector of a token depends only on preceding tokens.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypedDict, Unpack, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heedful.base.arguments import check_flag, check_texts, check_whole
from heedful.base.errors import UserError, suggestion
from heedful.base.options import Option, show_options
from heedful.base.packed import Layout, Nested, Packed
from heedful.config.model.any import text_encoder
from heedful.config.model.encoders import HierarchicalEncoderTable
from heedful.data.batches.texts import AnyTextCollator, DocumentCollator, TextCollator, cut_texts
from heedful.data.collate import CPU_MULTIPLE, Lengths, layout_of, places_of
from heedful.data.epochs.plan import Indices, batches_by_length
from heedful.data.prepare.documents import document_of, document_store
from heedful.data.text_form import TextForm
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.encoding import encode_running_text
from heedful.models.bundle import NetworkType
from heedful.models.hierarchical import HierarchicalEncoder
from heedful.models.networks import LanguageEncoder, LanguageModel, reader_of
from heedful.models.protocols import Decoder
from heedful.models.recurrent.encoder import summary
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.nn.layers.pooling import POOLS
from heedful.tasks.shared.loaded_model import LoadedModel

PoolName = Literal["mean", "first", "max", "last", "context"]
Vectors = NDArray[np.float32]
LAST: Final = -1


class TokenVectors(NamedTuple):
    """The tokens of a text and their vectors."""

    pieces: list[str]  # tokens in readable form: see `Tokenizer.pieces`
    vectors: Vectors  # tokens x width


class EmbeddingOptions(TypedDict, total=False):
    """Options of `embed`."""

    pool: Annotated[
        PoolName | None,
        Option(
            'How vectors of tokens become one: their "mean", their "max", the "first", of `<s>`, or the "last".\n'
            '"context" is the one vector that the decoder of a translator without attention gets, and its default; '
            'that of all other models is "mean".'
        ),
    ]
    layer: Annotated[int, Option("Layer of a Transformer: 0 is the embedding, 1 the first block, -1 the last.", LAST)]
    markers: Annotated[
        bool, Option('Whether `<s>` and `</s>` count as tokens, as they do for the pool "first".', False)
    ]
    to: Annotated[str | None, Option("Target language, which a translator into several languages reads too.")]


def states_of(encoder: nn.Module, text: Packed | Nested, layer: int = LAST) -> Packed:
    """Return the vectors of tokens after a block of an encoder; 0 is the embedding, -1 the encoder's output."""
    if isinstance(encoder, LanguageEncoder) and isinstance(text, Packed):
        return decoder_states(encoder.decoder, encoder.marked(text), layer)
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


def decoder_states(decoder: Decoder, text: Packed, layer: int = LAST) -> Packed:
    """Return the vectors of tokens after a block of a decoder without memory; -1 is what its output layer scores."""
    if isinstance(decoder, TransformerDecoder) and layer % (len(decoder.blocks) + 1) < len(decoder.blocks):
        x_NE = decoder.embedding(text.values, text.layout)
        for block in decoder.blocks[: layer % (len(decoder.blocks) + 1)]:
            x_NE = block(x_NE, text.layout, None)
        return text.with_values(x_NE)
    return text.with_values(decoder.states(text, None))


class Embeds(LoadedModel[NetworkType]):
    """A loaded model whose encoder can be used on its own."""

    @overload
    def embed(
        self,
        texts: str | Iterable[str],
        of: Literal["text"] = "text",
        *,
        name: str = "texts",
        first: int = 1,
        tell_cut: Callable[[int], None] = lambda texts: None,
        **options: Unpack[EmbeddingOptions],
    ) -> Vectors: ...
    @overload
    def embed(
        self,
        texts: str | Iterable[str],
        of: Literal["tokens"],
        *,
        name: str = "texts",
        first: int = 1,
        tell_cut: Callable[[int], None] = lambda texts: None,
        **options: Unpack[EmbeddingOptions],
    ) -> list[TokenVectors]: ...
    @show_options(EmbeddingOptions)
    def embed(
        self,
        texts: str | Iterable[str],
        of: Literal["text", "tokens"] = "text",
        *,
        name: str = "texts",
        first: int = 1,
        tell_cut: Callable[[int], None] = lambda texts: None,
        **options: Unpack[EmbeddingOptions],
    ) -> Vectors | list[TokenVectors]:
        """Return one vector per text (texts x width), or with `of="tokens"` the pieces of each text and their vectors.

        Texts are read as in training: one that is longer than `data.max_length` is cut; a blank one has no tokens, and
        its vector is zero. With a hierarchical encoder, a text's vector is pooled from those of its sentences. `name`
        is the texts' name in messages, and `first` the number of the first one. `tell_cut` is called with the number of
        texts that were cut.
        """
        if of not in ("text", "tokens"):
            raise UserError(f'`of` is "{of}", but must be "text" or "tokens".')
        declared = list(EmbeddingOptions.__annotations__)
        unknown = next((name for name in options if name not in declared), None)
        if unknown is not None:
            raise TypeError(f"`{unknown}` is not an option.{suggestion(unknown, declared)}")
        work = self._vector_request(**options)
        checked = check_texts([texts] if isinstance(texts, str) else texts, name)
        TextForm.of(self.recipe.data).check(checked, name, first)
        found = work.of_texts(checked, name, first) if of == "text" else work.of_tokens(checked, name, first)
        tell_cut(work.cut)
        return found

    def _vector_request(self, to: str | None = None, **options: Any) -> "VectorRequest":
        if to is not None:
            raise UserError(f"`to` is `{to}`, but only translators have target languages: leave it out.")
        return VectorRequest(self, **options)


class VectorRequest:
    """One request for vectors."""

    vocabulary: ClassVar[str] = "text"  # name of the one that texts are read with
    before = 1  # markers before a text: `<s>`

    def __init__(
        self, model: LoadedModel[Any], pool: PoolName | None = None, layer: int = LAST, markers: bool = False
    ) -> None:
        pool = pool or self.usual_pool(model)
        if pool not in get_args(PoolName):
            raise UserError(f'`pool` is "{pool}", but must be "mean", "first", "max", "last" or "context".')
        if pool == "context" and self.usual_pool(model) != pool:
            raise UserError(
                '`pool` is "context", but only a translator or a parser without attention has one vector for a text: '
                'use "mean", "max" or "last".'
            )
        network = model.network
        causal = isinstance(network, LanguageModel) or isinstance(getattr(network, "encoder", None), LanguageEncoder)
        if pool == "first" and causal:  # the vector of a token knows the tokens before it alone
            raise UserError(
                '`pool` is "first", but the first vector of a language model is the same for every text: use "last" or '
                '"mean".'
            )
        check_whole("layer", layer)
        check_flag("markers", markers)
        self._model, self._encoder, self._tokenizer = model, _reader(model.network), model.vocabularies[self.vocabulary]
        self._pool, self._layer, self._markers = pool, layer, markers
        self.cut = 0  # texts that were longer than the model reads
        _check_layer(reader_of(model.network), layer)
        if pool == "context" and layer != LAST:
            raise UserError(f"`layer` is {layer}, but the context is made by the last one: leave it out.")

    def usual_pool(self, model: LoadedModel[Any]) -> PoolName:
        """Return the pool of a call that names none."""
        return "mean"

    def of_texts(self, texts: Sequence[str], name: str, first: int) -> Vectors:
        """Return a vector for each text."""
        vectors = np.zeros((len(texts), self._width()), np.float32)
        with self._using() as device:
            for rows, text in self._batches(texts, name, first):
                vectors[rows] = self._pooled(text, self._states(text.to(device)), len(rows)).float().cpu().numpy()
        vectors[[not text.strip() for text in texts]] = 0  # markers alone do not count
        return vectors

    def _pooled(self, text: Packed | Nested, states: Packed, count: int) -> Tensor:
        """Return one vector for each of the first `count` texts."""
        if self._pool == "context":
            return summary(states)[:count]
        values_NE, layout = states.values.float(), states.layout
        if isinstance(text, Packed) and self._pool != "first":
            places, lengths = self._places(text.layout, count, self.before)
            values_NE = values_NE[torch.from_numpy(places).to(values_NE.device)]
            layout = layout_of(lengths, int(lengths.max())).to(values_NE.device)
        pooled: Tensor = POOLS[self._pool](self._width())(values_NE, layout)
        return pooled[:count]

    def of_tokens(self, texts: Sequence[str], name: str, first: int) -> list[TokenVectors]:
        """Return the pieces of each text, and a vector for each."""
        found: dict[int, TokenVectors] = {}
        with self._using() as device:
            for rows, text in self._batches(texts, name, first):
                if isinstance(text, Nested):
                    assert isinstance(self._encoder, HierarchicalEncoder)
                    words, encoder = text.words, self._encoder.words.encoder
                    places, of_sentences = self._places(words.layout, text.sentences.tokens, before=0)
                    ends = text.sentences.offsets.numpy()  # of documents
                    lengths = np.diff(np.concatenate(([0], np.cumsum(of_sentences)))[ends])
                else:
                    words, encoder = text, self._encoder
                    places, lengths = self._places(words.layout, len(rows), self.before)
                values = self._states(words.to(device), encoder).values.float().cpu().numpy()[places]
                pieces = self._tokenizer.pieces(words.values.numpy()[places].tolist())
                ends = np.cumsum(lengths)
                for row, begin, end in zip(rows.tolist(), (ends - lengths).tolist(), ends.tolist(), strict=True):
                    found[row] = TokenVectors(pieces[begin:end], values[begin:end])
        nothing = TokenVectors([], np.zeros((0, self._width()), np.float32))
        return [found.get(row, nothing) for row in range(len(texts))]

    def _states(self, text: Packed | Nested, encoder: nn.Module | None = None) -> Packed:
        network = self._model.network
        if isinstance(network, LanguageModel) and isinstance(text, Packed):
            return decoder_states(network.decoder, text, self._layer)
        return states_of(encoder or self._encoder, text, self._layer)

    @contextmanager
    def _using(self) -> Iterator[torch.device]:
        """Put the network into inference mode; yield its device."""
        with torch.inference_mode(), evaluation_mode(self._model.network):
            yield self._model.device

    def _batches(self, texts: Sequence[str], name: str, first: int) -> Iterator[tuple[Indices, Packed | Nested]]:
        """Yield batches of texts of similar lengths with their indices; padding sequences may follow the texts.

        `name` is the texts' name in messages, `first` the number of the first one.
        """
        data = self._model.recipe.data
        formed = [TextForm.of(data)(text) for text in texts]
        collator: AnyTextCollator = TextCollator(data.max_length, data.cut)
        table = text_encoder(self._model.recipe.model)
        if isinstance(table, HierarchicalEncoderTable):
            letters = table.letters is not None
            collator = DocumentCollator(data.max_length, table.max_sentence, data.cut, letters=letters)
            store = document_store([document_of(text, TextForm.of(data)) for text in texts], self._tokenizer, letters)
        elif isinstance(self._model.network, LanguageModel):
            store = TokenStore.of(text=[encode_running_text(text, self._tokenizer) for text in formed])
        else:
            store = TokenStore.of(text=self._tokenizer.encode_batch([text.strip() and text for text in formed]))
        self.cut += sum(cut_texts(collator, store))
        costs = collator.costs([store], np.arange(len(store)))
        for rows in batches_by_length(costs, batch_tokens=data.batch_tokens):
            yield rows, collator.batch([store], rows, multiple=CPU_MULTIPLE).inputs

    def _places(self, layout: Layout, count: int, before: int) -> tuple[Indices, Lengths]:
        """Return the indices of the tokens of the first `count` sequences, and the number of tokens of each.

        A sequence has `before` markers before it and one after it.
        """
        starts, lengths = layout.offsets[:count].numpy().astype(np.int64), layout.lengths[:count].numpy()
        kept = lengths.astype(np.int64) - (0 if self._markers else before + 1)
        return places_of(starts + (0 if self._markers else before), kept), kept

    def _width(self) -> int:
        """Return the width of vectors."""
        network, model = self._model.network, self._model.recipe.model
        if isinstance(network, LanguageModel):
            return network.output.weight.shape[1]
        table = text_encoder(model)
        assert table is not None, f"{model.family} has no encoder of texts"
        return table.memory_width


def _reader(network: nn.Module) -> nn.Module:
    """Return the part of a network that reads texts."""
    if getattr(network, "letters", None) is not None:
        raise UserError("This model reads the letters of words too, without which its encoder has no vectors of texts.")
    reader = getattr(network, "decoder" if isinstance(network, LanguageModel) else "encoder", None)
    if not isinstance(reader, nn.Module):
        raise UserError("The network of this model is its program's own and has no `encoder`: it has no vectors.")
    return reader


def _check_layer(encoder: nn.Module | None, layer: int) -> None:
    if not isinstance(encoder, TransformerEncoder | TransformerDecoder):
        if layer != LAST:
            raise UserError(f"`layer` is {layer}, but only Transformers have layers to choose from: leave it out.")
        return
    blocks, part = len(encoder.blocks), "encoder" if isinstance(encoder, TransformerEncoder) else "decoder"
    if not -blocks - 1 <= layer <= blocks:
        raise UserError(
            f"`layer` is {layer}, but the {part} has {blocks} layers: use 0, the embedding, to {blocks}, or "
            "-1 for the last."
        )
