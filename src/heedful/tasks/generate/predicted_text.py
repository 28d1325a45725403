"""How a language model reads given texts, so that it predicts every token once: evaluation, and scores of tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from heedful.base.arguments import check_whole
from heedful.base.errors import UserError, by_caller
from heedful.base.notes import ShowProgress
from heedful.base.packed import IGNORED
from heedful.config.checks import carries_state
from heedful.config.recipe import Recipe
from heedful.data.batches.windows import PlannedWindows, SlidingWindows, StreamBatch, Streams, WindowBatch
from heedful.data.collate import CPU_MULTIPLE
from heedful.data.epochs.plan import spread
from heedful.data.token_store import TokenStore
from heedful.metrics.language.perplexity import Likelihood, carried_likelihood, likelihood
from heedful.models.networks import LanguageModel
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.nn.losses.cross_entropy import label_log_probabilities
from heedful.tasks.shared.sequences.token_scores import TokenScores
from heedful.training.truncated import carrying

_STREAMS: Final = 10  # that a text is read in at once; each begins with nothing before it


def predicted_text(
    recipe: Recipe, stores: Sequence[TokenStore], stride: int | None = None
) -> "WindowedText | CarriedText":
    """Return texts in the way in which a recipe's model reads them; without a stride windows do not overlap."""
    check_stride(recipe, stride)
    data = recipe.data
    if carries_state(recipe):
        return CarriedText.of(stores, data.max_length)
    return WindowedText(
        SlidingWindows(
            stores, data.max_length, stride or data.max_length, data.borders, data.batch_tokens, CPU_MULTIPLE
        )
    )


def check_stride(recipe: Recipe, stride: int | None) -> None:
    """Refuse a stride that windows of a recipe's model cannot move by."""
    if stride is None:
        return
    named, longest = by_caller("--stride", "`stride`"), recipe.data.max_length
    if carries_state(recipe):
        raise UserError(
            f"{named} is {stride}, but this model carries its state over the whole text and reads no windows: leave it "
            "out."
        )
    if not 1 <= check_whole("stride", stride) <= longest:
        raise UserError(f"{named} is {stride}, but must be from 1 to {longest:,}, the length of a window.")


@dataclass(frozen=True, eq=False)
class WindowedText:
    """Texts read in windows, each by itself."""

    windows: SlidingWindows

    @property
    def stride(self) -> int:
        """Number of tokens by which windows move."""
        return self.windows.stride

    def likelihood(self, model: LanguageModel, show: ShowProgress, doing: str, most: int | None = None) -> Likelihood:
        """Sum over the tokens of all windows, or of about `most` windows at equal distances.

        Put the model into `eval` mode before.
        """
        plan = self._plan(most)
        with show(doing, len(plan)) as advance:

            def batches() -> Iterator[WindowBatch]:
                for planned in plan:
                    yield self.windows.batch(planned)
                    advance(1)

            return likelihood(model, batches())

    def stretches(self, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield the tokens of the same windows; each but the first of a stretch, and but `<s>`, is predicted."""
        for planned in self._plan(most):
            for store, begin, length in zip(planned.stores, planned.begins, planned.lengths, strict=True):
                text = self.windows.stores[store].streams["text"].values
                yield text[begin : begin + length + 1].astype(np.int64)

    def _plan(self, most: int | None) -> list[PlannedWindows]:
        plan = self.windows.plan()
        if most is None:
            return plan
        count = sum(len(planned.begins) for planned in plan)
        taken = max(1, round(len(plan) * min(1.0, most / count)))
        return [plan[number] for number in spread(taken, len(plan))]


@dataclass(frozen=True, eq=False)
class CarriedText:
    """Each text from its beginning to its end, with the state carried all the way: in a few parallel streams.

    A stream begins with nothing before it, like a text; a text shorter than ten segments is fewer streams. Where a
    stream is cut into segments makes no difference.
    """

    streams: Sequence[Streams]  # of each text

    @classmethod
    def of(cls, stores: Sequence[TokenStore], length: int) -> "CarriedText":
        """Cut texts into streams of at least `length` tokens, where they have as many."""
        texts = [store.streams["text"].values for store in stores if store.tokens("text") > 1]
        rows = [min(_STREAMS, max(1, (len(text) - 1) // length)) for text in texts]
        return cls([Streams.of(text, count, length) for text, count in zip(texts, rows, strict=True)])

    @property
    def stride(self) -> None:
        """None: there are no windows."""
        return None

    def likelihood(self, model: LanguageModel, show: ShowProgress, doing: str, most: int | None = None) -> Likelihood:
        """Sum over all tokens, or over those of the first segments, about `most` in all."""
        counts = self._segments(most)
        found = Likelihood(0.0, 0)
        with show(doing, sum(counts)) as advance:

            def segments(text: Streams, count: int) -> Iterator[StreamBatch]:
                for index in range(count):
                    yield text.segment(index)
                    advance(1)

            for text, count in zip(self.streams, counts, strict=True):
                found += carried_likelihood(carrying(model), segments(text, count))
        return found

    def stretches(self, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield the tokens of the same parts of streams; each but the first, and but `<s>`, is predicted."""
        for text, count in zip(self.streams, self._segments(most), strict=True):
            for start, end in pairwise(text.starts.tolist()):
                yield text.text[start : min(end, start + count * text.length) + 1].astype(np.int64)

    def _segments(self, most: int | None) -> list[int]:
        """Return the number of segments of each text that are read."""
        counts = [len(text) for text in self.streams]
        if most is None:
            return counts
        parts = sum(len(text) * text.rows for text in self.streams)
        return [max(1, round(count * min(1.0, most / parts))) for count in counts]


@dataclass(frozen=True)
class TextScore(TokenScores):
    """The log probability that a language model gives to each token of a text, given the tokens before it."""


@torch.inference_mode()
def score_tokens(
    network: LanguageModel, sequences: Sequence[Sequence[int]], length: int, stride: int, batch_tokens: int
) -> list[list[float]]:
    """Return the log probability of each token of each sequence but the first, given the tokens before it.

    The network sees at most `length` tokens at once; a longer sequence is read in windows that begin every `stride`
    tokens.
    """
    if not sequences:
        return []
    store = TokenStore.of(text=sequences)
    windows = SlidingWindows([store], length, stride, "closed", batch_tokens, CPU_MULTIPLE)
    device, output = next(network.parameters()).device, network.output
    scored = np.zeros(store.tokens("text"))
    with evaluation_mode(network):
        for planned in windows.plan():
            batch = windows.batch(planned)
            placed = batch.to(device)
            states_NE = network.next_token_states(placed)
            log_p = label_log_probabilities(states_NE, output.weight, output.bias, placed.labels).double().cpu().numpy()
            labelled = batch.labels.numpy() != IGNORED
            starts = np.cumsum(planned.lengths) - planned.lengths
            for begin, start, count in zip(planned.begins, starts, planned.lengths, strict=True):
                here = np.arange(start, start + count)[labelled[start : start + count]]
                scored[begin + 1 + here - start] = log_p[here]
    ends = np.cumsum([len(sequence) for sequence in sequences])
    return [
        scored[end - len(sequence) + 1 : end].tolist() for sequence, end in zip(sequences, ends.tolist(), strict=True)
    ]
