"""What the columns of a table hold, told from its first rows: texts, labels, numbers, paths of images, ids, dates."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Final, Literal

from heedful.data.corpora.formats.column_names import meanings

# words: a list of texts; tags: one label for each word of another column; labels: any number of labels; other: the rest
Kind = Literal["text", "label", "number", "image", "words", "tags", "labels", "id", "date", "empty", "other"]

SEPARATORS: Final = ("\t", ";", "|", ",")
IMAGE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".webp")
_CONSISTENT: Final = 0.9  # least share of rows with the same number of columns
_PATHS_CHECKED: Final = 20  # images that are looked for
_SHOWN: Final = 4  # values in evidence
_LONGEST_LABEL: Final = 50  # characters, on average
_MOST_LABELS: Final = 1000
_SHORT_NAME: Final = 40  # characters: a longer cell is not the name of a column
_DATE: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( \d{1,2}:\d{2}.*)?"
    r"|\d{4}年\d{1,2}月\d{1,2}日"
)
_DECIMAL_COMMA: Final = re.compile(r"[-+]?\d{1,3}(\.?\d{3})*,\d+")
_ID: Final = re.compile(r"(?=.*\d)[!-~]+")
_SENTENCE: Final = re.compile(r"[.!?。！？…]['\"»”’)]*\Z")


@dataclass(frozen=True)
class Column:
    """A column of a table, or a field of JSON objects: what it holds, and why that is so."""

    place: int | str  # as recipes name it: its name, or its number from 1 where there are no names; `a.b` for nested
    kind: Kind
    evidence: str  # "2 values in 500 rows: pos, neg"
    distinct: int = 0  # different values in the rows that were read
    filled: int = 0  # rows that have a value
    letters: float = 0.0  # mean length of a value in characters
    numeric: bool = False  # whether all values are numbers, even if they are labels or ids
    missing: int = 0  # images that were looked for and are not there

    @property
    def name(self) -> str:
        """Name of the column in messages."""
        return self.place if isinstance(self.place, str) else f"column {self.place}"


# --- separators and headers -------------------------------------------------------------------------------------------


def detect_separator(lines: Iterable[str]) -> str | None:
    """Return the character between the columns of a table; None where there is none, or where it is in doubt."""
    ranked = separators(list(lines))
    if len(ranked) > 1 and ranked[0][1] - ranked[1][1] < 0.02:
        return None
    return ranked[0][0] if ranked else None


def separators(lines: Sequence[str]) -> list[tuple[str, float]]:
    """Return the characters that may separate columns, the most plausible first, each with its plausibility."""
    found: dict[str, tuple[float, list[list[str]]]] = {}
    for separator in SEPARATORS:
        rows = [row for row in split_rows(lines, separator) if any(map(str.strip, row))]
        share = _share_of_equal_rows(rows)
        if share >= _CONSISTENT:
            found[separator] = share, rows
    for separator in list(found):
        others = [rows for other, (_, rows) in found.items() if other != separator]
        if others and (
            spaced(found[separator][1]) > 0.5 or any(separator == "," and _has_decimal_commas(rows) for rows in others)
        ):
            del found[separator]  # commas of sentences, or of numbers, in columns that something else separates
    return sorted(((separator, share) for separator, (share, _) in found.items()), key=lambda pair: -pair[1])


def split_rows(lines: Iterable[str], separator: str) -> list[list[str]]:
    """Return the rows of a table; quoted cells may have line breaks. What is not CSV gives the rows before it."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(csv.reader((f"{line}\n" for line in lines), delimiter=separator))
    return rows


def _share_of_equal_rows(rows: Sequence[Sequence[str]]) -> float:
    """Return the share of rows with the most frequent number of columns; 0 if that is 1, or not that of the first."""
    if not rows:
        return 0.0
    (width, count), *_ = Counter(map(len, rows)).most_common(1)
    return count / len(rows) if width > 1 and len(rows[0]) == width else 0.0


def spaced(rows: Sequence[Sequence[str]]) -> float:
    """Return the share of cells after the first one of a row that begin with a space, as words after a comma do."""
    cells = [cell for row in rows for cell in row[1:] if cell.strip()]
    return sum(cell.startswith(" ") for cell in cells) / max(1, len(cells))


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    return any(
        sum(_DECIMAL_COMMA.fullmatch(cell.strip()) is not None for cell in column) > len(column) / 2
        for column in _columns_of(rows[1:])
    )


