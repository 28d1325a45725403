"""From the recipe of a reader to its tokenizer and its tokenized questions, one row per window of a text.

A row has the streams `question`, `text` (the pieces of the window) and `answer`: its first and its last piece, or
nothing where the window has no answer.

The text of a question is read in windows of as many pieces as fit after the question, each `stride` pieces after the
one before; the last one ends with the text. So every answer of at most a window less a stride is whole in some window.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import AnyCorpus
from heedful.config.data import Data
from heedful.config.model.encoder_only import ReaderModel
from heedful.config.recipe import Recipe
from heedful.config.task_rules import model_of
from heedful.data.batches.questions import MARKERS
from heedful.data.cache import Say
from heedful.data.corpora.questions import Question, read_questions
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import WHOLE_NUMBERS, Rows, Streams, Tokenized
from heedful.data.text_form import Aligned, TextForm
from heedful.data.token_store import Ragged, StreamType, id_stream
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies

_WINDOWS: Final = 1  # raise it when the same text would give other windows


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
            first, last = pieced.answer or (-1, -1)
            whole = begin <= first and last < end
            yield Window(begin, end, (first - begin, last - begin) if whole else None)


def piece_questions(questions: Sequence[Question], tokenizer: Tokenizer, form: TextForm) -> list[PiecedQuestion]:
    """Tokenize questions and their texts as a model reads them, and find their answers among the pieces."""
    asked = tokenizer.encode_batch([form(question.question) for question in questions])
    texts = piece_texts([question.text for question in questions], tokenizer, form)
    found = []
    for question, ids, text in zip(questions, asked, texts, strict=True):
        answer = None
        if question.start is not None and question.end is not None:
            answer = text.span(question.start, question.end)
            if answer is None:
                raise UserError(
                    f"{question.where}: the tokenizer has no piece for the answer `{question.answers[0]}`: remove the "
                    "row, or use another `tokenizer.kind`."
                )
        found.append(PiecedQuestion(ids, text, answer))
    return found


def piece_texts(texts: Sequence[str], tokenizer: Tokenizer, form: TextForm) -> list[PiecedText]:
    """Tokenize texts, each once, with the characters that every piece covers in the original."""
    distinct = list(dict.fromkeys(texts))
    aligned = [Aligned.of(text, form) for text in distinct]
    encoded = tokenizer.encode_with_places([each.text for each in aligned])
    found = {}
    for text, each, (ids, places) in zip(distinct, aligned, encoded, strict=True):
        starts, ends = [], []
        for begin, end in places:
            start, stop = (each.starts[begin], each.ends[end - 1]) if begin < end else (0, 0)
            covered = text[start:stop]
            starts.append(start + len(covered) - len(covered.lstrip()))
            ends.append(max(starts[-1], stop - (len(covered) - len(covered.rstrip()))))
        in_order = np.maximum.accumulate(np.array([starts, ends], np.int64).reshape(2, -1), axis=1)
        found[text] = PiecedText(ids, in_order[0], in_order[1])
    return [found[text] for text in texts]


# --- stores -----------------------------------------------------------------------------------------------------------


def prepare_questions(
    recipe: Recipe, progress: Say = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """Train the tokenizer, unless it is given, and tokenize training and validation corpora.

    `progress` gets a line of text for every longer piece of work.
    """
    work, data = Preparation.of(recipe, progress, given), recipe.data

    def texts(corpus: AnyCorpus) -> Iterator[str]:
        """Yield every question, and every text once for a run of questions about it."""
        before = ""
        for question in read_questions(corpus, data.folder):
            yield work.form(question.question)
            if question.text != before and not work.form.too_long(question.text):
                yield work.form(question.text)
            before = question.text

    tokenizer = work.tokenizer(texts, without="it has no questions")
    no_answer = model_of(recipe, ReaderModel).no_answer
    return work.prepared(
        Vocabularies({"text": tokenizer}), lambda corpus, training: question_rows(corpus, data, tokenizer, no_answer)
    )


def question_rows(corpus: AnyCorpus, data: Data, tokenizer: Tokenizer, no_answer: bool) -> Rows[Question]:
    """Return what the rows of a corpus of questions are; `no_answer` says whether one may have no answer."""
    form = TextForm.of(data)

    def objection(question: Question) -> str | None:
        return "line" if form.too_long(question.text) or form.too_long(question.question) else None

    return Rows(
        noun="question",
        read=lambda dropped: read_questions(corpus, data.folder),
        streams=[WindowStream(tokenizer, form, Windowing(data.max_length, data.stride), no_answer)],
        objection=objection,
        dropped={
            "line": f"longer than `data.max_line` ({data.max_line:,} characters)",
            "answer": "whose answer is whole in no window: raise `data.max_length` or lower `data.stride`",
        },
        facts=lambda store: [counted(len(store), "window")],
    )


@dataclass(frozen=True, eq=False)
class WindowStream(Tokenized):
    """Windows of the texts of questions, each with its question, and its answer where it has one."""

    windowing: Windowing
    no_answer: bool  # whether a question may have no answer

    @property
    def types(self) -> Mapping[str, StreamType]:
        """The ids of the vocabulary, and places in the window."""
        ids = id_stream(self.tokenizer.size)
        return {"question": ids, "text": ids, "answer": WHOLE_NUMBERS}

    @property
    def key(self) -> Mapping[str, object]:
        """What decides the windows."""
        windowing = self.windowing
        return {**super().key, "windows": [_WINDOWS, windowing.max_length, windowing.stride, self.no_answer]}

    def encode(self, rows: Sequence[Question], dropped: Counter[str]) -> Streams:
        """Tokenize questions, and cut their texts into windows."""
        for question in rows:
            if not question.answers and not self.no_answer:
                raise UserError(
                    f"{question.where} has no answer, which this model cannot learn: set `model.no_answer = true`, or "
                    "remove the row."
                )
        pieced = [each for each in piece_questions(rows, self.tokenizer, self.form) if each.text.ids]
        return window_streams(pieced, self.windowing, dropped)[0]


def window_streams(
    questions: Sequence[PiecedQuestion], windowing: Windowing, dropped: Counter[str] | None = None
) -> tuple[dict[str, Ragged], list[tuple[int, int]]]:
    """Return the rows of all windows, and for each the number of its question and its first piece in the text.

    Where `dropped` is given, questions whose answer is whole in no window are left out and counted there.
    """
    asked, texts, answers, owners = [], [], [], []
    for number, pieced in enumerate(questions):
        windows = list(windowing.windows(pieced))
        if dropped is not None and pieced.answer is not None and all(window.answer is None for window in windows):
            dropped["answer"] += 1
            continue
        for window in windows:
            asked.append(windowing.question(pieced.question))
            texts.append(pieced.text.ids[window.begin : window.end])
            answers.append(window.answer or ())
            owners.append((number, window.begin))
    return {"question": Ragged.of(asked), "text": Ragged.of(texts), "answer": Ragged.of(answers)}, owners
