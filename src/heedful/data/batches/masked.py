"""Batches of a masked language model: `<s> A </s>` or `<s> A </s> B </s>` with masks, and the tokens they hide."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import IGNORED, Packed
from heedful.config.train.table import Masking
from heedful.data.batches.next_sentences import SentencePairs
from heedful.data.batches.stretches import Cutting, Runs, SingleStretches, Spans, plan_spans
from heedful.data.collate import (
    Lengths,
    Movable,
    StaticShape,
    marked_sequences,
    most_sentences,
    places_of,
    rows_by_store,
)
from heedful.data.epochs.plan import Indices, batches_by_length, generator, spread
from heedful.data.token_store import TokenStore

# Any numbers, but always the same: they decide where masks are.
_VALIDATION_SEED: Final = 0x6D61736B
_VALIDATION_TOKENS: Final = 16384
_VALIDATION_INPUTS: Final = 512


@dataclass(frozen=True, eq=False)
class MaskedBatch(Movable):
    """Inputs with masks. What fills up a static shape has index 0 and the label IGNORED."""

    text: Packed  # segments: 0 in `<s> A </s>`, 1 in `B </s>`; none where inputs are single stretches
    places: Int[Tensor, "P"]  # the indices of the chosen tokens in the packed text
    labels: Int[Tensor, "P"]  # the tokens that were there
    next: Int[Tensor, "B"]  # 0 where B follows A, 1 where it was drawn
    balance: Float[Tensor, ""]  # chosen tokens per input: the weight of a pair where a chosen token has the weight 1
    sentences: int  # the real inputs
    tokens: int  # the real ones, markers included
    masked: int  # the chosen ones

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: the tokens under its masks."""
        offsets, real = self.text.layout.offsets.tolist(), self.labels != IGNORED
        inside = [(self.places >= start) & (self.places < end) & real for start, end in pairwise(offsets)]
        return [self.labels[chosen].tolist() for chosen in inside[: self.sentences]]


@dataclass(frozen=True, eq=False)
class MaskedFeed:
    """Inputs from the documents of one or several weighted stores."""

    stores: Sequence[TokenStore]
    weights: Sequence[float]
    seed: int
    batch_tokens: int
    max_length: int
    next_sentence: bool
    masking: Masking
    mask_id: int
    vocabulary: range  # the tokens that may randomly replace others
    begins_word: NDArray[np.bool_] | None = None  # for each id, where whole words are masked
    max_sentences: int | None = None
    static: StaticShape | None = None
    multiple: int = 1  # of tokens, where the shape is not static
    pin: bool = False

    def __post_init__(self) -> None:
        if self.masking.whole_words and self.begins_word is None:
            raise ValueError("whole words are masked by `begins_word`, which is missing")

    def plan(self, epoch: int) -> Iterator[Spans]:
        """Return the micro-batches of an epoch, in order; the same ones whenever it is called."""
        cutting: Cutting = (SentencePairs if self.next_sentence else SingleStretches)(self.max_length)
        return plan_spans(
            self.stores,
            self.weights,
            cutting,
            seed=self.seed,
            epoch=epoch,
            batch_tokens=self.batch_tokens,
            max_sentences=most_sentences(self.max_sentences, self.static),
        )

    def batch(self, spans: Spans) -> MaskedBatch:
        """Make one micro-batch."""
        made = self._collate(spans)
        return made.pin_memory() if self.pin else made

    def rows(self, spans: Spans) -> Indices:
        """Return the documents of a micro-batch, counted through all stores."""
        return np.unique(spans.first.documents)

    def placed(self, static: StaticShape | None, pin: bool) -> Self:
        """Return the feed for a device."""
        return replace(self, static=static, pin=pin)

    def _collate(self, spans: Spans) -> MaskedBatch:
        lengths = spans.lengths
        inputs, tokens = len(lengths), int(lengths.sum())
        layout, starts, values = marked_sequences(lengths, self.static, self.multiple)
        segments = np.zeros(layout.tokens, np.int64)
        maskable, begins = np.zeros(tokens, np.bool_), np.zeros(tokens, np.bool_)
        for number, (runs, first) in enumerate(_stretches(spans, starts)):
            places = places_of(first, runs.lengths)
            values[places] = _pieces(self.stores, runs)
            maskable[places] = begins[first] = True
            segments[places_of(first, runs.lengths + 1)] = number
        # The number of each token's word, where whole words are masked; a stretch begins with a new one.
        words: _Numbers | None = None
        if self.masking.whole_words and self.begins_word is not None:
            words = np.cumsum(begins | self.begins_word[values[:tokens]])
        masked = mask(
            values[:tokens],
            maskable,
            np.repeat(np.arange(inputs), lengths),
            words,
            self.masking,
            self.vocabulary,
            self.mask_id,
            generator(*spans.seeds),
        )
        values[:tokens] = masked.inputs_N
        chosen = len(masked.places_P)
        rows = chosen
        if self.static is not None:
            rows = most_chosen(self.static.tokens, self.static.max_sentences, self.masking.share)
        return MaskedBatch(
            Packed(torch.from_numpy(values), layout, None if spans.second is None else torch.from_numpy(segments)),
            _filled_up(masked.places_P, rows, 0),
            _filled_up(masked.labels_P, rows, IGNORED),
            _filled_up(np.empty(0, np.int64) if spans.drawn is None else spans.drawn, layout.sentences, IGNORED),
            torch.tensor(chosen / max(1, inputs), dtype=torch.float32),
            inputs,
            tokens,
            chosen,
        )


