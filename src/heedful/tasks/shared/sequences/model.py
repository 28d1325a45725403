"""Loaded models that search for what they write, and those among them that map one text to another."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar

from torch import nn

from heedful.base.arguments import check_path, check_several, check_whole
from heedful.base.errors import UserError, by_caller, memory_faults
from heedful.decode.engine import engine_of
from heedful.decode.query import Query
from heedful.decode.scorer import Ensemble, Scorer, SingleModel
from heedful.decode.search import ProgressCallback
from heedful.decode.settings import SearchSettings
from heedful.explain.explanation import SearchNode
from heedful.explain.generators import explain_search
from heedful.models.bundle import Bundle, NetworkType
from heedful.models.networks import EncoderDecoder
from heedful.models.protocols import source_limit
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.loaded_model import LoadedModel, Placement, adapter_folder, read_model
from heedful.tasks.shared.sequences.asked import Answer, Asked, Found, answer
from heedful.tasks.shared.sequences.pipeline import Asking, Pipeline
from heedful.tasks.shared.sequences.search_options import SearchRequest
from heedful.tasks.shared.sequences.source_vectors import SourceVectors
from heedful.tasks.shared.sequences.text_codec import Languages, TextCodec

Item = TypeVar("Item")


class SearchingModel(LoadedModel[NetworkType]):
    """A model that searches for what it writes."""

    _writes: ClassVar[str]  # "translation": what it searches for, in messages
    _vocabulary: ClassVar[str] = "target"  # name of the vocabulary that it writes in

    @cached_property
    def _scorer(self) -> Scorer:
        """What a search asks for scores; it keeps what was recorded on a GPU."""
        raise NotImplementedError

    def _answer(
        self, asked: Asked[Answer], request: SearchRequest, inputs: int, progress: ProgressCallback
    ) -> Sequence[Answer]:
        """Return the answers to some inputs, which ask for these queries."""
        with self._computing(request):
            return answer(engine_of(self._scorer), asked, inputs, progress)

    def _stream(
        self,
        items: Iterable[Item],
        asking: Asking[Item, Answer],
        request: SearchRequest,
        *,
        chunk: int,
        ready: Callable[[], bool] = lambda: True,
        progress: ProgressCallback = lambda ready: None,
        refused: Callable[[UserError], Answer] | None = None,
    ) -> Iterator[Answer]:
        """Yield the answers to a stream of inputs: see `Pipeline`."""
        check_whole("chunk", chunk, least=1)  # here, so that it is refused before the first item is asked for
        around = partial(self._computing, request)
        return Pipeline(engine_of(self._scorer), asking, progress, around, refused).answers(items, chunk, ready)

    @contextmanager
    def _computing(self, request: SearchRequest) -> Iterator[None]:
        with memory_faults(request.memory_advice):
            for network in self._all_networks():
                network.eval()
            yield

    def _check_found(self, found: Found) -> Found:
        """Return what was found, or refuse it if scores are not numbers."""
        if not all(found):  # no hypothesis has a score that is a number
            raise UserError(
                f"The model finds no {self._writes}, as its scores are not numbers: its weights are damaged, or its "
                "training diverged. Train again, more gently."
            )
        return found

    def _record(self, query: Query, settings: SearchSettings, found: Sequence[int]) -> tuple[SearchNode, ...]:
        """Search once more, with a record of the beam, and mark the way to what was found."""
        with evaluation_mode(*self._all_networks()):
            return explain_search(self._scorer, query, settings, self.vocabularies[self._vocabulary], found)


class SequenceModel(SearchingModel[EncoderDecoder], Embeds[EncoderDecoder]):
    """A model that maps one text to another, or an ensemble with the recipe and the tokenizers of the first model."""

    _network = EncoderDecoder
    _ensembles = True
    _handled: ClassVar[str]  # "translated": what is done with a source, in messages

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        device: str = "auto",
        precision: str = "auto",
        ensemble: Sequence[str | PathLike[str]] = (),
        *,
        adapter: str | PathLike[str] | None = None,
    ) -> Self:
        """Load such a model as `heedful.load` does, or several that decode together; refuse any other model."""
        others = [check_path("ensemble", other) for other in check_several(ensemble, "ensemble")]
        folders = [check_path("path", path), *others]
        return read_model(cls, folders, Placement.of(device, precision), adapter=adapter_folder(adapter))

    def __init__(self, bundle: Bundle[EncoderDecoder], *others: Bundle[EncoderDecoder]) -> None:
        super().__init__(bundle)
        self.networks = (bundle.model, *(other.model for other in others))
        self.wording = TextCodec(bundle.recipe, bundle.vocabularies)
        limits = [source_limit(network) for network in self.networks]
        self._longest = min((limit for limit in limits if limit is not None), default=None)
        ends = [end for one in (bundle, *others) if (end := one.recipe.model.longest)]
        self._limiting_key = min(ends)[1] if ends else ""  # key of [model] that sets the maximum length of a text

    @cached_property
    def _scorer(self) -> Scorer:
        return Ensemble(self.networks) if len(self.networks) > 1 else SingleModel(self.network)

    def encode_sources(self, texts: Sequence[str], to: Languages, name: str, first: int) -> list[list[int]]:
        """Return the pieces of sources that the model has positions for, without `</s>`; none for a blank text.

        `name` is the texts' name in messages, `first` the number of their first line.
        """
        sources = self.wording.encode(texts, to, False, name, first)
        self._check_positions(sources, name, first)
        return sources

    def _vector_request(self, to: str | None = None, **options: Any) -> SourceVectors:
        return SourceVectors(self, to, **options)

    def _check_sources(self, sources: Sequence[Sequence[int]], most: int, name: str, first: int = 1) -> None:
        """Refuse a source that the model has too few positions for, or that has more than `most` tokens."""
        self._check_positions(sources, name, first)
        for number, source in enumerate(sources, start=first):
            if len(source) > most:
                raise UserError(
                    f"{name}, line {number:,} has {len(source):,} tokens, but at most {most:,} are "
                    f"{self._handled}: split the line, or raise {by_caller('--max-source', '`max_source`')}."
                )

    def _check_positions(self, sources: Sequence[Sequence[int]], name: str, first: int) -> None:
        """Refuse a source for which the model has too few positions."""
        for number, source in enumerate(sources, start=first):
            if self._longest is not None and len(source) + 1 > self._longest:
                raise UserError(
                    f"{name}, line {number:,} has {len(source) + 1:,} tokens with `</s>`, but this model has positions "
                    f"for {self._longest:,} (`model.{self._limiting_key}`): split the line."
                )

    def _all_networks(self) -> Sequence[nn.Module]:
        return self.networks

    def _own_facts(self) -> Iterator[str]:
        if len(self.networks) > 1:
            yield f"ensemble of {len(self.networks)}"
