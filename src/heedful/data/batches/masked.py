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
from heedful.data.batch_layout import Lengths, StaticShape, most_sentences
from heedful.data.batches.masking import mask, most_chosen
from heedful.data.batches.next_sentences import SentencePairs
from heedful.data.batches.stretches import Cutting, Runs, SingleStretches, Spans, plan_spans
from heedful.data.collate import marked_sequences, places_of, rows_by_store
from heedful.data.epochs.plan import batches_by_length, generator, spread
from heedful.data.movable import Movable
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
        masked = mask(
            values[:tokens],
            maskable,
            np.repeat(np.arange(inputs), lengths),
            self._words(values[:tokens], begins),
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

    def _words(self, tokens_N: NDArray[np.int64], begins_N: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """Return the number of each token's word, where whole words are masked; a stretch begins with a new one."""
        if not self.masking.whole_words:
            return None
        assert self.begins_word is not None
        return np.cumsum(begins_N | self.begins_word[tokens_N])


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
