"""Corpora of texts: with labels, with a label for every word, or running text."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from heedful.config.corpora.corpus import Column, Corpus, Separator

Part = Annotated[str, Field(pattern=r"^(\d+(-\d+)?/\d+)?$", description='a part such as "0/10" or "1-9/10"')]


class TextsCorpus(Corpus):
    """Keys of every corpus of texts, with labels or without: for classifiers and language models, masked or not.

    Texts are chosen by the sha256 of their content, so that neither their order nor another corpus changes the choice.
    """

    part: Part = ""
    """Subset of the texts by hash: "0/10" is the first of ten parts, "1-9/10" the other nine."""
    sample: PositiveInt | None = None
    """Number of texts to keep, those with the smallest hashes; by default all."""

    @property
    def part_range(self) -> tuple[int, int, int]:
        """First part, last part and number of parts of `part`, which must be set."""
        members, count = self.part.split("/")
        first, _, last = members.partition("-")
        return int(first), int(last or first), int(count)

    @model_validator(mode="after")
    def _there_are_such_parts(self) -> Self:
        if self.part:
            first, last, count = self.part_range
            if not first <= last < count:
                raise ValueError(
                    f'`part` is "{self.part}", but must be one or more of the parts 0 to n-1 of n, such as "0/10" or '
                    '"1-9/10"'
                )
        return self

    @model_validator(mode="after")
    def _each_has_its_place(self) -> Self:
        said = [(key, value) for key in ("text", "second", "label") if (value := getattr(self, key, None)) is not None]
        for number, (key, value) in enumerate(said):
            for other, same in said[:number]:
                if value == same:
                    raise ValueError(f"`{other}` and `{key}` are both {value!r}, but must be different")
        return self


class TsvTexts(TextsCorpus):
    """Texts in a column of a tab-separated file, optionally with a second text and labels.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "TsvTexts"
    file_keys = ("tsv",)
    later_keys: ClassVar[tuple[str, ...]] = ("header",)

    tsv: str
    """File of tab-separated columns."""
    text: Column
    """Column of the texts, by number or name."""
    second: Column | None = None
    """Column of the second texts, for models that read pairs of texts."""
    label: Column | None = None
    """Column of the labels; several labels are separated by commas."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""


class CsvTexts(TextsCorpus):
    """Texts in a column of a CSV file, optionally with a second text and labels.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "CsvTexts"
    file_keys = ("csv",)

    csv: str
    """File of columns separated by commas; texts with commas, quotes or line breaks are in quotes."""
    text: Column
    """Column of the texts, by number or name."""
    second: Column | None = None
    """Column of the second texts, for models that read pairs of texts."""
    label: Column | None = None
    """Column of the labels; several labels are separated by commas."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""
    separator: Separator = ","
    """Character between columns."""


class JsonlTexts(TextsCorpus):
    """Texts in a field of one JSON object per line, optionally with a second text, and a label or a list of labels."""

    frozen_kind = "JsonlTexts"
    file_keys = ("jsonl",)

    jsonl: str
    """File with one JSON object per line."""
    text: str
    """Field of the texts."""
    second: str | None = None
    """Field of the second texts, for models that read pairs of texts."""
    label: str | None = None
    """Field of the label, or of a list of labels."""


class ConllTexts(TextsCorpus):
    """Words and their labels in columns: one word per line, and a blank line after each sentence.

    Columns are separated by tabs or spaces. Comments before a sentence (`# ...`) and `-DOCSTART-` are not words.
    """

    frozen_kind = "ConllTexts"
    file_keys = ("conll",)

    conll: str
    """File with one word per line."""
    word: PositiveInt = 1
    """Column of the words, by number."""
    label: PositiveInt = 2
    """Column of the labels, by number."""

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        if self.word == self.label:
            raise ValueError(f"`word` and `label` are both {self.word}, but must be different")
        return self


class PlainTexts(TextsCorpus):
    """A file of running text, split into documents and sentences."""

    frozen_kind = "PlainTexts"
    file_keys = ("text",)

    text: str
    """File of running text."""
    documents: Literal["blank_line", "line", "heading", "file"] = "blank_line"
    """Separator of documents: a blank line, the end of a line, a heading such as " = Title = " (WikiText), or none."""
    sentences: Literal["split", "line"] = "split"
    """How sentences are found: split at punctuation, or one per line."""


TEXTS = (TsvTexts, CsvTexts, JsonlTexts, PlainTexts)
RowTexts = TsvTexts | CsvTexts | JsonlTexts
TaggedTexts = RowTexts | ConllTexts
AnyTexts = RowTexts | PlainTexts
