"""Rows of files with one example each, by their roles: columns of a table, or fields of JSON objects."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from heedful.base.errors import UserError, suggestion
from heedful.config.corpora.containers import Csv, Jsonl, Tsv
from heedful.data.corpora.formats.json_objects import at_path, flatten, objects_of_array, place_words
from heedful.data.corpora.formats.lines import TextFile, locate, read_lines, read_whole
from heedful.data.corpora.formats.tables import open_table

_DECIMAL_COMMA: Final = re.compile(r"\s*[-+]?\d+,(\d{1,2}|\d{4,})\s*")


class Row(NamedTuple):
    """One row: what it has for each role. Values of a table are texts; those of JSON are of any kind, and checked."""

    file: TextFile
    line: int
    values: Mapping[Any, object]  # by column or field
    places: Mapping[str, int | str]  # column or field of each role
    json: bool = False

    @property
    def where(self) -> str:
        """Place of the row, for messages."""
        return f"{self.file.name}, {place_words(self.line)}"

    def value(self, role: str) -> Any:
        """Return the value of a role."""
        place = self.places[role]
        try:
            return self.values[place]
        except KeyError:
            return field_of(self.values, str(place), self.where)  # says that it is missing

    def get(self, role: str) -> Any:
        """Return the value of a role; None where the row does not have it."""
        place = self.places[role]
        found = at_path(self.values, str(place)) if self.json else (self.values.get(place),)
        return found[0] if found else None

    def text(self, role: str) -> str:
        """Return the text of a role."""
        if not self.json:
            return self.values[self.places[role]]  # type: ignore[return-value] # what a table holds is text
        return self._as_text(role, self.value(role))

    def optional_text(self, role: str) -> str | None:
        """Return the text of a role that the corpus need not have."""
        return self.text(role) if role in self.places else None

    def texts(self, role: str) -> list[str]:
        """Return the text of a role, or those of a list, which is not empty."""
        value = self.value(role)
        if isinstance(value, list) and not value:
            raise UserError(
                f"{self.where}: field `{self.places[role]}` is an empty list, but must have at least one text."
            )
        return [self._as_text(role, each) for each in value] if isinstance(value, list) else [self.text(role)]

    def words(self, role: str) -> list[str]:
        """Return the words or labels of a role: a list of texts, or a text in which spaces separate them."""
        value, field = self.value(role), self.places[role]
        if isinstance(value, str):
            return self.text(role).split()
        if not isinstance(value, list):
            raise self._refusal(role, value, "must be a list of texts, or a text")
        for number, each in enumerate(value):
            if not isinstance(each, str):
                raise UserError(f"{self.where}: field `{field}[{number}]` is {json_kind(each)}, but must be text.")
            if not each.strip():
                raise UserError(f"{self.where}: field `{field}[{number}]` is blank, but must be a word or its label.")
        return [checked_text(each, str(field), self.where).strip() for each in value]

    def labels(self, several: bool, noun: str = "text") -> tuple[str, ...]:
        """Return the labels of a row, a `noun`: one; with `several` any number, separated by commas, or a JSON list."""
        value, field = self.value("label"), str(self.places["label"])
        if not self.json:
            return labels_of(value, several, self.where, noun)
        if not isinstance(value, list):
            name = self._name(value, field)
            return () if several and not name.strip() else labels_of(name, False, self.where, noun)
        if not several:
            raise UserError(
                f"{self.where}: field `{field}` is a list, but a label is text or a whole number: for lists set "
                '`model.labels = "several"`.'
            )
        names = (self._name(each, f"{field}[{number}]").strip() for number, each in enumerate(value))
        return tuple(dict.fromkeys(name for name in names if name))

    def name(self, role: str) -> str:
        """Return the name of a class: text, or in JSON also a whole number, true or false."""
        return self._name(self.value(role), str(self.places[role])) if self.json else self.value(role)

    def answers(self) -> tuple[str, ...]:
        """Return the acceptable answers to a question: text, a list of texts, null, or as SQuAD has them."""
        value = self.value("answer")
        texts, _ = squad_answers(value, self.where, str(self.places["answer"]))
        values = texts if isinstance(texts, list) else [] if texts is None else [texts]
        if not all(isinstance(each, str) for each in values):
            raise UserError(
                f"{self.where}: field `{self.places['answer']}` is {json_kind(value)}"
                f"{' of other values' if value is values else ''}, "
                "but an answer is text, or a list of acceptable texts."
            )
        return tuple(self._as_text("answer", each) for each in values)

    def start(self) -> int | None:
        """Return the position of the first answer in its text; None where the row does not tell it."""
        value = self.get("start") if "start" in self.places else None
        if value is None and self.json:
            value = squad_answers(self.value("answer"), self.where, str(self.places["answer"]))[1]
        if not self.json and isinstance(value, str):
            text = value.strip()
            value = int(text) if text.removeprefix("-").isdecimal() else text or None
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self._refusal("start", value, "must be a whole number of characters")

    def number(self) -> float | None:
        """Return the number of a row; None where the corpus has no numbers."""
        if "number" not in self.places:
            return None
        value = self.value("number")
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if numeric or not self.json:
            with suppress(ValueError, OverflowError):
                written = _with_point(value) if isinstance(value, str) else value
                if math.isfinite(number := float(written)):
                    return number
        raise self._refusal("number", value, "must be a finite number" if numeric else "must be a number, such as 12.5")

    def _name(self, value: object, field: str) -> str:
        match value:
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case str():
                return checked_text(value, field, self.where)
            case _:
                raise UserError(
                    f"{self.where}: field `{field}` is {json_kind(value)}, but a label is text or a whole number."
                )

    def _as_text(self, role: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._refusal(role, value, "must be text")
        return checked_text(value, str(self.places[role]), self.where)

    def _refusal(self, role: str, value: object, wanted: str) -> UserError:
        shown = json_kind(value) if self.json else f'"{value}"'
        return UserError(
            f"{self.where}: {'field' if self.json else 'column'} `{self.places[role]}` is {shown}, but {wanted}."
        )


class Record(NamedTuple):
    """One row of a file with everything that the file has for it, to be written again next to an answer."""

    line: int
    cells: tuple[str, ...]  # all columns of a table; nothing of JSON
    fields: Mapping[str, object]  # all fields of a JSON object; nothing of a table
    row: Row | None  # what it has for the roles of the corpus; None for a blank row


def _with_point(number: str) -> str:
    """Return a number with a point before its decimals; 1,500 stays as it is, as it may be 1500."""
    return number.replace(",", ".") if _DECIMAL_COMMA.fullmatch(number) else number


def read_rows(corpus: Tsv | Csv | Jsonl, folder: str) -> Iterator[Row | None]:
    """Yield the rows of a corpus in order; None for a blank one."""
    return (record.row for record in read_records(corpus, folder))


def read_records(corpus: Tsv | Csv | Jsonl, folder: str) -> Iterator[Record]:
    """Yield the rows of a corpus in order, with all columns or fields; `open_table` knows the names of columns."""
    file, places = locate(corpus.files()[0], folder), corpus.places
    if isinstance(corpus, Jsonl):
        for number, fields in json_rows(file):
            row = None if fields is None else Row(file, number, fields, places, json=True)
            yield Record(number, (), fields or {}, row)
        return
    table = open_table(corpus, folder)
    columns = table.indices(tuple(places))
    for number, cells in table.rows(columns, tuple(places)):
        values = {place: cells[index] for place, index in zip(places.values(), columns, strict=True)} if cells else {}
        yield Record(number, tuple(cells), {}, Row(file, number, values, places) if cells else None)


def json_rows(file: TextFile) -> Iterator[tuple[int, dict[str, object] | None]]:
    """Yield the objects of a file with one per line, or of an array, each with its line; None for a blank line."""
    lines = read_lines(file)
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.lstrip().startswith("["):
            whole = "\n".join((line, *lines)) if file.stream else read_whole(file)
            yield from _objects_of_array(whole, file)
            return
        yield number, json_object(line, f"{file.name}, line {number:,}") if line.strip() else None


def _objects_of_array(text: str, file: TextFile) -> Iterator[tuple[int, dict[str, object]]]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file.name} is not JSON: {error}.") from error
    for number, row in enumerate(whole, start=1):
        if not isinstance(row, dict):
            raise UserError(f"{file.name}: item {number:,} of the array is {json_kind(row)}, but must be an object.")
    yield from objects_of_array(text)


def labels_of(column: str, several: bool, where: str, noun: str = "text") -> tuple[str, ...]:
    """Return the labels in a column: one, or with `several` any number, separated by commas; `noun` has them."""
    names = [name.strip() for name in column.split(",")] if several else [column.strip()]
    if several:
        return tuple(dict.fromkeys(name for name in names if name))
    if not names[0]:
        raise UserError(f"{where} has no label: every {noun} needs one.")
    return (names[0],)


class Labelled(Protocol):
    """A row with labels."""

    @property
    def labels(self) -> Sequence[str]:
        """Their names."""
        ...


LabelledRow = TypeVar("LabelledRow", bound=Labelled)


def label_numbers(
    rows: Sequence[LabelledRow],
    labels: Sequence[str],
    where: Callable[[LabelledRow, int], str],
    unknown_is: str = "is not a class of the model",
) -> list[list[int]]:
    """Return the labels of rows by number; `where` says where a row has its label number n.

    `unknown_is` completes the refusal of a label that is not one of `labels`: "has the label `x`, which ...".
    """
    known = {label: number for number, label in enumerate(labels)}
    for row in rows:
        for place, label in enumerate(row.labels):
            if label not in known:
                raise UserError(
                    f"{where(row, place)} has the label `{label}`, which {unknown_is}.{suggestion(label, labels)}"
                )
    return [[known[label] for label in row.labels] for row in rows]


# --- JSON objects -----------------------------------------------------------------------------------------------------


def json_object(line: str, where: str) -> dict[str, object]:
    """Return the JSON object of a line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not JSON: {error}.") from error
    if not isinstance(row, dict):
        raise UserError(f"{where} is {json_kind(row)}, but must be an object with fields.")
    return row