# --- validation -------------------------------------------------------------------------------------------------------


def validation_feed(feed: MaskedFeed) -> MaskedFeed:
    """Return a feed of every document once, with the same cuts and masks whatever training's seed and weights are."""
    return replace(
        feed,
        seed=_VALIDATION_SEED,
        weights=[1.0] * len(feed.stores),
        batch_tokens=max(_VALIDATION_TOKENS, feed.max_length),
        max_sentences=_VALIDATION_INPUTS,
    )


def some_inputs(feed: MaskedFeed, most: int) -> list[Spans]:
    """Return micro-batches of at most `most` inputs of the first epoch, at equal distances."""
    count = sum(len(spans.lengths) for spans in feed.plan(0))
    if count <= most:
        return list(feed.plan(0))
    wanted, seen, parts = spread(most, count), 0, []
    for spans in feed.plan(0):
        before, seen = seen, seen + len(spans.lengths)
        parts.append(spans.take(wanted[(before <= wanted) & (wanted < seen)] - before, ()))
    chosen = Spans.joined(parts)
    plan = batches_by_length((chosen.lengths,), batch_tokens=feed.batch_tokens, max_sentences=feed.max_sentences)
    return [chosen.take(places, (feed.seed, 0, number)) for number, places in enumerate(plan, start=1)]


# --- parts of a batch -------------------------------------------------------------------------------------------------


def _stretches(spans: Spans, starts: Lengths) -> Iterator[tuple[Runs, Lengths]]:
    """Yield the stretches of the inputs, and where they begin in inputs that begin at `starts`."""
    yield spans.first, starts + 1
    if spans.second is not None:
        yield spans.second, starts + spans.first.lengths + 2


def _pieces(stores: Sequence[TokenStore], runs: Runs) -> NDArray[np.int64]:
    """Return the tokens of stretches end to end."""
    lengths = runs.lengths
    starts, pieces = np.cumsum(lengths) - lengths, np.empty(lengths.sum(), np.int64)
    for store, mine, rows in rows_by_store(stores, runs.documents):
        text = store.streams["text"]
        places = places_of(text.offsets[rows] + runs.begins[mine], lengths[mine])
        pieces[places_of(starts[mine], lengths[mine])] = text.values[places]
    return pieces


def _filled_up(numbers: NDArray[np.int64], size: int, rest: int) -> Int[Tensor, "size"]:
    filled = np.full(size, rest, np.int64)
    filled[: len(numbers)] = numbers
    return torch.from_numpy(filled)


