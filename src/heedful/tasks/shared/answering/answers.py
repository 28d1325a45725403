"""How a model answers what it is given: from the values of an input to its answer as JSON, as columns and as a line.

A verb makes one `Answers` of its loaded model. Lines, rows of tables and images all go through it, and so can requests
of other programs: an input is a mapping of roles to values, and `Answers.object` is its answer with the input.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from heedful.base.columns import in_digits
from heedful.base.errors import UserError

Found = TypeVar("Found")
_DIGITS: Final = 6  # of numbers in tables


@dataclass(slots=True)  # not frozen: that takes three times as long to make, and there is one for each line
class Given:
    """One input: its values by role, and its place."""

    values: Mapping[str, Any]  # {"text": "..."}; an image is its path
    where: str = ""  # for messages
    place: Mapping[str, Any] = field(default_factory=dict)  # fields of JSON that tell it: the number of its line
    row: Any = None  # the row of a table that it was read from
    skip: bool = False  # whether it is blank, and has an empty answer
    error: UserError | None = None  # why it cannot be read
    number: int = 0  # among all inputs of a command, counted from 1, once it is its turn


@dataclass(frozen=True)
class Answers(Generic[Found]):
    """How a model answers, in every form that its answers can have."""

    roles: tuple[str, ...]  # of an input
    read: Callable[[Mapping[str, Any], str], Any]  # what the model reads, from values by role and their place
    stream: Callable[..., Iterable[Found]]  # from what is read to answers, in order
    fields: Callable[[Found], Mapping[str, Any]]  # an answer as fields of a JSON object
    columns: tuple[str, ...]  # those of the fields that tables have
    line: Callable[[Found, Given], str]  # an answer as a line of text
    takes: tuple[str, ...] = ("ready", "name")  # keyword arguments of the stream; also "refused" and "progress"
    shown: Callable[[Found], Mapping[str, Any]] = lambda found: {}  # fields that are another thing in a table
    each: Callable[[Found], Sequence[Found]] = lambda found: (found,)  # what has a JSON object of its own
    between: str = " "  # what separates the items of a list in a column
    blank: str | None = ""  # the line of an input that has no answer, or an empty one; None: it has no line
    # JSON names of roles that are not their own, and fields that have an older name as well.
    called: Mapping[str, str] = field(default_factory=dict)
    formerly: Mapping[str, str] = field(default_factory=dict)

    def object(self, given: Given, found: Found) -> dict[str, Any]:
        """Return an answer with its input, as the fields of a JSON object."""
        fields = self.fields(found)
        old = {name: fields[now] for name, now in self.formerly.items() if now in fields}
        return {**self.input_fields(given), **old, **fields}

    def input_fields(self, given: Given) -> dict[str, Any]:
        """Return an input as the fields of a JSON object."""
        values = {self.called.get(role, role): _as_text(value) for role, value in given.values.items()}
        return {**given.place, **values}

    def cells(self, outcome: "Outcome[Found]") -> list[str]:
        """Return the columns of an answer in a table; empty ones where there is none."""
        found: Any = outcome.found
        fields = {**self.fields(found), **self.shown(found)} if outcome.answered else {}
        return [cell(fields.get(name), self.between) for name in self.columns]


def cell(value: object, between: str = " ") -> str:
    """Return a value as a cell of a table."""
    match value:
        case None:
            return ""
        case str():
            return value
        case float():
            return in_digits(value, _DIGITS)
        case list() | tuple():
            return between.join(cell(each) for each in value)
        case _:
            return str(value)


def read_text(values: Mapping[str, Any], where: str) -> Any:
    """Return the text or the two texts of an input as models with one output read them."""
    from heedful.data.corpora.texts import Text  # which takes a moment to import

    return Text(values["text"], values.get("second"))


def read_image(values: Mapping[str, Any], where: str) -> Any:
    """Return the image of an input as models read it: a file by its path, or what holds its pixels."""
    from heedful.data.corpora.images import LabelledImage  # imports NumPy

    image = values["image"]
    return image if isinstance(image, LabelledImage) else LabelledImage(Path(image), where=str(image))


def _as_text(value: object) -> object:
    return " ".join(value) if isinstance(value, list | tuple) else value if value is None else str(value)


@dataclass(frozen=True)
class Outcome(Generic[Found]):
    """An input with its answer, or why it has none; neither for a blank one."""

    given: Given
    found: Found | None = None
    error: UserError | None = None
    answered: bool = False
