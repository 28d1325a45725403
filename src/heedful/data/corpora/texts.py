"""Texts with their labels, single or in pairs, from tables and JSON lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from heedful.base.errors import UserError, counted, suggestion
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.texts import CsvTexts, JsonlTexts, PlainTexts, RowTexts, TsvTexts
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.json_rows import checked_text, field_of, json_kind, json_object, text_field
from heedful.data.corpora.formats.lines import TextFile, read_lines
from heedful.data.corpora.formats.tables import read_columns
from heedful.data.corpora.pairs import AS_IT_STANDS
from heedful.data.corpora.subsets import choose
from heedful.data.text_form import TOO_LONG, TextForm


@dataclass(frozen=True)
class Text:
    """One text, or two that are read together, and the names of its classes where the corpus has labels."""

    text: str
    second: str | None = None
    labels: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)  # its line in the file; 0 where there is no file

    @property
    def blank(self) -> bool:
        """Whether there is nothing to read."""
        return not self.text.strip() or (self.second is not None and not self.second.strip())

    def formed(self, form: TextForm) -> "Text":
        """Return the text in the form that a model reads."""
        second = None if self.second is None else form.of_line(self.second)
        return replace(self, text=form.of_line(self.text), second=second)

    @property
    def too_long(self) -> bool:
        """Whether a text was longer than a line may be, and is blank for that reason."""
        return self.text is TOO_LONG or self.second is TOO_LONG


def read_texts(
    corpus: AnyCorpus, folder: str = "", form: TextForm = AS_IT_STANDS, several: bool = False
) -> Iterator[Text]:
    """Yield the texts of a corpus in order, blank ones included; with `several`, commas separate a text's labels."""
    rows = _in_rows(corpus)
    texts = select_lines(_all_texts(rows, folder, several), rows)
    if rows.sample is not None:
        texts = (text for text in texts if not text.blank)  # blank texts do not count towards the sample
    texts = choose(texts, rows, _content)
    if form == AS_IT_STANDS:
        return texts
    return (text.formed(form) for text in texts)


def classes_of(
    texts: Sequence[Text], labels: Sequence[str], name: str, unknown_is: str = "is not a class of the model"
) -> list[list[int]]:
    """Return the true classes of texts by number; `name` is that of their corpus.

    `unknown_is` completes the refusal of a label that is not one of `labels`: "has the label `x`, which ...".
    """
    known = {label: number for number, label in enumerate(labels)}
    for text in texts:
        unknown = next((label for label in text.labels if label not in known), None)
        if unknown is not None:
            where = f"{name}, line {text.line:,}" if text.line else name
            raise UserError(f"{where} has the label `{unknown}`, which {unknown_is}.{suggestion(unknown, labels)}")
    return [[known[label] for label in text.labels] for text in texts]


def _content(text: Text) -> str:
    return text.text if text.second is None else f"{text.text}\t{text.second}"


def _in_rows(corpus: AnyCorpus) -> RowTexts:
    """Return the corpus as one that has texts in rows; recipes were checked before."""
    match corpus:
        case TsvTexts() | CsvTexts() | JsonlTexts():
            return corpus
        case PlainTexts():
            raise TypeError(f"{corpus.title} is running text: see `data.corpora.documents`")
        case _:
            raise TypeError(f"{corpus.title} has pairs, not texts")


def _all_texts(corpus: RowTexts, folder: str, several: bool) -> Iterator[Text]:
    match corpus:
        case TsvTexts() | CsvTexts():
            return _table_texts(corpus, files_of(corpus, folder)[0], several)
        case JsonlTexts():
            return _jsonl_texts(corpus, files_of(corpus, folder)[0], several)
        case _:
            assert_never(corpus)


# --- tables -----------------------------------------------------------------------------------------------------------


def _table_texts(corpus: TsvTexts | CsvTexts, file: TextFile, several: bool) -> Iterator[Text]:
    keys = [key for key in ("text", "second", "label") if getattr(corpus, key) is not None]
    for number, values in read_columns(corpus, file, keys):
        if not values:
            yield Text("")
            continue
        of = dict(zip(keys, values, strict=True))
        labels = labels_of(of["label"], several, f"{file.name}, line {number:,}") if "label" in of else ()
        yield Text(of["text"], of.get("second"), labels, number)


def labels_of(column: str, several: bool, where: str, noun: str = "text") -> tuple[str, ...]:
    """Return the labels in a column: one, or with `several` any number, separated by commas; `noun` has them."""
    names = [name.strip() for name in column.split(",")] if several else [column.strip()]
    if several:
        return tuple(dict.fromkeys(name for name in names if name))
    if not names[0]:
        raise UserError(f"{where} has no label: every {noun} needs one.")
    return (names[0],)


# --- JSON lines -------------------------------------------------------------------------------------------------------


def _jsonl_texts(corpus: JsonlTexts, file: TextFile, several: bool) -> Iterator[Text]:
    for number, line in enumerate(read_lines(file), start=1):
        where = f"{file.name}, line {number:,}"
        if not line.strip():
            yield Text("")
            continue
        row = json_object(line, where)
        second = None if corpus.second is None else text_field(row, corpus.second, where)
        labels = () if corpus.label is None else labels_field(row, corpus.label, several, where)
        yield Text(text_field(row, corpus.text, where), second, labels, number)


def labels_field(row: dict[str, object], field: str, several: bool, where: str, noun: str = "text") -> tuple[str, ...]:
    """Return the labels in a field: text, a whole number, true or false; with `several`, one of these or a list."""
    value = field_of(row, field, where)
    if not isinstance(value, list):
        name = label_name(value, field, where)
        return () if several and not name.strip() else labels_of(name, False, where, noun)
    if not several:
        raise UserError(
            f"{where}: field `{field}` is a list, but a label is text or a whole number: for lists set "
            '`model.labels = "several"`.'
        )
    names = (label_name(each, f"{field}[{number}]", where).strip() for number, each in enumerate(value))
    return tuple(dict.fromkeys(name for name in names if name))


def label_name(value: object, field: str, where: str) -> str:
    """Return a label in a field of a JSON object: text, a whole number, true or false."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return checked_text(value, field, where)
        case _:
            raise UserError(f"{where}: field `{field}` is {json_kind(value)}, but a label is text or a whole number.")


def text_of_line(line: str, paired: bool, where: str) -> Text:
    """Read one text, or two separated by a tab; a blank line is a blank text. `where` names the line in messages."""
    if not (paired and line.strip()):
        return Text(line)
    columns = line.split("\t")
    if len(columns) != 2:
        raise UserError(
            f"{where} has {counted(len(columns), 'column')}, but this model reads pairs: two texts separated by a tab."
        )
    return Text(columns[0], columns[1])