# --- masking: the tokens that a model is asked for, and what it sees instead      Devlin et al. 2019, 3.1 -------------
#
# Of the tokens of each input a share is chosen, one at least; of the chosen, most are replaced by `<mask>`, some by a
# random piece, and some stay, so that a model must doubt every token. Drawn anew whenever an input is shown.


_Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Masked:
    """Tokens with masks among them, and the P tokens that were chosen, in order."""

    inputs_N: _Numbers
    places_P: _Numbers
    labels_P: _Numbers


def mask(
    tokens_N: _Numbers,
    maskable_N: NDArray[np.bool_],
    owners_N: _Numbers,
    words_N: _Numbers | None,
    masking: Masking,
    vocabulary: range,
    mask_id: int,
    random: np.random.Generator,
) -> Masked:
    """Choose tokens of packed inputs and replace them.

    `owners_N` is the number of the input, and `words_N` of the word, that a token belongs to; both only grow. With
    words, all tokens of one are chosen or none. Random tokens are drawn from `vocabulary`.
    """
    candidates = np.flatnonzero(maskable_N)
    owners = owners_N[candidates]
    counts = np.bincount(owners)
    quotas = np.where(counts > 0, np.maximum(1, np.rint(masking.share * counts)), 0).astype(np.int64)
    if words_N is None:  # a random subset of each input's tokens, as large as its quota
        chosen = np.sort(_shuffled(owners, random)[places_of(np.cumsum(counts) - counts, quotas)])
    else:
        chosen = _whole_words(owners, words_N[candidates], quotas, random)
    places_P = candidates[chosen]
    fates = random.random(len(places_P))
    masked, changed = fates < masking.masked, fates < masking.masked + masking.random
    pieces = random.integers(vocabulary.start, vocabulary.stop, len(places_P))
    inputs_N = tokens_N.copy()
    inputs_N[places_P] = np.where(masked, mask_id, np.where(changed, pieces, tokens_N[places_P]))
    return Masked(inputs_N, places_P, tokens_N[places_P])


def most_chosen(tokens: int, inputs: int, share: float) -> int:
    """Return the most tokens that are ever chosen in inputs of this number of tokens in all."""
    return int(np.ceil(share * tokens)) + inputs


def _whole_words(owners: _Numbers, words: _Numbers, quotas: _Numbers, random: np.random.Generator) -> _Numbers:
    """Words of each input in random order, each where it fits into what is left of the quota.

    Where every word of an input is longer than its quota, a stretch of one is taken.
    """
    begins = np.flatnonzero(np.diff(words, prepend=-1))
    sizes, owners = np.diff(begins, append=len(words)), owners[begins]
    order = all_words = _shuffled(owners, random)
    left, taken = quotas.copy(), [np.empty(0, np.int64)]
    # What does not fit now never will. Of the rest, the first ones fit together: take them, and look again.
    while len(order := order[sizes[order] <= left[owners[order]]]):
        together = _sums_in_groups(sizes[order], owners[order])
        fits = together <= left[owners[order]]
        taken.append(order[fits])
        left -= np.bincount(owners[order[fits]], sizes[order[fits]], len(left)).astype(np.int64)
        order = order[~fits]
    too_long = all_words[np.flatnonzero(np.diff(owners[all_words], prepend=-1))]  # one of each input
    too_long = too_long[left[owners[too_long]] == quotas[owners[too_long]]]
    parts = quotas[owners[too_long]]
    skipped = random.integers(0, sizes[too_long] - parts, endpoint=True)
    whole = np.concatenate(taken)
    places = (places_of(begins[whole], sizes[whole]), places_of(begins[too_long] + skipped, parts))
    return np.sort(np.concatenate(places))


def _shuffled(owners: _Numbers, random: np.random.Generator) -> _Numbers:
    """Sorted by owner, in random order inside each."""
    return np.argsort(owners + random.random(len(owners)))


def _sums_in_groups(sizes: _Numbers, groups: _Numbers) -> _Numbers:
    """Sums from the first of a group on."""
    sums = np.cumsum(sizes)
    firsts = np.flatnonzero(np.diff(groups, prepend=-1))
    return sums - np.repeat((sums - sizes)[firsts], np.diff(firsts, append=len(groups)))
