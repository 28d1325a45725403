"""Answers next to the rows that they belong to: as columns of a table, fields of JSON lines, or a column of CoNLL."""

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli.answering.given_rows import Format, GivenRow, GivenRows
from heedful.tasks.shared.answering.answers import Answers, Given, Outcome, cell


class RowWriter(ABC):
    """Lays out the rows of a file with their answers."""

    def __init__(self, rows: GivenRows, answers: Answers[Any]) -> None:
        self._rows, self._answers = rows, answers
        self._taken = set(rows.columns) if rows.header or rows.format == "jsonl" else set()

    @abstractmethod
    def header(self) -> str | None:
        """Return what comes before the rows; None where there is nothing."""

    @abstractmethod
    def row(self, outcome: Outcome[Any]) -> str | None:
        """Return a row with its answer, empty for a blank one and for one that has an error.

        None where there is nothing to write: lines between the sentences of CoNLL, in another format.
        """

    def _called(self, name: str) -> str:
        """Return the name of an answer's column or field, which no column of the file has."""
        found = f"predicted_{name}" if name in self._taken else name
        while found in self._taken:
            found = f"{found}_"
        return found

    def _fields(self, outcome: Outcome[Any]) -> Mapping[str, Any]:
        """Return the fields of an answer, or what takes their place."""
        if outcome.answered:
            return self._answers.fields(outcome.found)
        return {} if outcome.error is None else {"error": str(outcome.error)}


class TableWriter(RowWriter):
    """Columns, of which the last ones are the answer; cells with separators or line breaks are in quotes in CSV."""

    def __init__(self, rows: GivenRows, answers: Answers[Any], separator: str, quoted: bool) -> None:
        super().__init__(rows, answers)
        self._separator, self._quoted = separator, quoted
        self._named = rows.header or rows.format == "jsonl"

    def header(self) -> str | None:
        """Return the names of columns, unless the table that was given has none."""
        if not self._named:
            return None
        mark = "\ufeff" if self._rows.mark and self._quoted else ""
        return mark + self._line([*self._rows.columns, *map(self._called, self._answers.columns)])

    def row(self, outcome: Outcome[Any]) -> str | None:
        """Return a row with its answer in the last columns; a line without anything stays so."""
        row: GivenRow = outcome.given.row
        if row.between:
            return None
        cells = list(row.cells)
        if row.fields is not None:
            cells = [_json_cell(row.fields.get(name)) for name in self._rows.columns]
        if not cells or (cells == [""] and len(self._rows.columns) > 1):
            return ""
        padding = [""] * (len(self._rows.columns) - len(cells))
        return self._line([*cells, *padding, *self._answers.cells(outcome)])

    def _line(self, cells: Sequence[str]) -> str:
        if not self._quoted:
            return self._separator.join(map(one_column, cells))
        written = io.StringIO()
        csv.writer(written, delimiter=self._separator, lineterminator="\r\n").writerow(cells)  # which are quoted then
        return written.getvalue().removesuffix("\r\n")


def _json_cell(value: object) -> str:
    return cell(value) if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class JsonWriter(RowWriter):
    """One JSON object per row, whose last fields are the answer."""

    def header(self) -> str | None:
        """Return nothing."""
        return None

    def row(self, outcome: Outcome[Any]) -> str | None:
        """Return the object of a row with its answer; a blank line stays blank."""
        row: GivenRow = outcome.given.row
        if row.between:
            return None
        fields = dict(zip(self._rows.columns, row.cells, strict=False)) if row.fields is None else row.fields
        if not fields and outcome.given.skip:
            return ""
        empty = {} if outcome.answered else dict.fromkeys(self._answers.columns)
        answer = {self._called(name): value for name, value in {**empty, **self._fields(outcome)}.items()}
        return json.dumps({**fields, **answer}, ensure_ascii=False)


class ConllWriter(RowWriter):
    """One word per line with its label in the last column; lines without a word, such as comments, stay as they are."""

    def header(self) -> str | None:
        """Return nothing."""
        return None

    def row(self, outcome: Outcome[Any]) -> str | None:
        """Return the lines of a sentence."""
        row: GivenRow = outcome.given.row
        labels = iter(self._fields(outcome).get("labels", ()))
        if row.lines:
            return "\n".join(_with_label(line, next(labels, "")) if has_word else line for line, has_word in row.lines)
        return "".join(f"{word}\t{one_column(next(labels, ''))}\n" for word in _words(outcome.given))


def _with_label(line: str, label: str) -> str:
    return f"{line}{'	' if '	' in line else ' '}{label}"


def _words(given: Given) -> Sequence[str]:
    text = given.values.get("text", ())
    return text.split() if isinstance(text, str) else text


def row_writer(rows: GivenRows, answers: Answers[Any], asked: Format | None) -> RowWriter:
    """Return what writes rows with their answers: as they are in the file, or in the format that is asked for."""
    form = asked or rows.format
    if form == "conll" and "labels" not in answers.columns:
        if asked:
            raise UserError("--format conll is for labels of words, which this model does not write: choose another.")
        form = "tsv"
    match form:
        case "csv":
            return TableWriter(rows, answers, rows.separator if rows.format == "csv" else ",", quoted=True)
        case "tsv":
            return TableWriter(rows, answers, "\t", quoted=False)
        case "jsonl":
            return JsonWriter(rows, answers)
        case "conll":
            return ConllWriter(rows, answers)
        case _:
            assert_never(form)
