"""From the recipe of a reader to its tokenizer and its tokenized questions, one row per window of a text.

A row has the streams `question`, `text` (the pieces of the window) and `answer`: its first and its last piece, or
nothing where the window has no answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heedful.base.errors import UserError, counted
from heedful.config.corpora.any import AnyCorpus
from heedful.config.data import Data
from heedful.config.model.encoder_only import ReaderModel
from heedful.config.recipe import Recipe
from heedful.config.tables import model_of
from heedful.data.cache import Say
from heedful.data.corpora.questions import Question, read_questions
from heedful.data.prepare.prepared import Preparation, Prepared
from heedful.data.prepare.stores import Rows
from heedful.data.prepare.streams import WHOLE_NUMBERS, Streams, Tokenized
from heedful.data.text_form import TextForm
from heedful.data.token_store import Ragged, StreamType, id_stream
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.tasks.answer.windows import PiecedQuestion, Windowing, piece_questions

_WINDOWS: Final = 1  # raise it when the same text would give other windows


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
