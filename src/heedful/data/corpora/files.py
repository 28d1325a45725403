"""What all corpora have in common: their files, what decides their content, and which of their rows are used."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from heapq import nsmallest
from operator import itemgetter
from typing import Final, TypeVar

from heedful.base.errors import UserError, counted
from heedful.base.files import sha256_of_file
from heedful.config.corpora.containers import AnyCorpus, Builtin
from heedful.config.corpora.corpus import Subsets
from heedful.data.corpora.formats.lines import TextFile, check_exists, check_folder, locate
from heedful.data.corpora.formats.settling import settle

Row = TypeVar("Row")

# The version of each generator: a test pins what it makes, and a change of that takes a new version, such as ["2"].
# The first version is called by what its three files hashed to when caches and runs were first made with it.
GENERATORS: Final[Mapping[str, list[str]]] = {
    "english-spanish": [
        "e98fccce89ea042b3440de15c9d9afe57864e4c126d5a1c92ec4a8db2d839f36",
        "e718eca30ea622ddf2fa690ea6832fd3421767971d56dd787634f157f74c9dd5",
        "5c90cf5790c665a896f442556b862abacb89389d23e5c80943bf74bb6d57800f",
    ],
    "reports": ["1"],
    "dates": ["1"],
    "scenes": ["1"],
}


def files_of(corpus: AnyCorpus, folder: str) -> list[TextFile]:
    """Return the files that a corpus is in."""
    return [locate(name, folder) for name in corpus.files()]


def check_files(corpus: AnyCorpus, folder: str = "", hinted: bool = True) -> None:
    """Refuse a corpus whose files cannot be opened, before anything long begins; `hinted`: say what the folder is."""
    for file in files_of(corpus, folder):
        check_exists(file if hinted else replace(file, hint=""))
    for key in corpus.folder_keys:
        place = locate(getattr(corpus, key), folder)
        check_folder(place if hinted else replace(place, hint=""))


def content_key(corpus: AnyCorpus, folder: str = "") -> dict[str, object]:
    """Return what decides which rows are read: the content of the files, wherever they are, and the options."""
    check_files(corpus, folder)
    corpus, files = settle(corpus, folder), files_of(corpus, folder)
    return {
        "kind": corpus.frozen_kind,
        "options": corpus.options(),
        "files": [[sha256_of_file(file.path), file.path.suffix.lower(), file.member] for file in files],
        "generator": GENERATORS[corpus.builtin] if isinstance(corpus, Builtin) else [],
    }


def select_lines(rows: Iterator[Row], corpus: AnyCorpus) -> Iterator[Row]:
    """Yield only the rows of `lines`, where the corpus has that key."""
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
    raise UserError(f'{corpus.title} has {counted(number, "line")}, but `lines` is "{corpus.lines}": lower its end.')


# --- parts and samples: rows are chosen by the sha256 of what they say ------------------------------------------------
#
# Neither the order of a file nor what else it holds decides where a row goes: parts of a corpus never share one.


def choose(rows: Iterable[Row], corpus: Subsets, key: Callable[[Row], str], noun: str = "text") -> Iterator[Row]:
    """Yield the rows of the corpus's `part` and `sample`, in the order of the file.

    `key` returns a row's content; `noun` is what a row is called in messages.
    """
    if not corpus.chosen:
        yield from rows
        return
    # A JSON file can hold half of a surrogate pair, which UTF-8 cannot: any bytes are good enough for a hash.
    digests = ((sha256(key(row).encode(errors="surrogatepass")).digest(), row) for row in rows)
    hashed = ((int.from_bytes(digest, "big"), number, row) for number, (digest, row) in enumerate(digests))
    if corpus.part:
        first, last, count = corpus.part_range
        hashed = (row for row in hashed if first <= row[0] % count <= last)
    if corpus.sample is None:
        yield from (row for _, _, row in hashed)
        return
    kept = nsmallest(corpus.sample, hashed)  # by hash; equal texts in the order of the file
    if len(kept) < corpus.sample:
        of_part = f' in part "{corpus.part}"' if corpus.part else ""
        raise UserError(
            f"{corpus.title} has {counted(len(kept), noun)}{of_part}, but `sample` is {corpus.sample:,}: lower it."
        )
    yield from (row for _, _, row in sorted(kept, key=itemgetter(1)))
