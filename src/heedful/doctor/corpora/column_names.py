"""Recognises a first line that has the names of columns but is read as data."""

import re
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Final

from heedful.config.corpora.any import AnyCorpus
from heedful.doctor.corpora.rows import Row, RowForm, cells_of
from heedful.doctor.findings import Finding, Part

_NAMES: Final = frozenset(
    re.findall(
        r"\w+",
        """
    id idx index text texts sentence sentences document documents content body title message tweet comment review
    utterance query question answer premise hypothesis passage context headline description input output
    label labels class classes category categories sentiment intent topic genre rating score stars emotion polarity tag
    tags source target src tgt trg sources targets translation reference original lang language
    en de fr es it pt nl ru zh ja ko ar cs pl tr fi sv da no hu ro el he hi uk vi
    english german deutsch french spanish español italian portuguese dutch russian chinese japanese korean arabic
        """,
    )
)
_NUMBERED: Final = re.compile(r"[\s_-]*\d?$")  # sentence1, text_2
_WHOLE_NUMBER: Final = re.compile(r"-?\d{1,18}")
_FEW: Final = 5  # rows that are too few to tell names from data
_WORDS: Final = 3  # words of a usual text; where texts are single words, a name may be one of them
_ADVICE: Final = "otherwise the names are learned as an example."


def find_header(
    part: Part, corpus: AnyCorpus, rows: Sequence[Row], form: RowForm, labels: Counter[str]
) -> list[Finding]:
    """Report a first row that has the names of columns; `rows` are the first ones, `labels` counts all labels."""
    if len(rows) < _FEW or rows[0].line > 1 or not _is_header(rows, form, labels):
        return []
    shown = " | ".join(text for text in (rows[0].first, rows[0].second) if text)
    what = f"the first line looks like the names of columns: “{shown[:60]}”"
    way_out = "Set `header = true`" if hasattr(corpus, "header") else "Delete the line"
    file = ", ".join(corpus.files())
    return [Finding("warning", "header", part, what, f"{way_out}: {_ADVICE}", corpus.title, file, lines=(1,))]


def _is_header(rows: Sequence[Row], form: RowForm, labels: Counter[str]) -> bool:
    first, others = rows[0], rows[1:]
    cells = cells_of(first)
    named = [_is_name(cell) for cell in cells]
    usual = median(len(row.first.split()) for row in others) >= _WORDS
    if form.labelled:
        if labels[first.second] != 1 or len(labels) == 1:
            return False
        rest = [label for label in labels if label != first.second]
        if all(map(_WHOLE_NUMBER.fullmatch, rest)) and not _WHOLE_NUMBER.fullmatch(first.second):
            return any(named) or (usual and len(cells[0].split()) == 1)
        return named[-1] and (all(named) or (usual and len(cells[0].split()) == 1))
    if form.paired:
        return all(named) and len(set(cells)) == len(cells)
    return all(named) and usual


def _is_name(cell: str) -> bool:
    return cell in _NAMES or _NUMBERED.sub("", cell) in _NAMES
