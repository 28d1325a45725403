"""BPE-dropout: a feed whose rows are cut into other pieces in every epoch, prepared one epoch ahead in a thread."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import AnySide, AnyTokenizer, side_of
from heedful.data.collate import Movable, StaticShape, places_of
from heedful.data.epochs.loader import RowFeed, TrainingFeed
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import Ragged, TokenStore, Values
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies

# --- words are cut into other pieces      Provilkov et al. 2020 -------------------------------------------------------
#
# A word starts as characters. In every step each possible merge is left out with probability p, and the one of highest
# priority among the others is applied; where none is left, the word is done. With p = 0 that is BPE itself.
#
# All words of a block are merged at once, step by step, on arrays. Which merges are left out is a hash of (seed, epoch,
# row, place of the character, step): the pieces of a row do not depend on the rows around it, nor on where a run was
# resumed.


Ids = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_NONE: Final = np.iinfo(np.int32).max  # rank of two symbols that cannot be merged
_BLOCK: Final = 1 << 13  # rows that are merged together
_BYTE_SPACE: Final = "Ġ"
_MASK: Final = (1 << 64) - 1
_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Merges:
    """The merges of a BPE vocabulary, in the order of their priority, as ids."""

    def __init__(self, tokenizer: Tokenizer, table: str = "tokenizer") -> None:
        model = json.loads(tokenizer.to_json())["model"] if tokenizer.portable else {}
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model.get("merges", ())]
        odd = ("dropout", "continuing_subword_prefix", "byte_fallback", "ignore_merges")
        if model.get("type") != "BPE" or not pairs or any(model.get(key) for key in odd):
            raise UserError(
                '`train.bpe_dropout` needs the merges of a vocabulary that Heedful trained with `kind = "bpe"` or '
                f'"byte_bpe", which `{table}` is not: leave it out.'
            )
        ids: dict[str, int] = model["vocab"]
        self.size, self.suffix = tokenizer.size, model.get("end_of_word_suffix") or ""
        keys = np.array([ids[one] * self.size + ids[other] for one, other in pairs], np.int64)
        order = np.argsort(keys, kind="stable")
        self._keys, self._ranks = keys[order], order.astype(np.int64)
        self.merged: Ids = np.array([ids[one + other] for one, other in pairs], np.int64)

    def ranks(self, left: Ids, right: Ids) -> Ids:
        """Return the priority of merging each two symbols, 0 first; _NONE where there is no such merge."""
        wanted = left * self.size + right
        places = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[places] == wanted, self._ranks[places], _NONE)


@dataclass(frozen=True, eq=False)
class Symbols:
    """Symbols end to end, with the number of their word, and a hash of their place that draws depend on."""

    ids: Ids
    words: Ids  # not decreasing
    hashes: Hashes
    ranks: Ids | None = None  # of each symbol with the next one, where that is known


def merge(symbols: Symbols, merges: Merges, share: float) -> tuple[Ids, Ids]:
    """Merge the symbols of every word, each possible merge of a step left out with probability `share`.

    Returns the ids of the pieces, and the number of the word of each, in order.
    """
    ids, words, hashes = symbols.ids.copy(), symbols.words.copy(), symbols.hashes
    ranks = _first_ranks(ids, words, merges) if symbols.ranks is None else symbols.ranks.copy()
    done: list[tuple[Ids, Ids]] = [(words[:0], ids[:0])]
    limit, step = np.uint64(min(int(share * 2**64), _MASK)), 0
    while len(ids):
        starts = np.flatnonzero(np.diff(words, prepend=-1))
        count = len(ids)
        candidates = ranks * count + np.arange(count)
        if share:
            dropped = _mix(hashes + np.uint64(step * int(_FACTORS[0]) & _MASK)) < limit
            candidates[dropped | (ranks == _NONE)] = _NONE * count
        best = np.minimum.reduceat(candidates, starts)
        goes_on = best < _NONE * count
        ends = np.append(starts[1:], count)
        active = np.repeat(goes_on, ends - starts)
        done.append((words[~active], ids[~active]))
        at = best[goes_on] % count  # the symbol whose pair is merged, one in each word that goes on
        ids[at] = merges.merged[ranks[at]]
        kept = active.copy()
        kept[at + 1] = False
        places = (np.cumsum(kept) - 1)[at]
        ids, words, hashes, ranks = ids[kept], words[kept], hashes[kept], ranks[kept]
        # Look up the pairs on both sides of symbols that have changed.
        lefts = np.concatenate((places, places[places > 0] - 1))
        ranks[places] = _NONE
        lefts = lefts[lefts + 1 < len(ids)]
        lefts = lefts[words[lefts] == words[lefts + 1]]
        ranks[lefts] = merges.ranks(ids[lefts], ids[lefts + 1])
        step += 1
    order = np.argsort(np.concatenate([part for part, _ in done]), kind="stable")
    both = (np.concatenate([part[which] for part in done])[order] for which in (1, 0))
    pieces, owners = both
    return pieces, owners


def _first_ranks(ids: Ids, words: Ids, merges: Merges) -> Ids:
    ranks = np.full(len(ids), _NONE, np.int64)
    inside = np.flatnonzero(words[:-1] == words[1:])
    ranks[inside] = merges.ranks(ids[inside], ids[inside + 1])
    return ranks


def _mix(values: Hashes) -> Hashes:
    """Hash numbers (splitmix64, Steele et al. 2014)."""
    values = values ^ (values >> np.uint64(30))
    values = values * _FACTORS[1]
    values = values ^ (values >> np.uint64(27))
    values = values * _FACTORS[2]
    return values ^ (values >> np.uint64(31))


class Redrawing:
    """Cuts the rows of a stream of pieces anew.

    Pieces are read as runs that end where a word of the text ends; the characters of each distinct run are found once.
    A run that the merges do not give back, such as one with an unknown character, stays as it is.
    """

    def __init__(self, tokenizer: Tokenizer, share: float, table: str = "tokenizer") -> None:
        self._tokenizer, self._share, self._merges = tokenizer, share, Merges(tokenizer, table)
        pieces = [tokenizer._inner.id_to_token(number) or "" for number in range(tokenizer.size)]
        marker = np.arange(tokenizer.size) < tokenizer.markers
        marker[[*tokenizer.kept]] = True
        suffix = self._merges.suffix
        self._pieces = pieces
        self._begins = marker | np.array([not suffix and piece.startswith(_BYTE_SPACE) for piece in pieces])
        self._ends = marker | np.array([bool(suffix) and piece.endswith(suffix) for piece in pieces])
        self._known: dict[int, int] = {}  # hash of a run -> its number
        self._ids: list[Ids] = []  # of each run: its characters
        self._words: list[Ids] = []  # and the number of the word of each
        self._flat: tuple[Ids, Ids, Ids, Ids, Ids] | None = None  # all of them end to end; None after a new run

    def draw(self, stream: Ragged, seed: int, epoch: int, number: int, longest: int) -> Ragged:
        """Return a stream with the pieces of an epoch; `number` tells streams apart.

        A row that would have more than `longest` pieces keeps those that it has.
        """
        base = _mix(np.array([seed & _MASK], np.uint64)) ^ np.uint64(epoch * 64 + number)
        values, lengths = [], []
        for start in range(0, len(stream), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(stream)))
            pieces, sizes = self._block(stream, rows, _mix(base), longest)
            values.append(pieces)
            lengths.append(sizes)
        offsets = np.zeros(len(stream) + 1, np.int64)
        if lengths:
            np.cumsum(np.concatenate(lengths), out=offsets[1:])
        kind = stream.values.dtype
        return Ragged(np.concatenate([np.empty(0, kind), *(part.astype(kind) for part in values)]), offsets)

    def _block(self, stream: Ragged, rows: Ids, base: Hashes, longest: int) -> tuple[Values, Ids]:
        plain, lengths = stream.gather(rows)
        runs, run_rows = self._runs(plain.astype(np.int64), lengths)
        flat, words, ranks, first, of_run = self._all_runs()
        sizes = of_run[runs]
        places = places_of(first[runs], sizes)
        owner = np.repeat(np.arange(len(runs)), sizes)
        number = np.cumsum(np.diff(owner * len(flat) + words[places], prepend=-1) != 0) - 1  # of words in the block
        row = run_rows[owner]
        in_row = np.arange(len(row)) - np.searchsorted(row, row)
        hashes = _mix(_mix(base + rows[row].astype(np.uint64) * _FACTORS[0]) + in_row.astype(np.uint64) * _FACTORS[1])
        pieces, of_word = merge(Symbols(flat[places], number, hashes, ranks[places]), self._merges, self._share)
        row_of_word = row[np.flatnonzero(np.diff(number, prepend=-1))]
        new_rows = row_of_word[of_word]
        counts = np.bincount(new_rows, minlength=len(rows))
        if (counts <= longest).all():
            return pieces, counts
        return _choose(pieces, counts, plain.astype(np.int64), lengths, counts <= longest)

    def _all_runs(self) -> tuple[Ids, Ids, Ids, Ids, Ids]:
        """Return characters, words and ranks of all known runs end to end, where each starts, and its length."""
        if self._flat is None:
            none = np.empty(0, np.int64)
            ids, words = np.concatenate([none, *self._ids]), np.concatenate([none, *self._words])
            sizes = np.array([len(run) for run in self._ids], np.int64)
            owner = np.repeat(np.arange(len(sizes)), sizes) * (len(words) + 1) + words
            self._flat = ids, words, _first_ranks(ids, owner, self._merges), np.cumsum(sizes) - sizes, sizes
        return self._flat

    def _runs(self, ids: Ids, lengths: Ids) -> tuple[Ids, Ids]:
        """Return the number of each run of pieces, and the index of its row."""
        rows = np.repeat(np.arange(len(lengths)), lengths)
        if not len(ids):
            return rows, rows
        begins = self._begins[ids]
        begins[1:] |= self._ends[ids[:-1]] | (rows[1:] != rows[:-1])
        begins[0] = True
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(ids))
        place = np.arange(len(ids)) - np.repeat(starts, ends - starts)
        parts = _mix(ids.astype(np.uint64) + _FACTORS[0] * (place.astype(np.uint64) + np.uint64(1)))
        hashes, firsts, inverse = np.unique(np.add.reduceat(parts, starts), return_index=True, return_inverse=True)
        unknown = [at for at, value in enumerate(hashes.tolist()) if value not in self._known]
        self._learn([ids[starts[firsts[at]] : ends[firsts[at]]] for at in unknown], hashes[unknown].tolist())
        numbers = np.array([self._known[value] for value in hashes.tolist()], np.int64)
        return numbers[inverse], rows[starts]

    def _learn(self, runs: Sequence[Ids], hashes: Sequence[int]) -> None:
        """Find the characters of runs that were not seen before, and check that merging gives the runs back."""
        if not runs:
            return
        self._flat = None
        spelled = [self._characters(run) for run in runs]
        flat = [ids for words in spelled for ids in words]
        numbers = np.repeat(np.arange(len(flat)), [len(ids) for ids in flat]) if flat else np.empty(0, np.int64)
        joined = np.concatenate([np.empty(0, np.int64), *flat])
        pieces, owners = merge(Symbols(joined, numbers, np.zeros(len(joined), np.uint64)), self._merges, 0.0)
        counts = np.bincount(owners, minlength=len(flat)) if len(flat) else np.empty(0, np.int64)
        merged = iter(np.split(pieces, np.cumsum(counts)[:-1])) if flat else iter(())
        for run, words, value in zip(runs, spelled, hashes, strict=True):
            again = [next(merged) for _ in words]
            same = bool(words) and np.array_equal(np.concatenate(again), run)
            self._known[value] = len(self._ids)
            self._ids.append(np.concatenate(words) if same else run)
            sizes = [len(ids) for ids in words] if same else [1] * len(run)
            self._words.append(np.repeat(np.arange(len(sizes)), sizes))

    def _characters(self, run: Ids) -> list[Ids]:
        """Return the characters of each word of a run as ids; nothing if one of them is not in the vocabulary."""
        inner: Any = self._tokenizer._inner
        if int(run.min()) < self._tokenizer.markers:
            return []
        if self._merges.suffix:
            word = "".join(self._pieces[token] for token in run).removesuffix(self._merges.suffix)
            words = [[*word[:-1], word[-1:] + self._merges.suffix]]
        else:
            (text,) = self._tokenizer.decode_batch([run.tolist()])
            words = [list(part) for part, _ in inner.pre_tokenizer.pre_tokenize_str(text)]
        ids = [[inner.token_to_id(symbol) for symbol in symbols] for symbols in words]
        if any(token is None for symbols in ids for token in symbols):
            return []
        return [np.array(symbols, np.int64) for symbols in ids]


def _choose(drawn: Ids, counts: Ids, plain: Ids, lengths: Ids, fits: NDArray[np.bool_]) -> tuple[Ids, Ids]:
    """Return the drawn pieces of rows where they fit, and the plain ones of the others."""

    def parts() -> Iterator[Ids]:
        for new, old, fit in zip(
            np.split(drawn, np.cumsum(counts)[:-1]), np.split(plain, np.cumsum(lengths)[:-1]), fits, strict=True
        ):
            yield new if fit else old

    return np.concatenate(list(parts())), np.where(fits, counts, lengths)


# --- the feed ---------------------------------------------------------------------------------------------------------


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
        self._made: dict[int, Future[Stores]] = {}
        self._lock = threading.Lock()  # of drawings, which remember words
        self._kept = threading.Lock()  # of what is made: a loader and who names examples ask for epochs

    def __call__(self, epoch: int) -> Stores:
        """Return the stores of an epoch."""
        with self._kept:
            for wanted in (epoch, epoch + 1):
                if wanted not in self._made:
                    self._made[wanted] = Future()
                    made = (self._made[wanted], wanted)
                    threading.Thread(target=self._make, args=made, name="heedful-bpe-dropout", daemon=True).start()
            for old in [known for known in self._made if known not in (epoch, epoch + 1)]:
                del self._made[old]
            mine = self._made[epoch]
        return mine.result()

    def _make(self, made: "Future[Stores]", epoch: int) -> None:
        try:
            with self._lock:
                made.set_result([self._redrawn(store, number, epoch) for number, store in enumerate(self._stores)])
        except BaseException as error:  # raised where the stores are used
            made.set_exception(error)

    def _redrawn(self, store: TokenStore, number: int, epoch: int) -> TokenStore:
        streams = dict(store.streams)
        for place, (name, drawing) in enumerate(self._drawings.items()):
            if name in streams:
                seed = self._seed + number * 0x9E3779B9
                streams[name] = drawing.draw(streams[name], seed, epoch, place, self._longest)
        return replace(store, streams=streams)


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

    def rows(self, planned: RedrawnRows) -> Indices:
        """Return the rows of a micro-batch, counted through all stores."""
        return planned.indices

    def some(self, planned: RedrawnRows, places: Indices) -> RowBatch:
        """Make a micro-batch of some rows of another one."""
        return self.batch(replace(planned, indices=planned.indices[places]))

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device."""
        return replace(self, feed=self.feed.placed(static, pin))
