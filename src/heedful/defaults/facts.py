"""Facts about the training corpora that defaults follow."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from heedful.base.errors import HeedfulError

LITTLE: Final = 20_000  # rows: below it, defaults are those of little data
_COUNTED: Final = 5 * LITTLE  # rows: more are not read

Row: TypeAlias = tuple[str, Iterable[str]]  # the text that a model reads, and its classes if it has any


@dataclass(frozen=True)
class CorpusFacts:
    """What defaults need to know about the training corpora."""

    rows: int  # texts or pairs
    characters: int  # of all of them; of pairs, of the sources
    classes: int = 0
    spaces: int = 0  # between words
    more: bool = False  # whether there are more rows, which were not counted

    @property
    def words(self) -> str:
        """The size of the corpus in words, without its noun."""
        return f"{self.rows:,}{' or more' if self.more else ''}"


def count(rows: Iterable[Row]) -> CorpusFacts | None:
    """Count rows, their characters and their classes; None if there are none, or if they cannot be read."""
    number = characters = spaces = 0
    classes: set[str] = set()
    with suppress(HeedfulError, OSError, ValueError, TypeError):
        for text, labels in islice(rows, _COUNTED):
            number, characters, spaces = number + 1, characters + len(text), spaces + text.count(" ")
            classes.update(labels)
        return CorpusFacts(number, characters, len(classes), spaces, more=number >= _COUNTED) if number else None
    return None
