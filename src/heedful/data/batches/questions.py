"""Batches of questions about windows of texts: `<s> question </s> text </s>`, and where the answers are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from heedful.base.packed import IGNORED, Packed
from heedful.data.collate import Movable, StaticShape, gather, lengths_of, marked_sequences, places_of
from heedful.data.epochs.plan import Counts, Indices
from heedful.data.token_store import TokenStore

MARKERS: Final = 3  # <s> question </s> text </s>


@dataclass(frozen=True, eq=False)
class QuestionBatch(Movable):
    """Questions about windows. Positions are counted from `<s>`, which is the answer where a window has none."""

    text: Packed
    possible: Bool[Tensor, "N"]  # tokens at which an answer may start or end: `<s>` and the text
    starts: Int[Tensor, "B"]  # first token of the answer; IGNORED in dummies
    ends: Int[Tensor, "B"]  # last token of the answer
    sentences: int  # number of real windows
    tokens: int  # number of real tokens, markers included

    def labels_of_rows(self) -> list[list[int]]:
        """Return what each real row is to predict: the tokens of its answer, or `<s>`."""
        ends = zip(self.text.split(), self.starts.tolist(), self.ends.tolist(), strict=True)
        return [ids[start : end + 1].tolist() for ids, start, end in list(ends)[: self.sentences]]


@dataclass(frozen=True)
class QuestionCollator:
    """Makes batches of questions about windows, which were cut to fit when they were prepared."""

    noun: ClassVar = "question"

    mark_matches: bool = False  # whether tokens of the text that are in the question too have a segment of their own

    def costs(self, stores: Sequence[TokenStore], indices: Indices) -> tuple[Counts]:
        """Return the tokens of some windows as they are read, markers included."""
        return (lengths_of(stores, "question", indices) + lengths_of(stores, "text", indices) + MARKERS,)

    def batch(
        self, stores: Sequence[TokenStore], indices: Indices, static: StaticShape | None = None, multiple: int = 1
    ) -> QuestionBatch:
        """Make the batch of these windows: ragged, filled up to a multiple of tokens, or of one static shape."""
        questions, asked = gather(stores, "question", indices)
        texts, read = gather(stores, "text", indices)
        lengths = asked + read + MARKERS
        layout, starts, values = marked_sequences(lengths, static, multiple)
        in_question, in_text = places_of(starts + 1, asked), places_of(starts + asked + 2, read)
        values[in_question], values[in_text] = questions, texts
        segments = np.zeros(layout.tokens, np.int64)
        segments[places_of(starts + asked + 2, read + 1)] = 1
        if self.mark_matches:
            segments[in_text[_in_question(questions, asked, texts, read)]] = 2
        possible = np.zeros(layout.tokens, np.bool_)
        possible[starts] = possible[in_text] = True
        first, last = map(torch.from_numpy, self._answers(stores, indices, asked, layout.sentences))
        return QuestionBatch(
            Packed(torch.from_numpy(values), layout, torch.from_numpy(segments)),
            torch.from_numpy(possible),
            first,
            last,
            len(indices),
            int(lengths.sum()),
        )

    def _answers(self, stores: Sequence[TokenStore], indices: Indices, asked: Indices, rows: int) -> list[Indices]:
        """Return the positions of the first and the last token of each answer; 0 for `<s>`, where there is none."""
        values, lengths = gather(stores, "answer", indices)
        found = np.full((2, rows), IGNORED, np.int64)
        found[:, : len(indices)] = 0
        has = np.flatnonzero(lengths)
        found[:, has] = values.reshape(-1, 2).T + asked[has] + 2
        return [np.ascontiguousarray(row) for row in found]


def _in_question(questions: Indices, asked: Indices, texts: Indices, read: Indices) -> NDArray[np.bool_]:
    """Return which tokens of texts, end to end, occur in the question of their row."""
    rows = np.arange(len(asked)) << 32  # above every id
    return np.isin(texts + np.repeat(rows, read), questions + np.repeat(rows, asked))
