"""A question about a text, whose answer is a span of the text."""

from dataclasses import dataclass, field
from typing import Final

from heedful.base.errors import UserError

_SHOWN: Final = 60  # characters of a text in messages


@dataclass(frozen=True)
class Question:
    """A question, the text that it is about, and its acceptable answers; none where the text does not answer it."""

    question: str
    text: str
    answers: tuple[str, ...] = ()  # the first is the one that is learned
    start: int | None = None  # position of the first answer in the text, in characters; None without an answer
    where: str = field(default="", compare=False)  # its place in a file, for messages
    key: str = field(default="", compare=False)  # its name in the file, where it has one
    line: int = field(default=0, compare=False)  # its line in the file; 0 where there is none
    ambiguous: bool = field(default=False, compare=False)  # whether its answer occurs several times, and none is named

    @property
    def end(self) -> int | None:
        """Position after the last character of the first answer; None without an answer."""
        return None if self.start is None else self.start + len(self.answers[0])


def make_question(
    question: str, text: str, answers: tuple[str, ...] = (), start: int | None = None, where: str = "", key: str = ""
) -> Question:
    """Return a checked question; without `start`, its first answer is where it first occurs in the text."""
    if not question.strip():
        raise UserError(f"{where}: the question is empty: give one, or remove the row.")
    if not text.strip():
        raise UserError(f"{where}: the text is empty: give the text that the question is about, or remove the row.")
    answers = tuple(dict.fromkeys(answer for answer in answers if answer.strip()))
    if not answers:
        if start not in (None, -1):
            raise UserError(f"{where}: `start` is {start}, but there is no answer: leave it out, or give the answer.")
        return Question(question, text, (), None, where, key)
    first, ambiguous = answers[0], False
    if start is None:
        ambiguous = text.count(first) > 1
        start = text.find(first)
        if start < 0:
            raise UserError(
                f"{where}: the answer `{_short(first)}` does not occur in the text: an answer is a span of it, "
                "letter by letter. Correct it, or leave it empty if the text has none."
            )
    elif start < 0 or text[start : start + len(first)] != first:
        found = _short(text[start : start + len(first)]) if 0 <= start < len(text) else ""
        there = f"where the text has `{found}`" if found else f"which is not in the text of {len(text):,} characters"
        raise UserError(
            f"{where}: `start` is {start}, {there}, not the answer `{_short(first)}`: correct it (counted in "
            "characters from 0), or leave it out to take the first occurrence."
        )
    return Question(question, text, answers, start, where, key, ambiguous=ambiguous)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}..."
