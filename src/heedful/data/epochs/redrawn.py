"""A feed whose rows are cut into other pieces in every epoch, prepared one epoch ahead in a background thread."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnySide, AnyTokenizer, side_of
from heedful.data.batch_layout import StaticShape
from heedful.data.epochs.bpe_dropout import Redrawing
from heedful.data.epochs.loader import RowFeed, TrainingFeed
from heedful.data.epochs.plan import Indices
from heedful.data.movable import Movable
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.vocabularies import Vocabularies

RowBatch = TypeVar("RowBatch", bound=Movable)
Stores = Sequence[TokenStore]


@dataclass(frozen=True, eq=False)
class RedrawnRows:
    """The rows of a micro-batch, in the stores of their epoch."""

    stores: Stores
    indices: Indices


class EpochStores:
    """The stores of each epoch: a function of (stores, seed, epoch). Those of the next epoch are made ahead."""

    def __init__(self, stores: Stores, drawings: Mapping[str, Redrawing], seed: int, longest: int) -> None:
        self._stores, self._drawings, self._seed, self._longest = stores, drawings, seed, longest
        self._made: dict[int, _Promise] = {}
        self._lock = threading.Lock()  # of drawings, which remember words

    def __call__(self, epoch: int) -> Stores:
        """Return the stores of an epoch."""
        for wanted in (epoch, epoch + 1):
            if wanted not in self._made:
                self._made[wanted] = _Promise(lambda wanted=wanted: self._make(wanted))  # type: ignore[misc]
        for old in [known for known in self._made if known not in (epoch, epoch + 1)]:
            del self._made[old]
        return self._made[epoch].result()

    def _make(self, epoch: int) -> Stores:
        with self._lock:
            return [self._redrawn(store, number, epoch) for number, store in enumerate(self._stores)]

    def _redrawn(self, store: TokenStore, number: int, epoch: int) -> TokenStore:
        streams = dict(store.streams)
        for place, (name, drawing) in enumerate(self._drawings.items()):
            if name in streams:
                seed = self._seed + number * 0x9E3779B9
                streams[name] = drawing.draw(streams[name], seed, epoch, place, self._longest)
        return replace(store, streams=streams)


class _Promise:
    """A value that a thread makes; it is waited for when it is needed."""

    def __init__(self, make: Callable[[], Stores]) -> None:
        self._make, self._value, self._error = make, None, None
        self._thread = threading.Thread(target=self._run, name="heedful-bpe-dropout", daemon=True)
        self._thread.start()

    def result(self) -> Stores:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._value is not None
        return self._value

    _value: Stores | None
    _error: BaseException | None

    def _run(self) -> None:
        try:
            self._value = self._make()
        except BaseException as error:  # shown where the value is used
            self._error = error


def redraw_rows(feed: TrainingFeed[Any], recipe: Recipe, vocabularies: Vocabularies) -> TrainingFeed[Any]:
    """Return the feed of a recipe's task, with BPE-dropout where the recipe sets it."""
    share = recipe.train.bpe_dropout
    if not share:
        return feed
    assert isinstance(feed, RowFeed), "rules of tasks refuse others"
    sides: dict[str, AnyTokenizer | AnySide] = {"target": side_of(recipe.tokenizer, "target")}
    drawings: dict[str, Redrawing] = {}
    for name, tokenizer in vocabularies.tokenizers.items():
        side = sides.get(name, recipe.tokenizer)
        if side.kind in ("bpe", "byte_bpe"):
            known = next((drawings[other] for other in drawings if vocabularies[other] is tokenizer), None)
            drawings[name] = known or Redrawing(tokenizer, share, side.table)
    if "text" in drawings:
        drawings["second"] = drawings["text"]
    return RedrawnFeed(feed, EpochStores(feed.stores, drawings, recipe.train.seed, recipe.data.max_length))


@dataclass(frozen=True, eq=False)
class RedrawnFeed(Generic[RowBatch]):
    """Training rows whose pieces are drawn anew for every epoch."""

    feed: RowFeed[RowBatch]
    stores: EpochStores

    @property
    def static(self) -> StaticShape | None:
        """The one shape of every batch, where there is one."""
        return self.feed.static

    def plan(self, epoch: int) -> Iterator[RedrawnRows]:
        """Return the micro-batches of an epoch, in order; the same ones whenever it is called."""
        stores = self.stores(epoch)
        return (RedrawnRows(stores, indices) for indices in replace(self.feed, stores=stores).plan(epoch))

    def batch(self, planned: RedrawnRows) -> RowBatch:
        """Make one micro-batch."""
        return replace(self.feed, stores=planned.stores).batch(planned.indices)

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device."""
        return replace(self, feed=self.feed.placed(static, pin))
