"""Which texts of a corpus are used: those of a part, and a sample of these, chosen by the sha256 of what they say.

Neither the order of a file nor what else it holds decides where a text goes, so the parts of a corpus never share one.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from heapq import nsmallest
from operator import itemgetter

from heedful.base.errors import UserError, counted
from heedful.config.corpora.corpus import Subsets
from heedful.data.corpora.files import Row


def choose(rows: Iterable[Row], corpus: Subsets, key: Callable[[Row], str], noun: str = "text") -> Iterator[Row]:
    """Yield the rows of the corpus's `part` and `sample`, in the order of the file.

    `key` returns a row's content; `noun` is what a row is called in messages.
    """
    if not corpus.part and corpus.sample is None:
        yield from rows
        return
    hashed = _of_part(((_hash(key(row)), number, row) for number, row in enumerate(rows)), corpus)
    taken = hashed if corpus.sample is None else _sampled(hashed, corpus, corpus.sample, noun)
    yield from (row for _, _, row in taken)


def _hash(text: str) -> int:
    # A JSON file can hold half of a surrogate pair, which UTF-8 cannot: any bytes are good enough for a hash.
    return int.from_bytes(sha256(text.encode(errors="surrogatepass")).digest(), "big")


def _of_part(rows: Iterator[tuple[int, int, Row]], corpus: Subsets) -> Iterator[tuple[int, int, Row]]:
    if not corpus.part:
        return rows
    first, last, count = corpus.part_range
    return (row for row in rows if first <= row[0] % count <= last)


def _sampled(
    rows: Iterator[tuple[int, int, Row]], corpus: Subsets, count: int, noun: str
) -> list[tuple[int, int, Row]]:
    kept = nsmallest(count, rows)  # by hash; equal texts in the order of the file
    if len(kept) < count:
        of_part = f' in part "{corpus.part}"' if corpus.part else ""
        raise UserError(f"{corpus.title} has {counted(len(kept), noun)}{of_part}, but `sample` is {count:,}: lower it.")
    return sorted(kept, key=itemgetter(1))
