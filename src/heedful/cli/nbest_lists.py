"""N-best lists of other systems, as lines of a file.

id ||| text ||| features ||| score      Moses, Marian and others: the id is the number of a source, counted from 0
source TAB text TAB score               lines of one source follow each other

Features and score may be missing.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

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


def read_nbest_lists(lines: Iterable[str], name: str, sources: Sequence[str] | None, of: str) -> Iterator[FiledList]:
    """Yield the lists of a file: with sources, which `of` names, by their numbers; without them in columns."""
    numbered = enumerate(lines, start=1)
    if sources is None:
        yield from _in_columns(numbered, name)
        return
    last = -1
    rows = (_barred(line, f"{name}, line {number:,}") for number, line in numbered)
    for key, group in groupby(rows, key=lambda row: row[0]):
        several = list(group)
        where = several[0][4]
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
        candidates = tuple(Candidate(text, score) for _, text, _, score, _ in several)
        yield FiledList(sources[index], candidates, where, key, tuple(row[2] for row in several))


def _barred(line: str, where: str) -> tuple[str, str, str, float | None, str]:
    """Return the id, the text, the features and the score of a line."""
    fields = [field.strip() for field in line.split(_BAR)]
    if len(fields) < 2:
        raise UserError(f"{where} has no `{_BAR}`, but must be `id ||| text ||| features ||| score`.")
    key, text, *others = fields
    if len(others) == 1 and (score := _number(others[0])) is not None:
        return key, text, "", score, where
    if len(others) < 2:
        return key, text, "".join(others), None, where
    score = _number(others[1])
    if score is None:
        raise UserError(f"{where} has the score `{others[1]}`, but a score must be a number.")
    return key, text, others[0], score, where


def _in_columns(numbered: Iterable[tuple[int, str]], name: str) -> Iterator[FiledList]:
    rows = (_columns(line, f"{name}, line {number:,}") for number, line in numbered)
    for source, group in groupby(rows, key=lambda row: row[0]):
        several = list(group)
        candidates = tuple(Candidate(text, score) for _, text, score, _ in several)
        yield FiledList(source, candidates, several[0][3], source)


def _columns(line: str, where: str) -> tuple[str, str, float | None, str]:
    columns = line.split("\t")
    if not 2 <= len(columns) <= 3:
        raise UserError(
            f"{where} has {counted(len(columns), 'column')}, but must have a source, a translation and possibly a "
            "score, separated by tabs; lines with `|||` need --source."
        )
    if len(columns) == 2:
        return columns[0], columns[1], None, where
    score = _number(columns[2])
    if score is None:
        raise UserError(f"{where} has the score `{columns[2]}`, but a score must be a number.")
    return columns[0], columns[1], score, where


def _number(text: str) -> float | None:
    """Return a finite number; None for any other text."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
