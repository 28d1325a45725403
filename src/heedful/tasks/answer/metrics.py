"""Metrics of readers: exact match and token F1, as the official program of SQuAD has them      Rajpurkar et al. 2018

Texts are lowercased and lose their punctuation and the English articles before they are compared. A question that
its text does not answer has the empty text as its only acceptable answer.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heedful.metrics.rows import MetricRow

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = frozenset(string.punctuation)


def normalize_answer(text: str) -> str:
    """Return a text in lower case, without punctuation, articles and repeated spaces."""
    letters = "".join(letter for letter in text.lower() if letter not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", letters).split())


def exact_match(said: str, answers: Sequence[str]) -> bool:
    """Whether an answer equals one of the acceptable ones; the empty text where there is none."""
    return normalize_answer(said) in _acceptable(answers)


def token_f1(said: str, answers: Sequence[str]) -> float:
    """Return the F1 of an answer's words against the acceptable answer that it is nearest to.

    F1 = 2 P R / (P + R) over the words that both have; between an empty answer and another, 1 if both are empty.
    """
    words, found = normalize_answer(said).split(), []
    for true in map(str.split, _acceptable(answers)):
        same = sum((Counter(words) & Counter(true)).values())
        found.append(2 * same / (len(words) + len(true)) if words and true else float(words == true))
    return max(found)


def _acceptable(answers: Sequence[str]) -> list[str]:
    """Return the normalised answers; only the empty one if none says anything."""
    return [answer for answer in map(normalize_answer, answers) if answer] or [""]


@dataclass(frozen=True)
class AnswerResult:
    """Answers to questions next to their acceptable answers; shares are None where there is no such question."""

    exact: Sequence[bool]  # whether each answer equals an acceptable one
    f1s: Sequence[float]
    answered: Sequence[bool]  # whether each question has an answer
    loss: float = math.nan  # -log P of the true start and end, mean over windows

    @property
    def questions(self) -> int:
        """The number of questions."""
        return len(self.exact)

    @property
    def exact_match(self) -> float:
        """The fraction of exact answers."""
        return _mean(self.exact) or 0.0

    @property
    def f1(self) -> float:
        """The mean F1 of answers."""
        return _mean(self.f1s) or 0.0

    @property
    def answerable(self) -> int:
        """The number of questions that have an answer."""
        return sum(self.answered)

    @property
    def answerable_exact_match(self) -> float | None:
        """The fraction of exact answers to questions that have one."""
        return _mean([right for right, answered in zip(self.exact, self.answered, strict=True) if answered])

    @property
    def answerable_f1(self) -> float | None:
        """The mean F1 of answers to questions that have one."""
        return _mean([value for value, answered in zip(self.f1s, self.answered, strict=True) if answered])

    @property
    def unanswerable_right(self) -> float | None:
        """The fraction of questions without an answer that were left without one."""
        return _mean([right for right, answered in zip(self.exact, self.answered, strict=True) if not answered])


def score_answers(said: Sequence[str], true: Sequence[Sequence[str]], loss: float = math.nan) -> AnswerResult:
    """Score one answer per question, empty where none was found, against its acceptable answers."""
    return AnswerResult(
        [exact_match(one, answers) for one, answers in zip(said, true, strict=True)],
        [token_f1(one, answers) for one, answers in zip(said, true, strict=True)],
        [_acceptable(answers) != [""] for answers in true],
        loss,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


_AS_SQUAD: Final = "as SQuAD's program"

METRICS: Final[tuple[MetricRow[AnswerResult], ...]] = (
    MetricRow.mean(
        "exact_match",
        "exact match",
        _AS_SQUAD,
        lambda result: result.exact,
        note=lambda result: f"{sum(result.exact):,} of {result.questions:,}",
    ),
    MetricRow.mean("f1", "token F1", _AS_SQUAD, lambda result: result.f1s),
    MetricRow("loss", "loss", lambda result: result.loss, "lower", "loss"),
)
