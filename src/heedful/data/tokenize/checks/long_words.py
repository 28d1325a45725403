"""Words that are too long to train a tokenizer on: encoded files, binary data, text without any space.

The time of a trainer grows with the square of a word's length, so a single one could keep it busy for hours.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from heedful.base.errors import counted

LONGEST_WORD: Final = 1_000  # characters: far more than any word, or most sentences of a language without spaces
_LONG_RUN: Final = re.compile(rf"\S{{{LONGEST_WORD + 1},}}|\s{{{LONGEST_WORD + 1},}}")


class ShortenedWords:
    """Texts in which of a word, or of a run of spaces, that is too long only the beginning is left; counts them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self._count = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            yield _LONG_RUN.sub(self._beginning, text) if len(text) > LONGEST_WORD else text

    @property
    def description(self) -> str:
        """Say how many words were shortened; empty where none was."""
        if not self._count:
            return ""
        were = "was" if self._count == 1 else "were"
        return f"{counted(self._count, 'word')} of more than {LONGEST_WORD:,} characters {were} cut for its training"

    def _beginning(self, run: re.Match[str]) -> str:
        self._count += 1
        return run[0][:LONGEST_WORD]
