"""N-best lists of other systems, as lines of a file.

id ||| text ||| features ||| score      Moses, Marian and others: the id is the number of a source, counted from 0
source TAB text TAB score               lines of one source follow each other

Features and score may be missing.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from heedful.base.errors import UserError, counted
from heedful.tasks.translate.scoring import Candidate, NBestList, Reranked

_BAR: Final = "|||"


@dataclass(frozen=True)
class FiledList(NBestList):
    """A list as it is in a file, so that it can be written back in the same form."""

    key: str = ""  # the id, or the source
    features: tuple[str, ...] | None = None  # of each candidate; None where columns are separated by tabs

    def line(self, found: Reranked) -> str:
        """Write a candidate with its new score."""
        if self.features is None:
            return f"{self.key}\t{found.text}\t{found.score:.4f}"
        return f" {_BAR} ".join([self.key, found.text, self.features[found.index], f"{found.score:.4f}"])


def read_nbest_lists(located: Iterable[tuple[str, str]], sources: Sequence[str] | None, of: str) -> Iterator[FiledList]:
    """Yield the lists of lines, which come with their places: with sources, which `of` names, by their numbers."""
    last = -1
    rows = ((_columns if sources is None else _barred)(line, where) for line, where in located)
    for key, group in groupby(rows, key=lambda row: row.key):
        several = list(group)
        candidates, where = tuple(Candidate(row.text, row.score) for row in several), several[0].where
        if sources is None:
            yield FiledList(key, candidates, where, key)
            continue
        index = int(key) if key.isdecimal() else -1
        if not 0 <= index < len(sources):
            raise UserError(
                f"{where} has the id `{key}`, but an id must be the number of a line of {of}, from 0 to "
                f"{len(sources) - 1:,}."
            )
        if index <= last:
            raise UserError(
                f"{where} has the id {index} after {last}: ids must ascend, with all lines of one together."
            )
        last = index
        yield FiledList(sources[index], candidates, where, key, tuple(row.features for row in several))


class _Row(NamedTuple):
    """A candidate on its line; its key is the id, or the source."""

    key: str
    text: str
    features: str
    score: float | None
    where: str


def _barred(line: str, where: str) -> _Row:
    fields = [field.strip() for field in line.split(_BAR)]
    if len(fields) < 2:
        raise UserError(f"{where} has no `{_BAR}`, but must be `id ||| text ||| features ||| score`.")
    key, text, *others = fields
    if len(others) == 1 and (score := _number(others[0])) is not None:
        return _Row(key, text, "", score, where)
    return _Row(key, text, others[0] if others else "", _score(others[1], where) if len(others) > 1 else None, where)


def _columns(line: str, where: str) -> _Row:
    columns = line.split("\t")
    if not 2 <= len(columns) <= 3:
        raise UserError(
            f"{where} has {counted(len(columns), 'column')}, but must have a source, a translation and possibly a "
            "score, separated by tabs; lines with `|||` need --source."
        )
    return _Row(columns[0], columns[1], "", _score(columns[2], where) if len(columns) == 3 else None, where)


def _score(text: str, where: str) -> float:
    score = _number(text)
    if score is None:
        raise UserError(f"{where} has the score `{text}`, but a score must be a number.")
    return score


def _number(text: str) -> float | None:
    """Return a finite number; None for any other text."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
