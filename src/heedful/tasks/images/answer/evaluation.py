"""Evaluation of a model on questions about images."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heedful.base.columns import align_columns, one_column
from heedful.base.errors import UserError, counted
from heedful.data.images.questions.reading import AskedImage, ImageQuestion
from heedful.metrics.classification import ClassificationResult, class_loss, decide_classes
from heedful.metrics.own_metrics import Metrics, score_outputs
from heedful.tasks.images.answer.validation import mark_known
from heedful.tasks.shared.classes.class_scores import ClassScores
from heedful.tasks.shared.classes.classification import classifications
from heedful.tasks.shared.streaming import chunks

_CHUNK = 256  # images that are in memory at once


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageAnswerEvaluation(ClassScores):
    """Scores of a model on questions about images, and its answers."""

    noun = "question"

    questions: tuple[ImageQuestion, ...]  # with the true answers
    images: tuple[str, ...]  # the file of each question's image, or its place in a corpus

    def with_metrics(self, metrics: Metrics) -> Self:
        """Return the evaluation with the scores of these metrics as well."""
        said, true = [found.label for found in self.found], [asked.answer for asked in self.questions]
        return replace(self, own={**self.own, **score_outputs(metrics, said, true)})

    def by_kind(self) -> dict[str, tuple[int, int]]:
        """Return the numbers of right answers and of questions of each kind; none where kinds are not known."""
        counts: dict[str, tuple[int, int]] = {}
        for asked, found in zip(self.questions, self.found, strict=True):
            right, count = counts.get(asked.kind, (0, 0))
            counts[asked.kind] = right + (found.label == asked.answer), count + 1
        return {kind: counts[kind] for kind in sorted(counts) if kind}

    @property
    def unknown(self) -> int:
        """Number of questions whose answer is not one that the model can give."""
        return sum(asked.answer not in self.result.labels for asked in self.questions)

    def rows(self) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the true answer to each question, the question, and its image."""
        for asked, image in zip(self.questions, self.images, strict=True):
            yield (asked.answer,), (asked.question, image)

    def remarks(self) -> list[str]:
        """Return the time taken, and the accuracy by kind of question, or tables of answers where it is not known."""
        first, *tables = super().remarks()
        lost = [f"{counted(self.unknown, 'answer')} that training never has, which count as wrong"]
        by_kind = self.by_kind()
        rows = [
            [one_column(kind), f"{100 * right / count:.2f}%", f"{count:,}"] for kind, (right, count) in by_kind.items()
        ]
        kinds = ["", *align_columns([["kind", "accuracy", "questions"], *rows])]
        return [first, *(lost if self.unknown else []), *(kinds if by_kind else tables)]

    def to_json(self) -> dict[str, object]:
        """Return everything as JSON values."""
        kinds = {
            kind: {"accuracy": right / count, "questions": count} for kind, (right, count) in self.by_kind().items()
        }
        return {**super().to_json(), "unknown_answers": self.unknown, **({"kinds": kinds} if kinds else {})}

    def outputs(self) -> Iterator[str]:
        """Yield one line per question: its true answer, the predicted one, its probability, question and image."""
        for (labels, shown), found in zip(self.rows(), self.found, strict=True):
            columns = [*labels, found.label, f"{found.probabilities[found.label]:.4f}", *shown]
            yield "\t".join(map(one_column, columns))


class ScoresAnswers(Protocol):
    """What is asked of a model: see `ImageAnswerer`."""

    @property
    def answers(self) -> tuple[str, ...]:
        """All answers that the model can give."""
        ...

    def scores(self, asked: Sequence[AskedImage], advance: Callable[[int], None] = ...) -> Float[Tensor, "Q C"]:
        """Return the scores of every answer to the questions about images."""
        ...


def evaluate_answers(
    model: ScoresAnswers,
    asked: Sequence[AskedImage],
    *,
    name: str = "data",
    progress: Callable[[int], None] = lambda ready: None,
) -> ImageAnswerEvaluation:
    """Answer questions about images and compare with their answers.

    `name` is the corpus's name in messages; `progress` is called with the number of questions finished since the last
    call.
    """
    questions = [question for each in asked for question in each.questions]
    if not questions:
        raise UserError(f"{name} has no question to answer.")
    began = time.perf_counter()
    scores_QC = torch.cat([model.scores(part, progress) for part in chunks(asked, _CHUNK)])
    seconds = time.perf_counter() - began
    answers = model.answers
    known = {answer: number for number, answer in enumerate(answers)}
    true = mark_known([known.get(question.answer, len(known)) for question in questions], len(answers))
    return ImageAnswerEvaluation(
        questions=tuple(questions),
        images=tuple(each.image.where for each in asked for _ in each.questions),
        found=tuple(classifications(scores_QC, answers, several=False)),
        result=ClassificationResult(answers, np.asarray(true), decide_classes(scores_QC, several=False)),
        loss=class_loss(scores_QC, true, several=False),
        several=False,
        seconds=seconds,
    )
