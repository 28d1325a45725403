"""Facts about the training corpora that defaults follow."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from heedful.base.errors import HeedfulError

LITTLE: Final = 20_000  # rows: below it, defaults are those of little data
_COUNTED: Final = 5 * LITTLE  # rows: more are not read
_LONGEST_WORDS: Final = 12  # characters per space: with more, texts are single words, or written without spaces


class Row(NamedTuple):
    """What defaults need to know about a text, a pair, a tree or an image."""

    size: int  # characters of the text that a model reads, or pixels
    spaces: int = 0
    classes: Iterable[str] = ()
    written: int = 0  # characters of what belongs to it: a translation, brackets, captions, questions

    @classmethod
    def of_text(cls, text: str, classes: Iterable[str] = ()) -> "Row":
        """Return what counts of a text."""
        return cls(len(text), text.count(" "), classes)


@dataclass(frozen=True)
class CorpusFacts:
    """What defaults need to know about the training corpora."""

    rows: int  # texts, pairs, trees or images
    size: int  # characters of all of them, of translation pairs those of the sources; pixels of images
    classes: int = 0  # different labels, or words of translations
    spaces: int = 0  # between words
    written: int = 0  # characters of what belongs to the rows
    more: bool = False  # whether there are more rows, which were not counted

    @property
    def spaced(self) -> bool:
        """Whether texts have spaces between words; single words, and texts in Chinese or Thai, do not."""
        return self.spaces * _LONGEST_WORDS >= self.size

    def words(self, noun: str) -> str:
        """Return the size of the corpus in words: "1 document", "100,000 or more texts"; `noun` is a plural."""
        one = self.rows == 1 and not self.more
        return f"{self.rows:,}{' or more' if self.more else ''} {noun.removesuffix('s') if one else noun}"


def count(rows: Iterable[Row]) -> CorpusFacts | None:
    """Count rows, their sizes and their classes; None if there are none, or if they cannot be read."""
    number = size = spaces = written = 0
    classes: set[str] = set()
    with suppress(HeedfulError, OSError, ValueError, TypeError):
        for row in islice(rows, _COUNTED):
            number, size, spaces, written = number + 1, size + row.size, spaces + row.spaces, written + row.written
            classes.update(row.classes)
        return CorpusFacts(number, size, len(classes), spaces, written, number >= _COUNTED) if number else None
    return None
