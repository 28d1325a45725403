"""Evaluation of a reader on questions with answers."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from heedful.base.errors import counted
from heedful.data.corpora.questions import Question
from heedful.tasks.answer.answer import Answer
from heedful.tasks.answer.metrics import METRICS, AnswerResult
from heedful.tasks.shared.evaluation import Item, ItemEvaluation


@dataclass(frozen=True, eq=False, kw_only=True)
class AnswerEvaluation(ItemEvaluation):
    """Scores of a reader on questions, and its answers."""

    metrics = METRICS
    lengths_of = "text"

    questions: tuple[Question, ...]
    found: tuple[Answer, ...]
    result: AnswerResult
    noun: str = "question"
    windows: int

    def outputs_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the answers found, and the lists of acceptable answers."""
        return [answer.text for answer in self.found], [list(question.answers) for question in self.questions]

    @property
    def questions_per_second(self) -> float:
        """Number of questions answered per second."""
        return len(self.questions) / self.seconds

    def items(self) -> Iterator[Item]:
        """Yield the questions with their answers."""
        for asked, found in zip(self.questions, self.found, strict=True):
            yield Item(asked, asked.question, " | ".join(asked.answers), found.text, len(asked.text.split()))

    def remarks(self) -> list[str]:
        """Return the time taken, and the scores of questions with and without an answer where there are both."""
        read = f"{counted(self.result.questions, 'question')}, {counted(self.windows, 'window')}"
        return [self.timing(read, len(self.questions), "question"), *self._parts()]

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

    def facts(self) -> dict[str, object]:
        """Return sizes, the scores of questions with and without an answer, and times."""
        result = self.result
        return {
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
