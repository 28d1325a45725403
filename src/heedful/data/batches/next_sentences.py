"""Pairs of stretches for next-sentence prediction      Devlin et al. 2019, 3.1 and A.2

Sentences are gathered from a document until they fill an input, and parted at random into A and what follows. In half
of all pairs, that is B. In the others B is drawn from another document, and what would have followed goes back. Both
kinds are filled and cut to fit in the same way, so that nothing in the form of a pair tells which kind it is of.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.data.batches.stretches import Cutting, Runs, SentencePieces, Spans
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore

_SHORT: Final = 0.1  # of all pairs are filled up to a random length only
_BLOCK: Final = 1 << 15  # documents that are looked at together
_WAY_OUT: Final = "add some, or set `model.next_sentence = false` in training"


class SentencePairs(Cutting):
    """Pairs sentences with those that follow, or with others. At least a part of each sentence is in a pair.

    A sentence that is alone in its document has none that follows. What such ones take from the balance of both kinds
    is given back by other pairs of the pool.
    """

    markers, form = 3, "<s> A </s> B </s>"

    def check(self, stores: Sequence[TokenStore]) -> None:
        """Refuse inputs without room for two tokens, and documents without a sentence that follows another."""
        super().check(stores)
        if not any(map(_has_followers, stores)):
            raise UserError(f"There is no document of two sentences, so none follows another: {_WAY_OUT}.")

    def pools(self, documents: Iterable[Indices]) -> Iterator[Indices]:
        """Yield pools of at least two different documents: smaller ones are joined."""
        before = np.empty(0, np.int64)
        for pool in documents:
            if _lonely(before) or _lonely(pool):
                before = np.concatenate((before, pool))
            else:
                yield before
                before = pool
        if len(before) and _lonely(before):
            raise UserError(f"There is one document, but next sentences are also drawn from others: {_WAY_OUT}.")
        if len(before):
            yield before

    def cut(self, pieces: SentencePieces, random: np.random.Generator) -> Spans:
        """Return all pairs of a pool."""
        every = np.arange(len(pieces))
        short, shares, coins = random.random((3, len(pieces)))
        targets = np.where(short < _SHORT, random.integers(2, self.room + 1, len(pieces)), self.room)
        reached, ends = pieces.reaching(every, targets), pieces.ends[pieces.owners]
        targets = np.minimum(targets, _Stretches(every, reached).tokens(pieces))  # less at the end of a document
        alone = ends - pieces.firsts[pieces.owners] == 1
        begins = every - ((every + 1 == ends) & ~alone)  # the last sentence follows one that was seen already
        followed = np.maximum(reached, begins + 2)
        middles = begins + 1 + _part(followed - begins - 1, shares)
        left_at = every + 1 + _part(reached - every - 1, shares)  # where B is drawn: what follows A goes back

        places, drawn = _walk(left_at, followed, alone, coins < 0.5)
        first = _Stretches(np.where(drawn, places, begins[places]), np.where(drawn, left_at[places], middles[places]))
        second = _Stretches(middles[places], followed[places])
        others = np.flatnonzero(drawn)
        second.begins[others] = _elsewhere(pieces, places[others], random)
        missing = (targets[places] - first.tokens(pieces))[others]
        second.ends[others] = pieces.reaching(second.begins[others], np.maximum(1, missing))
        return Spans(*_cut_to_fit(pieces, first, second, self.room, random), drawn.astype(np.int64))


@dataclass(frozen=True, eq=False)
class _Stretches:
    """The first piece of each pair's A or B, and the piece after its last."""

    begins: Indices
    ends: Indices

    def tokens(self, pieces: SentencePieces) -> Indices:
        """Return the number of tokens of each."""
        return pieces.totals[self.ends] - pieces.totals[self.begins]


def _part(lengths: Indices, shares: NDArray[np.float64]) -> Indices:
    """Return a number from 0 to `length` - 1 by its share; 0 where the length is 0."""
    return (shares * lengths).astype(np.int64)