def detect_header(rows: Sequence[Sequence[str]]) -> bool | None:
    """Return whether the first row of a table has the names of columns; None where it is in doubt."""
    if not rows:
        return None
    first, body = [cell.strip() for cell in rows[0]], [row for row in rows[1:] if any(map(str.strip, row))]
    names = [name for name in first if name]
    known = [bool(meanings(name)) and len(name.split()) <= 3 and not _SENTENCE.search(name) for name in names]
    if not names:
        return None
    if len(set(names)) < len(names) and not all(known):  # two columns may both be called `text`
        return False
    if not body:
        return True if len(known) > 1 and all(known) else None
    votes = list(_votes(first, body))
    strong = {vote for vote, weight in votes if weight == "strong"}
    if len(strong) == 1:
        return strong.pop()
    if not strong and sum(known) * 2 >= len(known):
        return True
    weak = {vote for vote, weight in votes}
    return weak.pop() if len(weak) == 1 and not strong else None


def _votes(first: Sequence[str], body: Sequence[Sequence[str]]) -> Iterator[tuple[bool, str]]:
    """Yield for each column whether its first cell differs from those below as a name does, and how much that says."""
    for name, cells in zip(first, _columns_of(body), strict=False):
        values = [cell.strip() for cell in cells if cell.strip()]
        if not values or not name:
            continue
        for holds in (is_number, is_date, is_image_path):
            if sum(map(holds, values)) >= 0.9 * len(values):
                yield not holds(name), "strong"
                break
        else:
            counts = Counter(values)
            mean = sum(map(len, values)) / len(values)
            if len(counts) <= max(2, len(values) / 4) and mean <= _LONGEST_LABEL:
                if name in counts:
                    yield False, "strong"
                elif len(values) >= 8 and min(counts.values()) > 1:
                    yield True, "weak"
            elif name in counts or len(name) > _SHORT_NAME or _SENTENCE.search(name) or _is_like(name, values):
                yield False, "weak"
            elif mean > 3 * len(name) and len(values) >= 4:
                yield True, "weak"


def _is_like(cell: str, values: Sequence[str]) -> bool:
    """Whether a cell is a sequence of what the others consist of, such as phonemes: more words than a name has."""
    words = cell.split()
    return len(words) >= 3 and set(words) <= {word for value in values for word in value.split()}


# --- kinds ------------------------------------------------------------------------------------------------------------


def is_number(value: str) -> bool:
    """Whether a cell is a finite number, with a point or a comma before its decimals."""
    if _DECIMAL_COMMA.fullmatch(value.strip()):
        return True
    try:
        return isfinite(float(value)) and "_" not in value
    except ValueError:
        return False


def is_image_path(value: str) -> bool:
    """Whether a cell ends like the name of an image."""
    return value.strip().lower().endswith(IMAGE_SUFFIXES)


def is_sentence(value: str) -> bool:
    """Whether a cell ends like a sentence."""
    return _SENTENCE.search(value) is not None


def is_date(value: str) -> bool:
    """Whether a cell is a date."""
    return _DATE.fullmatch(value.strip()) is not None


def describe_columns(places: Sequence[int | str], rows: Sequence[Sequence[object]], folder: Path) -> tuple[Column, ...]:
    """Return what the columns of a table hold; `folder` is the one that paths of images start from."""
    values = {place: [row[index] if index < len(row) else None for row in rows] for index, place in enumerate(places)}
    columns = [_column(place, cells, folder) for place, cells in values.items()]
    read = {
        column.place: [_words_of(cell) for cell in values[column.place]]
        for column in columns
        if column.kind in ("text", "words", "labels", "label")
    }
    largest = Counter[tuple[int, ...]]()  # most different words of a text, by the number of words in each row
    for column in columns:
        if column.kind in ("text", "words"):
            counts = tuple(map(len, read[column.place]))
            largest[counts] = max(largest[counts], len(set(chain(*read[column.place]))))
    for index, column in enumerate(columns):
        labels = set(chain(*read.get(column.place, ())))
        counts = tuple(map(len, read.get(column.place, ())))
        # One label for each word of a text: twice as many words as labels, so that no column labels itself.
        if labels and sum(counts) >= 2 * len(rows) and 2 * len(labels) <= min(largest[counts], 2 * _MOST_LABELS):
            evidence = f"one of {len(labels):,} labels for each word: {_some(sorted(labels))}"
            columns[index] = replace(column, kind="tags", evidence=evidence, distinct=len(labels))
    return tuple(columns)


def _column(place: int | str, cells: Sequence[object], folder: Path) -> Column:
    filled = [cell for cell in cells if cell is not None and (not isinstance(cell, str) or cell.strip())]
    if not filled:
        return Column(place, "empty", "no values")
    if any(isinstance(cell, list | dict) for cell in filled):
        return _column_of_lists(place, filled)
    texts = [_as_text(cell) for cell in filled]
    counts, letters = Counter(texts), sum(map(len, texts)) / len(texts)
    numeric = all(map(is_number, texts))
    missing = 0
    if sum(map(is_image_path, texts)) >= 0.9 * len(texts):
        looked = list(counts)[:_PATHS_CHECKED]
        missing = sum(not (folder / path).is_file() for path in looked)
        kind: Kind = "image"
        evidence = f"names of images, {len(looked) - missing} of the first {len(looked)} found"
    else:
        kind = _kind(texts, counts, letters, numeric, meanings(place))
        evidence = _evidence(kind, texts, counts, letters)
    return Column(place, kind, evidence, len(counts), len(texts), letters, numeric, missing)