def squad_answers(value: object, where: str, field: str) -> tuple[object, object]:
    """Return the texts of answers, and where the first begins, of a field as SQuAD has it; others are left as they are.

    {"text": ["...", ...], "answer_start": [17, ...]} in rows of Hugging Face, and [{"text": "...", "answer_start": 17},
    ...] in the original.
    """
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        texts: object = [field_of(each, "text", f"{where}: {field}[{number}]") for number, each in enumerate(value)]
        starts: object = [each.get("answer_start") for each in value]
    elif isinstance(value, dict):
        texts, starts = field_of(value, "text", f"{where}: field `{field}`"), value.get("answer_start")
    else:
        return value, None
    return texts, (starts[0] if starts else None) if isinstance(starts, list) else starts


def text_field(row: Mapping[str, object], field: str, where: str) -> str:
    """Return a text field of a row."""
    text = field_of(row, field, where)
    if not isinstance(text, str):
        raise UserError(f"{where}: field `{field}` is {json_kind(text)}, but must be text.")
    return checked_text(text, field, where)


def field_of(row: Mapping[str, object], field: str, where: str) -> object:
    """Return the value of a row's field, or of a field in a field by its path: `review.text`."""
    found = at_path(row, field)
    if found is None:
        names = dict.fromkeys((*row, *(path for path, _ in flatten(row))))
        raise UserError(f"{where} has no field `{field}`.{suggestion(field, list(names))}")
    return found[0]


def checked_text(text: str, field: str, where: str) -> str:
    """Return a text that UTF-8 can hold, or refuse it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where}: field `{field}` holds half of a surrogate pair, which is not a character."
        ) from error
    return text


def json_kind(value: object) -> str:
    """Return the JSON type of a value, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
