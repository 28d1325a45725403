"""Where the rows of a store are from: the file and the line of a row, for messages.

A store does not keep them. They are found by reading the corpus again up to the row, as it was read for the store.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from heedful.base.errors import HeedfulError
from heedful.config.corpora.containers import AnyCorpus
from heedful.data.collate import Rows as Numbers
from heedful.data.collate import rows_by_owner
from heedful.data.prepare.stores import Rows

_FURTHEST: Final = 100_000  # rows that are read again: some seconds


@dataclass(frozen=True, eq=False)
class Source:
    """A corpus, and how its rows became those of a store; None if a task has its own way."""

    corpus: AnyCorpus
    rows: Rows[Any] | None = None

    def places(self, wanted: Sequence[int]) -> list[str]:
        """Return the places of rows of the store, in ascending order: "train.tsv, line 12"."""
        known: Mapping[int, str] = {}
        if self.rows is not None and max(wanted, default=0) < _FURTHEST:
            try:
                known = self._read(self.rows, wanted)
            except (HeedfulError, OSError):  # the files have changed since
                known = {}
        noun = "row" if self.rows is None else self.rows.noun
        return [known.get(row, f"{self.corpus.title}, prepared {noun} {row + 1:,}") for row in wanted]

    def _read(self, rows: Rows[Any], wanted: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        made, last = 0, max(wanted, default=-1)
        for number, row in enumerate(rows.read(Counter()), start=1):
            if rows.objection(row):
                continue
            before, made = made, made + _count(rows, row)  # a long text may become several rows, a filtered one none
            found |= {one: self._place(rows, row, number) for one in wanted if before <= one < made}
            if made > last:
                break
        return found

    def _place(self, rows: Rows[Any], row: Any, number: int) -> str:
        """Say where a row is that was the number-th one to be read: by what it knows itself, where it does."""
        image = getattr(row, "image", row)
        if where := getattr(image, "where", ""):
            return str(where)
        line = getattr(row, "line", 0) or next(iter(getattr(row, "lines", ())), 0)
        corpus = self.corpus
        if not line and rows.noun == "pair" and not (getattr(corpus, "part", "") or getattr(corpus, "sample", None)):
            line = number + (corpus.line_range[0] - 1 if corpus.lines else 0)
        return f"{corpus.title}, line {line:,}" if line else f"{corpus.title}, {rows.noun} {number:,}"


def _count(rows: Rows[Any], row: Any) -> int:
    """Return how many rows of a store a row becomes."""
    return sum(len(next(iter(streams.values()))) for streams in rows.encode(iter([[row]]), Counter()))


def name_rows(sources: Sequence[Source], sizes: Sequence[int], rows: Numbers) -> list[str]:
    """Return the places of rows that are counted through all stores, which have these sizes."""
    names: list[str] = []
    for number, (_, own) in enumerate(rows_by_owner(sizes, np.unique(rows))):
        if len(own):
            source = sources[number] if number < len(sources) else None
            names += [f"training row {row + 1:,}" for row in own] if source is None else source.places(own.tolist())
    return names