def _kind(texts: list[str], counts: Counter[str], letters: float, numeric: bool, names: frozenset[str]) -> Kind:
    """Return what single values are; names of columns decide where values alone do not."""
    count, distinct = len(texts), len(counts)
    few = distinct <= max(2, min(_MOST_LABELS, count**0.75)) and distinct < max(2, count) and letters <= _LONGEST_LABEL
    if sum(map(is_date, texts)) >= 0.9 * count:
        return "date"
    if numeric:
        return _kind_of_numbers(texts, counts, few, names)
    if distinct == count >= 3 and all(map(_ID.fullmatch, texts)) and not names & {"text", "source", "target", "label"}:
        return "id"
    if "id" in names and not names - {"id"} and distinct == count:
        return "id"
    if _several_labels(texts, letters, distinct):
        return "labels"
    if sum(is_sentence(text) for text in counts) > distinct / 2 and "label" not in names:
        return "text"
    if few or (names == {"label"} and letters <= _LONGEST_LABEL):
        return "label"
    return "text"


def _kind_of_numbers(texts: list[str], counts: Counter[str], few: bool, names: frozenset[str]) -> Kind:
    """Return whether numbers are ids, the names of classes, or amounts."""
    count, distinct = len(texts), len(counts)
    whole = all(text.strip().lstrip("+-").isdecimal() for text in texts)
    if whole and distinct == count >= 3 and "number" not in names - {"id"}:
        numbers = sorted(map(int, texts))
        if "id" in names or numbers[-1] - numbers[0] == count - 1:
            return "id"
    if "label" in names and "number" not in names and (few or whole):
        return "label"
    if "number" in names:
        return "number"
    indexes = whole and {int(text) for text in counts} == set(range(distinct)) and distinct <= max(2, count**0.5)
    return "label" if few and (distinct <= 2 or indexes) else "number"


def _column_of_lists(place: int | str, cells: Sequence[object]) -> Column:
    """Return what a field of JSON holds whose values are lists or objects."""
    lists = [cell for cell in cells if isinstance(cell, list)]
    each = [value for cell in lists for value in cell]
    if len(lists) < len(cells) or not all(isinstance(value, str) for value in each):
        whole = "lists of other values than texts" if lists else "objects"
        return Column(place, "other", whole, filled=len(cells))
    counts = Counter(map(str, each))
    few = len(counts) <= max(2, min(_MOST_LABELS, len(each) ** 0.6))
    mean = len(each) / len(lists)
    kind: Kind = "labels" if few else "words" if sum(map(len, counts)) < 15 * len(counts) and mean > 3 else "text"
    evidence = f"lists of {mean:.1f} texts on average, {len(counts):,} different: {_some(counts)}"
    return Column(place, kind, evidence, len(counts), len(cells), mean)


def _several_labels(texts: Sequence[str], letters: float, distinct: int) -> bool:
    """Whether cells are labels separated by commas, such as "red, round": few of them, and each in many cells."""
    if letters > 2 * _LONGEST_LABEL or sum("," in text for text in texts) < 0.2 * len(texts):
        return False
    parts = Counter(part.strip() for text in texts for part in text.split(","))
    few = len(parts) < distinct and len(parts) <= len(texts) ** 0.6
    return len(texts) >= 8 and few and all(len(part) <= 30 for part in parts)


def _words_of(cell: object) -> list[str]:
    return [str(word) for word in cell] if isinstance(cell, list) else str(cell or "").split()


def _as_text(cell: object) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell).strip()


def _evidence(kind: Kind, texts: Sequence[str], counts: Mapping[str, int], letters: float) -> str:
    match kind:
        case "text":
            return f"{len(counts):,} different texts in {len(texts):,} rows, {letters:,.0f} characters on average"
        case "number":
            numbers = [float(text) for text in texts if "," not in text]
            bounds = f" from {min(numbers):g} to {max(numbers):g}" if numbers else ", with decimal commas"
            return f"{len(counts):,} different numbers{bounds}"
        case "id":
            return "a different value in each row"
        case "date":
            return f"dates such as {texts[0]}"
        case _:
            return (
                f"{len(counts):,} {'value' if len(counts) == 1 else 'values'} in {len(texts):,} rows: {_some(counts)}"
            )


def _some(values: Iterable[str]) -> str:
    first = list(values)
    return ", ".join(first[:_SHOWN]) + (", ..." if len(first) > _SHOWN else "")


def _columns_of(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the columns of rows, as many as the first row has."""
    return [[row[index] for row in rows if index < len(row)] for index in range(len(rows[0]) if rows else 0)]
