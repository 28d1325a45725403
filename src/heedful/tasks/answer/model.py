"""A trained reader: a question and a text in, a span of the text out."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Unpack, overload

from heedful.base.arguments import check_flag, check_one_each, check_text, check_texts, check_whole
from heedful.base.errors import UserError
from heedful.base.options import show_options
from heedful.config.model.encoder_only import ReaderModel
from heedful.config.task_rules import model_of
from heedful.data.corpora.in_memory import read_rows
from heedful.data.corpora.questions import Question, make_question
from heedful.data.text_form import TextForm
from heedful.explain.explanation import Explanation
from heedful.explain.texts import explain_swapped, refuse_blank
from heedful.models.bundle import Bundle
from heedful.models.networks import SpanReader
from heedful.nn.evaluation_mode import evaluation_mode
from heedful.tasks.answer.answer import MAX_ANSWER, Answer, AnswerOptions, Choice, ChoiceOptions
from heedful.tasks.answer.data import PiecedQuestion, piece_questions
from heedful.tasks.answer.evaluation import AnswerEvaluation
from heedful.tasks.answer.explaining import explain_answer
from heedful.tasks.answer.rules import ANSWER
from heedful.tasks.answer.scoring import Reading, choose_answer, compare_answers, read_windows
from heedful.tasks.shared.answering.streaming import CHUNK, answer_stream, chunks
from heedful.tasks.shared.embeddings import Embeds
from heedful.tasks.shared.loaded_model import EvaluateOptions, Evaluates

_CHUNK = 100  # questions that are answered together


class EvaluateReader(EvaluateOptions, ChoiceOptions, total=False):
    """Options of `Reader.evaluate`."""


class Reader(Embeds[SpanReader], Evaluates[SpanReader, AnswerEvaluation]):
    """A trained reader with its recipe and its tokenizer.

    It runs on the device and in the precision that `load` chose. A text that is too long to be read at once is read in
    overlapping windows, and the best span of all windows is the answer.
    """

    _rules, _network = ANSWER, SpanReader

    def __init__(self, bundle: Bundle[SpanReader]) -> None:
        super().__init__(bundle)
        self._form = TextForm.of(bundle.recipe.data)

    @property
    def no_answer(self) -> bool:
        """Whether the model may find that a text has no answer."""
        return model_of(self.recipe, ReaderModel).no_answer

    @overload
    def answer(self, questions: str, texts: str, **options: Unpack[AnswerOptions]) -> Answer: ...  # type: ignore[overload-overlap]
    @overload
    def answer(
        self, questions: Iterable[str], texts: str | Iterable[str], **options: Unpack[AnswerOptions]
    ) -> list[Answer]: ...
    @show_options(AnswerOptions)
    def answer(
        self, questions: str | Iterable[str], texts: str | Iterable[str], **options: Unpack[AnswerOptions]
    ) -> Answer | list[Answer]:
        """Answer a question about a text, or several questions: about one text, or each about its own."""
        choice = Choice(**options)
        if isinstance(questions, str):
            if not isinstance(texts, str):
                raise UserError("`questions` is one question, so `texts` must be one text.")
            asked = [
                make_question(check_text(questions, "`questions`"), check_text(texts, "`texts`"), where="`answer`")
            ]
            return self._answered(asked, choice)[0]
        several = check_texts(questions, "questions")
        about = [check_text(texts, "`texts`")] * len(several) if isinstance(texts, str) else check_texts(texts)
        check_one_each(len(several), "question", len(about), "text")
        rows = [
            make_question(question, text, where=f"questions, line {number:,}")
            for number, (question, text) in enumerate(zip(several, about, strict=True), start=1)
        ]
        return list(filter(None, self.stream_questions(rows, choice)))

    def stream_questions(
        self,
        questions: Iterable[Question | None],
        choice: Choice = Choice(),  # noqa: B008 - it never changes
        *,
        chunk: int = _CHUNK,
        ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[Answer | None]:
        """Answer a stream of questions in order, `chunk` of them at a time; None, for a blank line, stays None.

        Fewer are taken when `ready` says that the next one has not arrived yet.
        """

        def answered(part: Sequence[Question | None], first: int) -> list[Answer | None]:
            found = iter(self._answered([question for question in part if question is not None], choice))
            return [None if question is None else next(found) for question in part]

        return answer_stream(questions, answered, chunk=chunk, ready=ready)

    def explain(
        self,
        text: str,
        question: str,
        *,
        top: int = 5,
        gradients: bool = False,
        max_answer: int = MAX_ANSWER,
        swapped: Mapping[str, str] | None = None,
    ) -> Explanation:
        """Return the weights with which the model read a question and a text, and where an answer starts and ends.

        `top` is the number of other spans. A long text is explained by the window in which an answer is most likely.
        With `gradients`, also return how much each token would change the start and the end.
        `swapped` asks what if: it has words of the text and those that replace them, and `before` is the explanation of
        the text as it is.
        """
        refuse_blank(check_text(text, "`text`"))
        if swapped is not None:
            return explain_swapped(
                lambda other: self.explain(other, question, top=top, gradients=gradients, max_answer=max_answer),
                text,
                swapped,
            )
        choice = Choice(max_answer, n_best=check_whole("top", top, least=0) + 1)
        asked = make_question(check_text(question, "`question`"), text, where="`question`")
        self._form.check_text(text, "`text`")
        (pieced,), readings = self.read([asked], choice)
        (answer,) = self.choose([asked], [pieced], readings, choice)
        return explain_answer(self.bundle, asked, pieced, answer, check_flag("gradients", gradients))

    def _answered(self, questions: Sequence[Question], choice: Choice) -> list[Answer]:
        for question in questions:
            self._form.check_text(question.text, question.where)
        pieced, readings = self.read(questions, choice)
        return self.choose(questions, pieced, readings, choice)

    @show_options(EvaluateReader)
    def evaluate(self, data: object, **options: Unpack[EvaluateReader]) -> AnswerEvaluation:
        """Answer questions and compare with their answers: exact match and F1.

        `data` are questions with texts and answers in any form that `heedful.train` takes: tuples, dictionaries,
        columns, frames. Metrics of your own get the answers found and the lists of acceptable answers.
        """
        return self._evaluate(data, **options)

    def _rows(self, data: object, name: str) -> list[Question]:
        found = []
        for number, row in enumerate(read_rows(data, ANSWER, name), start=1):
            said, start = row["answer"], row.get("start")
            answers = tuple(said) if isinstance(said, list) else (str(said),) if said is not None else ()
            found.append(make_question(row["question"], row["text"], answers, start, f"{name}, row {number:,}"))
        return found

    def evaluate_rows(
        self,
        rows: Sequence[Question],
        *,
        name: str = "data",
        progress: Callable[[int], None] = lambda ready: None,
        **options: Unpack[AnswerOptions],
    ) -> AnswerEvaluation:
        """Answer questions and compare with their acceptable answers."""
        if not rows:
            raise UserError(f"{name} has no question to answer.")
        choice = Choice(**options)
        began, found, readings = time.perf_counter(), list[Answer](), list[Reading]()
        for part in chunks(rows, CHUNK):
            pieced, read = self.read(part, choice, progress)
            found += self.choose(part, pieced, read, choice)
            readings += read
        seconds, windows = time.perf_counter() - began, sum(reading.windows for reading in readings)
        result = compare_answers([answer.text for answer in found], rows, readings)
        return AnswerEvaluation(
            questions=tuple(rows), found=tuple(found), result=result, windows=windows, seconds=seconds
        )

    def read(
        self,
        questions: Sequence[Question],
        choice: Choice,
        advance: Callable[[int], None] = lambda finished: None,
    ) -> tuple[list[PiecedQuestion], list[Reading]]:
        """Return questions as pieces, and what the network finds in their windows."""
        pieced = piece_questions(questions, self.vocabularies["text"], self._form)
        with evaluation_mode(self.network):
            return pieced, read_windows(self.bundle, pieced, choice, advance)

    def choose(
        self,
        questions: Sequence[Question],
        pieced: Sequence[PiecedQuestion],
        readings: Sequence[Reading],
        choice: Choice,
    ) -> list[Answer]:
        """Return the answers to questions that were read."""
        found = zip(readings, questions, pieced, strict=True)
        return [choose_answer(reading, question, pieces, choice, self.no_answer) for reading, question, pieces in found]

    def _own_facts(self) -> Iterator[str]:
        yield "may find no answer" if self.no_answer else "always answers"
