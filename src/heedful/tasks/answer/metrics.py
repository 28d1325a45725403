"""Exact match and token F1 of answers, as the official program of SQuAD computes them      Rajpurkar et al. 2018

Texts are lowercased and lose their punctuation and the English articles before they are compared. A question that
its text does not answer has the empty text as its only acceptable answer.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
    words = normalize_answer(said).split()
    return max(_f1(words, answer.split()) for answer in _acceptable(answers))


def _acceptable(answers: Sequence[str]) -> list[str]:
    """Return the normalised answers; only the empty one if none says anything."""
    return [answer for answer in map(normalize_answer, answers) if answer] or [""]


def _f1(said: list[str], true: list[str]) -> float:
    if not said or not true:
        return float(said == true)
    same = sum((Counter(said) & Counter(true)).values())
    return 2 * same / (len(said) + len(true))


@dataclass(frozen=True)
class AnswerResult:
    """Scores of answers to questions, each between 0 and 1 or None where there is no such question."""

    questions: int
    exact_match: float
    f1: float
    answerable: int  # number of questions that have an answer
    answerable_exact_match: float | None
    answerable_f1: float | None
    unanswerable_right: float | None  # share of the questions without an answer that were left without one


def score_answers(said: Sequence[str], true: Sequence[Sequence[str]]) -> AnswerResult:
    """Score one answer per question, empty where none was found, against its acceptable answers."""
    exact = [exact_match(one, answers) for one, answers in zip(said, true, strict=True)]
    f1 = [token_f1(one, answers) for one, answers in zip(said, true, strict=True)]
    has = [_acceptable(answers) != [""] for answers in true]
    return AnswerResult(
        len(exact),
        _mean(exact) or 0.0,
        _mean(f1) or 0.0,
        sum(has),
        _mean([right for right, answered in zip(exact, has, strict=True) if answered]),
        _mean([value for value, answered in zip(f1, has, strict=True) if answered]),
        _mean([right for right, answered in zip(exact, has, strict=True) if not answered]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
