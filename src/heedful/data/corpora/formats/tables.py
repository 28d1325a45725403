"""Tables: columns of CSV and TSV files, by number or by name."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from heedful.base.errors import UserError, counted, suggestion
from heedful.config.corpora.containers import Csv, Tsv
from heedful.data.corpora.formats.lines import TextFile, locate, read_lines
from heedful.data.corpora.formats.settling import SEPARATOR_WORDS, separator_advice, settle_table

_LONGEST_FIELD: Final = 1 << 27  # characters: more than a line of a file can have
_NAMES_SHOWN: Final = 10

NumberedCells = tuple[int, list[str]]  # the first line of a row, and its cells


@dataclass(frozen=True)
class Table:
    """A table in a file, and how it is read: by the recipe, or as its first lines show."""

    corpus: Tsv | Csv
    file: TextFile
    names: tuple[str, ...]  # of all columns, in the first line; none without a header

    @property
    def separator(self) -> str:
        """The character between columns."""
        return "\t" if isinstance(self.corpus, Tsv) else self.corpus.separator

    def indices(self, keys: Sequence[str]) -> list[int]:
        """Return the indices of the columns of these keys of the corpus."""
        chosen: list[int | str] = [getattr(self.corpus, key) for key in keys]
        return [self._place(column) if isinstance(column, str) else column - 1 for column in chosen]

    def rows(self, columns: Sequence[int], keys: Sequence[str]) -> Iterator[NumberedCells]:
        """Yield the rows with all their cells, which must reach to these columns of these keys; none of a blank row."""
        last, asked = max(zip(columns, keys, strict=True))
        for number, cells in self.all_rows():
            row = cells if any(map(str.strip, cells)) else []
            if row and len(row) <= last:
                raise UserError(
                    f"{self.file.name}, line {number:,} has {counted(len(row), 'column')}, but `{asked}` is column "
                    f"{last + 1}: columns are separated by {SEPARATOR_WORDS[self.separator]}."
                    f"{separator_advice(self.file, self.separator, self.corpus)}"
                )
            yield number, row

    def all_rows(self) -> Iterator[NumberedCells]:
        """Yield the rows with all their cells, whatever they are; the line with the names of columns is not a row."""
        rows = raw_rows(self.file, self.separator, isinstance(self.corpus, Csv))
        if self.corpus.has_header:
            next(rows, None)
        return rows

    def _place(self, name: str) -> int:
        """Return the index of a column by its name in the first line."""
        if name in self.names:
            return self.names.index(name)
        shown = separator_advice(self.file, self.separator, self.corpus) or suggestion(name, self.names[:_NAMES_SHOWN])
        raise UserError(f"{self.file.name}, line 1 has no column `{name}`.{shown}")


def open_table(corpus: Tsv | Csv, folder: str = "") -> Table:
    """Return the table of a corpus, with the names of its columns, its separator and whether it has a header."""
    corpus = settle_table(corpus, folder)
    file = locate(corpus.files()[0], folder)
    table = Table(corpus, file, ())
    if not corpus.has_header:
        return table
    _, names = next(raw_rows(file, table.separator, isinstance(corpus, Csv)), (1, []))
    return Table(corpus, file, tuple(name.strip() for name in names))


def read_columns(corpus: Tsv | Csv, folder: str, keys: Sequence[str]) -> Iterator[NumberedCells]:
    """Yield the line number of each row and its values for these keys of the corpus; no values for a blank row."""
    table = open_table(corpus, folder)
    columns = table.indices(keys)
    for number, row in table.rows(columns, keys):
        yield number, [row[column] for column in columns] if row else row


def raw_rows(file: TextFile, separator: str, quoted: bool) -> Iterator[NumberedCells]:
    """Yield all rows of a table, its header included; with `quoted`, cells may be in quotes, as CSV has them."""
    return _csv_rows(file, separator) if quoted else _tsv_rows(file)


def _tsv_rows(file: TextFile) -> Iterator[NumberedCells]:
    for number, line in enumerate(read_lines(file), start=1):
        yield number, line.split("\t")


def _csv_rows(file: TextFile, separator: str) -> Iterator[NumberedCells]:
    """Yield the rows of a CSV file, each with the number of its first line: a quoted text may have several."""
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader((f"{line}\n" for line in read_lines(file)), delimiter=separator, strict=True)
    number = 1
    try:
        for row in reader:
            yield number, row
            number = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{file.name}, line {number:,} is not CSV ({error}): a text with quotes in it is put into quotes, and each "
            'quote in it is written twice: "".'
        ) from error
