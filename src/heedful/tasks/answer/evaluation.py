"""Evaluation of a reader on questions with answers."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from heedful.base.errors import UserError, counted
from heedful.data.corpora.questions.question import Question
from heedful.data.prepare.question_windows import PiecedQuestion
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.metrics.scores import ItemScores, Score, finite_scores, mean_score
from heedful.tasks.answer.answer import Answer, Choice
from heedful.tasks.answer.metrics import AnswerResult, exact_match, score_answers, token_f1
from heedful.tasks.answer.scoring import Reading
from heedful.tasks.shared.streaming import CHUNK, chunks


class Reads(Protocol):
    """What is asked of a reader: see `Reader`."""

    def read(
        self, questions: Sequence[Question], choice: Choice, advance: Callable[[int], None]
    ) -> tuple[list[PiecedQuestion], list[Reading]]:
        """Return questions as pieces, and what the network finds in their windows."""
        ...

    def choose(
        self,
        questions: Sequence[Question],
        pieced: Sequence[PiecedQuestion],
        readings: Sequence[Reading],
        choice: Choice,
    ) -> list[Answer]:
        """Return the answers to questions that were read."""
        ...


@dataclass(frozen=True, eq=False)
class AnswerEvaluation:
    """Scores of a reader on questions, and its answers."""

    questions: tuple[Question, ...]
    found: tuple[Answer, ...]
    result: AnswerResult
    loss: float  # -log P of the true start and end, mean over windows
    windows: int
    seconds: float  # time to answer
    own: Mapping[str, float] = field(default_factory=dict)  # scores by metrics of the caller's program

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        said, true = [answer.text for answer in self.found], [list(question.answers) for question in self.questions]
        return replace(self, own={**self.own, **score_outputs(metrics, said, true)})

    @property
    def questions_per_second(self) -> float:
        """Number of questions answered per second."""
        return len(self.questions) / self.seconds

    def scores(self) -> list[Score]:
        """Return exact match, F1 and loss."""
        result = self.result
        right = f"{round(result.exact_match * result.questions):,} of {result.questions:,}"
        return [
            Score("exact_match", "exact match", result.exact_match, "percent", right),
            Score("f1", "token F1", result.f1, "percent"),
            Score("loss", "loss", self.loss, "loss"),
            *(Score(name, name, value) for name, value in self.own.items()),
        ]

    def item_scores(self) -> ItemScores:
        """Return what each question adds to the scores."""
        pairs = [(one.text, asked.answers) for one, asked in zip(self.found, self.questions, strict=True)]
        return ItemScores(
            "question",
            self.questions,
            (
                mean_score(
                    "exact_match", "exact match", "as SQuAD's program", lambda: [exact_match(*p) for p in pairs]
                ),
                mean_score("f1", "token F1", "as SQuAD's program", lambda: [token_f1(*pair) for pair in pairs]),
            ),
            [
                (asked.question, " | ".join(asked.answers), one.text)
                for one, asked in zip(self.found, self.questions, strict=True)
            ],
            [len(asked.text.split()) for asked in self.questions],
            "text",
        )

    def remarks(self) -> list[str]:
        """Return the time taken, and the scores of questions with and without an answer where there are both."""
        speed = f"{self.questions_per_second:,.0f} questions/s"
        number = counted(self.result.questions, "question")
        lines = [f"{number}, {counted(self.windows, 'window')} in {self.seconds:.1f} s, {speed}"]
        return [*lines, *self._parts()]

    def _parts(self) -> Iterator[str]:
        result = self.result
        if result.unanswerable_right is None:
            return
        if result.answerable_exact_match is not None and result.answerable_f1 is not None:
            yield (
                f"{counted(result.answerable, 'question')} with an answer: exact match "
                f"{result.answerable_exact_match:.2%}, F1 {result.answerable_f1:.2%}"
            )
        without = counted(result.questions - result.answerable, "question")
        yield f"{without} without one: {result.unanswerable_right:.2%} left without an answer"

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        result = self.result
        return {
            **finite_scores([score for score in self.scores() if score.name not in self.own]),
            **({"metrics": dict(self.own)} if self.own else {}),
            "questions": result.questions,
            "answerable": result.answerable,
            "answerable_exact_match": result.answerable_exact_match,
            "answerable_f1": result.answerable_f1,
            "unanswerable_right": result.unanswerable_right,
            "windows": self.windows,
            "questions_per_second": round(self.questions_per_second, 1),
            "seconds": round(self.seconds, 3),
        }

    def outputs(self) -> Iterator[str]:
        """Yield one JSON object per question: the answer found, its place and probability, and the true answers."""
        for question, answer in zip(self.questions, self.found, strict=True):
            key = {"id": question.key} if question.key else {}
            row = {
                **key,
                "question": question.question,
                "answer": answer.text,
                "start": answer.start,
                "end": answer.end,
                "probability": round(answer.probability, 4),
                "true": question.answers,
            }
            yield json.dumps(row, ensure_ascii=False)


def evaluate_reader(
    reader: Reads,
    questions: Sequence[Question],
    choice: Choice,
    *,
    name: str = "data",
    progress: Callable[[int], None] = lambda ready: None,
) -> AnswerEvaluation:
    """Answer questions and compare with their acceptable answers.

    `name` is the corpus's name in messages; `progress` is called with the number of questions finished since the last
    call.
    """
    if not questions:
        raise UserError(f"{name} has no question to answer.")
    began, found, loss, windows = time.perf_counter(), list[Answer](), 0.0, 0
    for part in chunks(questions, CHUNK):
        pieced, readings = reader.read(part, choice, progress)
        found += reader.choose(part, pieced, readings, choice)
        loss += sum(reading.loss for reading in readings)
        windows += sum(reading.windows for reading in readings)
    seconds = time.perf_counter() - began
    return AnswerEvaluation(
        tuple(questions),
        tuple(found),
        score_answers([answer.text for answer in found], [question.answers for question in questions]),
        loss / windows,
        windows,
        seconds,
    )
