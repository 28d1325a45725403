"""Decisions that files cannot make: each has its answers, and the options that give them on a command line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heedful.base.errors import UserError


@dataclass(frozen=True)
class Answer:
    """One answer to a question: in words, and as options of the command line."""

    words: str  # "`sentiment`: 2 values in 500 rows"
    options: str  # "--column label=sentiment"


@dataclass(frozen=True)
class Question:
    """Something that cannot be known from the files, and its possible answers."""

    where: str  # the file
    what: str  # "which column has the labels?"
    answers: tuple[Answer, ...]


Ask = Callable[[Question], int]  # returns the index of the chosen answer


def refuse_to_guess(question: Question) -> int:
    """Refuse a question that nobody is there to answer, with the options that answer it."""
    listed = "; ".join(f"{answer.options} ({answer.words})" for answer in question.answers)
    raise UserError(f"{question.where}: {question.what} Add one of: {listed}.")


def ask_for(ask: Ask, where: str, what: str, answers: Sequence[Answer]) -> int:
    """Ask a question, unless it has only one answer."""
    return 0 if len(answers) == 1 else ask(Question(where, what, tuple(answers)))
