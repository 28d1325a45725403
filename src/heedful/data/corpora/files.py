"""What is the same for all corpora: their files, names and lines, and what decides their content."""

from collections.abc import Iterator
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
from heedful.data.corpora.lines import TextFile, check_exists, locate
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
        "kind": _KINDS[type(corpus)],
        "options": options,
        "files": [[sha256_of_file(file.path), file.path.suffix.lower(), file.member] for file in files],
        "generator": GENERATORS[corpus.builtin] if isinstance(corpus, BuiltinCorpus) else [],
    }


# Part of cache keys and of checkpoints: plain strings that no renaming of a class or a file may change.
_KINDS: dict[type, str] = {
    TextCorpus: "TextCorpus",
    TsvCorpus: "TsvCorpus",
    JsonlCorpus: "JsonlCorpus",
    BuiltinCorpus: "BuiltinCorpus",
    TsvTexts: "TsvTexts",
    JsonlTexts: "JsonlTexts",
    PlainTexts: "PlainTexts",
}
# The version of each generator: a test pins what it makes, and a change of that takes a new version, such as ["2"].
# The first version is called by what its three files hashed to when caches and runs were first made with it.
GENERATORS: dict[str, list[str]] = {
    "english-spanish": [
        "e98fccce89ea042b3440de15c9d9afe57864e4c126d5a1c92ec4a8db2d839f36",
        "e718eca30ea622ddf2fa690ea6832fd3421767971d56dd787634f157f74c9dd5",
        "5c90cf5790c665a896f442556b862abacb89389d23e5c80943bf74bb6d57800f",
    ],
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


def select_lines(rows: Iterator[Row], corpus: AnyCorpus) -> Iterator[Row]:
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
