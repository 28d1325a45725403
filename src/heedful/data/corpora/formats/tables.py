"""Columns of tables: files with tab-separated columns, and CSV with quotes; columns by number or by name."""

import csv
from collections.abc import Iterator, Sequence
from typing import Final

from heedful.base.errors import UserError, counted, suggestion
from heedful.config.corpora.containers import Csv, Tsv
from heedful.data.corpora.formats.lines import TextFile, read_lines

_LONGEST_FIELD: Final = 1 << 27  # characters: more than a line of a file can have
_NAMES_SHOWN: Final = 10
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "|": "bars", "\t": "tabs"}


def read_columns(corpus: Tsv | Csv, file: TextFile, keys: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number of each row and its values for these keys of the corpus; no values for a blank row.

    The line with the names of columns is not a row.
    """
    chosen: list[int | str] = [getattr(corpus, key) for key in keys]
    separator = "\t" if isinstance(corpus, Tsv) else corpus.separator
    rows = _tsv_rows(file) if isinstance(corpus, Tsv) else _csv_rows(file, separator)
    if corpus.has_header:
        _, names = next(rows, (1, []))
        columns = [_place(column, names, file) if isinstance(column, str) else column - 1 for column in chosen]
    else:
        columns = [column - 1 for column in chosen if isinstance(column, int)]
    last, asked = max(zip(columns, keys, strict=True))
    for number, row in rows:
        if not row:
            yield number, row
            continue
        if len(row) <= last:
            raise UserError(
                f"{file.name}, line {number:,} has {counted(len(row), 'column')}, but `{asked}` is column {last + 1}: "
                f"columns are separated by {_SEPARATORS[separator]}."
            )
        yield number, [row[column] for column in columns]


def _tsv_rows(file: TextFile) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_lines(file), start=1):
        yield number, line.split("\t") if line.strip() else []


def _csv_rows(file: TextFile, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file, each with the number of its first line: a quoted text may have several."""
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader((f"{line}\n" for line in read_lines(file)), delimiter=separator, strict=True)
    number = 1
    try:
        for row in reader:
            yield number, row if any(map(str.strip, row)) else []
            number = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{file.name}, line {number:,} is not CSV ({error}): a text with quotes in it is put into quotes, and each "
            'quote in it is written twice: "".'
        ) from error


def _place(name: str, names: Sequence[str], file: TextFile) -> int:
    """Return the index of a column by its name in the first line."""
    stripped = [known.strip() for known in names]
    if name in stripped:
        return stripped.index(name)
    raise UserError(f"{file.name}, line 1 has no column `{name}`.{suggestion(name, stripped[:_NAMES_SHOWN])}")
