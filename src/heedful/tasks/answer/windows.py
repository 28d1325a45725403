"""Questions and texts as pieces, and the windows in which a long text is read.

The text of a question is read in windows of as many pieces as fit after the question, each `stride` pieces after the
one before; the last one ends with the text. So every answer of at most a window less a stride is whole in some window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError
from heedful.data.batches.questions import MARKERS
from heedful.data.corpora.questions import Question
from heedful.data.text_form import Aligned, TextForm
from heedful.data.tokenize.tokenizer import Tokenizer

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PiecedText:
    """The pieces of a text, and the characters `[starts[i], ends[i])` of it that each covers, white space left out."""

    ids: list[int]
    starts: Places
    ends: Places

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and the last piece of the smallest stretch that covers some characters; None if none do."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left")) - 1
        return (first, last) if first <= last else None

    def characters(self, first: int, last: int) -> tuple[int, int]:
        """Return the characters that pieces from the first to the last one cover."""
        return int(self.starts[first]), max(int(self.ends[last]), int(self.starts[first]))


@dataclass(frozen=True, eq=False)
class PiecedQuestion:
    """A question and its text as pieces, and the first and the last piece of its answer; None where it has none."""

    question: list[int]
    text: PiecedText
    answer: tuple[int, int] | None


@dataclass(frozen=True)
class Window:
    """A stretch of a text that is read at once, and the answer within it; None if the answer is not whole in it."""

    begin: int  # first piece
    end: int  # piece after the last one
    answer: tuple[int, int] | None  # counted from the window's first piece


@dataclass(frozen=True)
class Windowing:
    """How texts are cut into windows."""

    max_length: int  # maximum tokens of question and window, markers included
    stride: int | None = None  # None: half a window

    def question(self, ids: list[int]) -> list[int]:
        """Return the part of a question that is read: at most half of what is read together."""
        return ids[: (self.max_length - MARKERS) // 2]

    def windows(self, pieced: PiecedQuestion) -> Iterator[Window]:
        """Yield the windows of a question's text, from its start to its end."""
        room = self.max_length - MARKERS - len(self.question(pieced.question))
        length = len(pieced.text.ids)
        step = min(self.stride or max(1, room // 2), room)
        for start in range(0, max(1, length - room + step), step):
            begin = max(0, min(start, length - room))
            end = min(begin + room, length)
            yield Window(begin, end, _within(pieced.answer, begin, end))


def piece_questions(questions: Sequence[Question], tokenizer: Tokenizer, form: TextForm) -> list[PiecedQuestion]:
    """Tokenize questions and their texts as a model reads them, and find their answers among the pieces."""
    asked = tokenizer.encode_batch([form(question.question) for question in questions])
    texts = piece_texts([question.text for question in questions], tokenizer, form)
    return [
        PiecedQuestion(ids, text, _answer(question, text))
        for question, ids, text in zip(questions, asked, texts, strict=True)
    ]


def piece_texts(texts: Sequence[str], tokenizer: Tokenizer, form: TextForm) -> list[PiecedText]:
    """Tokenize texts, each once, with the characters that every piece covers in the original."""
    distinct = list(dict.fromkeys(texts))
    aligned = [Aligned.of(text, form) for text in distinct]
    encoded = tokenizer.encode_with_places([each.text for each in aligned])
    found = {
        text: _pieced(text, each, ids, places)
        for text, each, (ids, places) in zip(distinct, aligned, encoded, strict=True)
    }
    return [found[text] for text in texts]


def _pieced(text: str, aligned: Aligned, ids: list[int], places: Sequence[tuple[int, int]]) -> PiecedText:
    starts, ends = [], []
    for begin, end in places:
        start, stop = (aligned.starts[begin], aligned.ends[end - 1]) if begin < end else (0, 0)
        covered = text[start:stop]
        starts.append(start + len(covered) - len(covered.lstrip()))
        ends.append(max(starts[-1], stop - (len(covered) - len(covered.rstrip()))))
    in_order = np.maximum.accumulate(np.array([starts, ends], np.int64).reshape(2, -1), axis=1)
    return PiecedText(ids, in_order[0], in_order[1])


def _answer(question: Question, text: PiecedText) -> tuple[int, int] | None:
    if question.start is None or question.end is None:
        return None
    found = text.span(question.start, question.end)
    if found is None:
        raise UserError(
            f"{question.where}: the tokenizer has no piece for the answer `{question.answers[0]}`: remove the row, or "
            "use another `tokenizer.kind`."
        )
    return found


def _within(answer: tuple[int, int] | None, begin: int, end: int) -> tuple[int, int] | None:
    if answer is None or answer[0] < begin or answer[1] >= end:
        return None
    return answer[0] - begin, answer[1] - begin