def _walk(
    left_at: Indices, followed: Indices, alone: NDArray[np.bool_], coins: NDArray[np.bool_]
) -> tuple[Indices, NDArray[np.bool_]]:
    """Where pairs begin, and in which of them B is drawn: those of the coin, but as many as of the others.

    The next pair begins after B where B follows A, and else after A.
    """
    after_first, after_second, forced, tossed = (array.tolist() for array in (left_at, followed, alone, coins))
    place, places, drawn, owed = 0, [], [], 0
    while place < len(forced):
        draws = forced[place] or tossed[place]
        if forced[place]:
            owed += 1
        elif draws and owed > 1:  # one that follows instead of one that is drawn makes up for two
            draws, owed = False, owed - 2
        places.append(place)
        drawn.append(draws)
        place = (after_first if draws else after_second)[place]
    return np.array(places, np.int64), np.array(drawn, np.bool_)


def _elsewhere(pieces: SentencePieces, places: Indices, random: np.random.Generator) -> Indices:
    """Return, for each of these pieces, a random piece of a random other document."""
    own = pieces.documents[pieces.owners[places]]
    drawn = random.integers(0, len(pieces.documents), len(places))
    while len(same := np.flatnonzero(pieces.documents[drawn] == own)):
        drawn[same] = random.integers(0, len(pieces.documents), len(same))
    begins, ends = pieces.firsts[drawn], pieces.ends[drawn]
    return begins + _part(ends - begins, random.random(len(places)))


# --- cutting pairs to fit ---------------------------------------------------------------------------------------------


def _cut_to_fit(
    pieces: SentencePieces, first: _Stretches, second: _Stretches, room: int, random: np.random.Generator
) -> tuple[Runs, Runs]:
    """Cut pairs that are too long: the longer of A and B first, at its front or back by chance for every token.

    No sentence is cut away whole. There is always enough to cut without that: a pair was full only with its last
    sentence, or has a single one in A and in B.
    """
    over = np.maximum(0, first.tokens(pieces) + second.tokens(pieces) - room)
    lost = np.minimum(_of_longer(first.tokens(pieces), second.tokens(pieces), over), _spare(pieces, first))
    of_second = np.minimum(over - lost, _spare(pieces, second))
    return (
        _shortened(pieces, first, over - of_second, random),
        _shortened(pieces, second, of_second, random),
    )


def _of_longer(first: Indices, second: Indices, over: Indices) -> Indices:
    """Return how many of `over` tokens the first loses if the longer always loses one, and of equals the second."""
    till_equal = np.minimum(over, np.abs(first - second))
    return np.where(first > second, till_equal, 0) + (over - till_equal) // 2


def _spare(pieces: SentencePieces, stretches: _Stretches) -> Indices:
    """Return how many tokens both ends can lose while one of each sentence stays."""
    front, back = pieces.sizes[stretches.begins] - 1, pieces.sizes[stretches.ends - 1] - 1
    return np.where(stretches.ends - stretches.begins == 1, front, front + back)


def _shortened(pieces: SentencePieces, stretches: _Stretches, lost: Indices, random: np.random.Generator) -> Runs:
    """Return stretches without `lost` tokens, each taken from the front or the back at random."""
    single = stretches.ends - stretches.begins == 1
    most_front = np.where(single, lost, pieces.sizes[stretches.begins] - 1)
    most_back = np.where(single, lost, pieces.sizes[stretches.ends - 1] - 1)
    front = np.clip(random.binomial(lost, 0.5), lost - most_back, most_front)
    totals = pieces.totals
    return pieces.runs(stretches.begins, totals[stretches.begins] + front, totals[stretches.ends] - (lost - front))


# --- documents that will not do ---------------------------------------------------------------------------------------


def _lonely(pool: Indices) -> bool:
    return not len(pool) or bool((pool == pool[0]).all())


def _has_followers(store: TokenStore) -> bool:
    """Whether a document has two sentences; the first one found ends the search."""
    offsets = store.streams["sentences"].offsets
    blocks = (offsets[begin : begin + _BLOCK + 1] for begin in range(0, len(store), _BLOCK))
    return any(bool((np.diff(block) > 1).any()) for block in blocks)
