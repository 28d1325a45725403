"""Facts about the training corpora that defaults follow."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from heedful.base.errors import HeedfulError

LITTLE: Final = 20_000  # rows: below it, defaults are those of little data
_COUNTED: Final = 5 * LITTLE  # rows: more are not read


class Row(NamedTuple):
    """What defaults need to know about a text, a pair or an image."""

    size: int  # characters of the text that a model reads, or pixels
    spaces: int = 0
    classes: Iterable[str] = ()

    @classmethod
    def of_text(cls, text: str, classes: Iterable[str] = ()) -> "Row":
        """Return what counts of a text."""
        return cls(len(text), text.count(" "), classes)


@dataclass(frozen=True)
class CorpusFacts:
    """What defaults need to know about the training corpora."""

    rows: int  # texts, pairs or images
    size: int  # characters of all of them, of translation pairs those of the sources; pixels of images
    classes: int = 0
    spaces: int = 0  # between words
    more: bool = False  # whether there are more rows, which were not counted

    @property
    def words(self) -> str:
        """The size of the corpus in words, without its noun."""
        return f"{self.rows:,}{' or more' if self.more else ''}"


def count(rows: Iterable[Row]) -> CorpusFacts | None:
    """Count rows, their sizes and their classes; None if there are none, or if they cannot be read."""
    number = size = spaces = 0
    classes: set[str] = set()
    with suppress(HeedfulError, OSError, ValueError, TypeError):
        for row in islice(rows, _COUNTED):
            number, size, spaces = number + 1, size + row.size, spaces + row.spaces
            classes.update(row.classes)
        return CorpusFacts(number, size, len(classes), spaces, more=number >= _COUNTED) if number else None
    return None
