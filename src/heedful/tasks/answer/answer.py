"""The answer to a question."""

from dataclasses import dataclass
from typing import Annotated, Final, TypedDict

from heedful.base.arguments import check_number, check_whole
from heedful.base.options import Option

MAX_ANSWER: Final = 30  # tokens, as in the program of Devlin et al. 2019


@dataclass(frozen=True)
class Span:
    """A span of a text: `text[start:end]`."""

    text: str
    start: int  # in characters
    end: int
    probability: float  # of its start, times that of its end


@dataclass(frozen=True)
class Answer:
    """The answer to a question: the most likely span of the text, or none."""

    text: str  # exactly as the text has it; empty where there is no answer
    start: int | None  # in characters; None where there is no answer
    end: int | None
    probability: float  # of this answer, or that there is none
    spans: tuple[Span, ...]  # the most likely spans, best first, as many as `n_best` asks for
    no_answer: float | None  # probability that the text has no answer; None for a model that always answers


class ChoiceOptions(TypedDict, total=False):
    """Options that decide which answer is chosen."""

    max_answer: Annotated[int, Option("Maximum tokens of an answer.", MAX_ANSWER)]
    threshold: Annotated[
        float,
        Option("How much greater log P(no answer) must be than that of the best answer to give none.", 0.0),
    ]


class AnswerOptions(ChoiceOptions, total=False):
    """Options of `answer`."""

    n_best: Annotated[int, Option("Number of spans to return, most likely first.", 1)]


@dataclass(frozen=True)
class Choice:
    """Checked options: how an answer is chosen."""

    max_answer: int = MAX_ANSWER
    threshold: float = 0.0
    n_best: int = 1

    def __post_init__(self) -> None:
        check_whole("max_answer", self.max_answer, least=1)
        check_whole("n_best", self.n_best, least=1)
        check_number("threshold", self.threshold)
