"""What is the same for all corpora: their files, names and lines, and what decides their content."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar, assert_never

from heedful.config.corpora import (
    AnyCorpus,
    BuiltinCorpus,
    JsonlCorpus,
    JsonlTexts,
    PlainTexts,
    TextCorpus,
    TsvCorpus,
    TsvTexts,
)
from heedful.data import english_spanish
from heedful.data.lines import TextFile, check_exists, locate
from heedful.errors import UserError, counted
from heedful.files import sha256_of_file

Row = TypeVar("Row")


def corpus_name(corpus: AnyCorpus) -> str:
    """What to call a corpus in messages."""
    if corpus.name:
        return corpus.name
    match corpus:
        case TextCorpus():
            return f"{corpus.source} + {corpus.target}"
        case TsvCorpus() | TsvTexts():
            return corpus.tsv
        case JsonlCorpus() | JsonlTexts():
            return corpus.jsonl
        case BuiltinCorpus():
            return f"{corpus.builtin} {corpus.part}"
        case PlainTexts():
            return corpus.text
        case _:
            assert_never(corpus)


def check_files(corpus: AnyCorpus, folder: str = "") -> None:
    """Refuse a corpus whose files cannot be opened, before anything long begins."""
    for file in files_of(corpus, folder):
        check_exists(file)


def content_key(corpus: AnyCorpus, folder: str = "") -> dict[str, object]:
    """All that decides what is read: the content of the files, not where they are, and the reader's options."""
    files = files_of(corpus, folder)
    check_files(corpus, folder)
    options = corpus.model_dump(exclude={"name", "weight"} | _FILE_KEYS[type(corpus)])
    return {
        "kind": type(corpus).__name__,
        "options": options,
        "files": [[sha256_of_file(file.path), file.path.suffix.lower(), file.member] for file in files],
        "generator": _generator_hashes() if isinstance(corpus, BuiltinCorpus) else [],
    }


_FILE_KEYS: dict[type, set[str]] = {
    TextCorpus: {"source", "target"},
    TsvCorpus: {"tsv"},
    JsonlCorpus: {"jsonl"},
    BuiltinCorpus: set(),
    TsvTexts: {"tsv"},
    JsonlTexts: {"jsonl"},
    PlainTexts: {"text"},
}


def files_of(corpus: AnyCorpus, folder: str) -> list[TextFile]:
    """The files that a corpus is in."""
    match corpus:
        case TextCorpus():
            return [locate(corpus.source, folder), locate(corpus.target, folder)]
        case TsvCorpus() | TsvTexts():
            return [locate(corpus.tsv, folder)]
        case JsonlCorpus() | JsonlTexts():
            return [locate(corpus.jsonl, folder)]
        case PlainTexts():
            return [locate(corpus.text, folder)]
        case BuiltinCorpus():
            return []
        case _:
            assert_never(corpus)


def _generator_hashes() -> list[str]:
    """A generator that changed makes other sentences: its source text stands for them."""
    here = Path(english_spanish.__file__)
    return [sha256_of_file(file) for file in sorted(here.parent.glob(f"{here.stem}*.py"))]


def selected(rows: Iterator[Row], corpus: AnyCorpus) -> Iterator[Row]:
    """Only the rows of `lines`, where the corpus has that key."""
    if not corpus.lines:
        yield from rows
        return
    first, last = corpus.line_range
    number = 0
    for number, row in enumerate(rows, start=1):
        if number >= first:
            yield row
        if number == last:
            return
    raise UserError(
        f'{corpus_name(corpus)} has {counted(number, "line")}, but `lines` is "{corpus.lines}": lower its end.'
    )
