"""Tokenizers of a recipe: from the cache, or trained now and kept there."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import tokenizers as tokenizers_library

from heedful.base.errors import UserError, counted
from heedful.base.files import read_bytes
from heedful.config.tokenizer import AnySide
from heedful.data.cache import Say, cache_folder, cached, key_of
from heedful.data.text_form import TextForm
from heedful.data.tokenize import training as tokenizer_training
from heedful.data.tokenize.tokenizer import Tokenizer

_FILE: Final = "tokenizer.json"


@dataclass(frozen=True, eq=False)
class Sample:
    """`taken` of all `count` rows of texts, evenly spaced; all rows have the same number of texts."""

    rows: Callable[[], Iterable[tuple[str, ...]]]
    taken: int
    count: int
    texts: int = 1  # of each row

    @classmethod
    def of(
        cls, rows: Callable[[], Iterable[tuple[str, ...]]], most: int, texts: int = 1, count: int | None = None
    ) -> Self:
        """Take at most `most` texts in whole rows, one at least; rows are counted where `count` is not known."""
        count = sum(1 for _ in rows()) if count is None else count
        return cls(rows, min(count, max(1, most // texts)), count, texts)

    def __iter__(self) -> Iterator[str]:
        for number, row in enumerate(self.rows()):
            if (number + 1) * self.taken // self.count != number * self.taken // self.count:
                yield from row

    @property
    def description(self) -> str:
        """The number of texts out of how many, in words; empty where all are taken."""
        if self.taken == self.count:
            return ""
        return f", on {self.taken * self.texts:,} of {self.count * self.texts:,} texts"


@dataclass(frozen=True)
class TokenizerTraining:
    """Everything that decides a tokenizer: its kind, the form of texts, the content of corpora, and its markers."""

    config: AnySide
    form: TextForm
    contents: Sequence[Mapping[str, object]]
    languages: Sequence[str] = ()
    mask: bool = False
    running: bool = False  # whether the texts are running text, with line breaks

    def tokenizer(self, side: str, of_side: str, texts: Callable[[], Sample], progress: Say) -> Tokenizer:
        """Return the tokenizer of a side, which is called `of_side` in messages."""
        # A vocabulary depends on its own side alone. A new key may enter only where it is not at its default.
        left_out = {"target", "extend"} if self.config.keep else {"target", "extend", "keep"}
        key = key_of(
            {
                "version": tokenizer_training.VERSION,
                "library": tokenizers_library.__version__,
                "config": {"joint": False, **self.config.model_dump(exclude=left_out)},
                "form": self.form.key(),
                "languages": self.languages,
                "side": side,
                "contents": self.contents,
                **({"mask": True} if self.mask else {}),
                **({"running": 1} if self.running else {}),
            }
        )

        def build(staged: Path) -> None:
            sample, config = texts(), self.config
            taken = sample.description and f"{sample.description} (`{config.table}.sample`)"
            progress(f"training the tokenizer{of_side}: {config.kind}, {config.size:,} pieces{taken}")
            words = ShortenedWords(sample)
            trained = tokenizer_training.train_tokenizer(config, words, self.languages, self.mask)
            if words.description:
                progress(f"the tokenizer{of_side}: {words.description}")
            (staged / _FILE).write_bytes(trained.to_json())

        return cached(cache_folder() / "tokenizers" / key, _load, build, progress)


def _load(folder: Path) -> Tokenizer | None:
    path = folder / _FILE
    try:
        return Tokenizer.from_json(read_bytes(path), str(path))
    except UserError:  # missing or damaged
        return None


# --- words that are too long to train a tokenizer on: encoded files, binary data, text without any space --------------
#
# The time of a trainer grows with the square of a word's length, so a single one could keep it busy for hours.


LONGEST_WORD: Final = 1_000  # characters: far more than any word, or most sentences of a language without spaces
_LONG_RUN: Final = re.compile(  # from the start of a run on: elsewhere there is nothing to look for
    rf"(?<!\S)\S{{{LONGEST_WORD + 1},}}+|(?<!\s)\s{{{LONGEST_WORD + 1},}}+"
)


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
