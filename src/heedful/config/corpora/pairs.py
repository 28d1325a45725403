"""Corpora of pairs of sentences: aligned files, tables, JSON Lines, and the generator that ships with Heedful."""

from typing import ClassVar, Literal

from heedful.config.corpora.corpus import Column, Corpus, GeneratedCorpus, Separator


class TextCorpus(Corpus):
    """Two files aligned by line: plain, .gz, .xz, or a member of a .zip ("corpus.zip:train.en")."""

    frozen_kind = "TextCorpus"
    file_keys = ("source", "target")

    source: str
    """File of source sentences."""
    target: str
    """File of target sentences."""


class TsvCorpus(Corpus):
    """Tab-separated columns of one file, by their numbers from 1 on, or by their names in the first line."""

    frozen_kind = "TsvCorpus"
    file_keys = ("tsv",)
    later_keys: ClassVar[tuple[str, ...]] = ("header",)

    tsv: str
    """File of tab-separated columns."""
    source: Column = 1
    """Column of the source sentences, by number or name."""
    target: Column = 2
    """Column of the target sentences, by number or name."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""


class CsvCorpus(Corpus):
    """Columns of one CSV file, by their numbers from 1 on, or by their names in the first line."""

    frozen_kind = "CsvCorpus"
    file_keys = ("csv",)

    csv: str
    """File of columns separated by commas; texts with commas, quotes or line breaks are in quotes."""
    source: Column = 1
    """Column of the source sentences, by number or name."""
    target: Column = 2
    """Column of the target sentences, by number or name."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""
    separator: Separator = ","
    """Character between columns."""


class JsonlCorpus(Corpus):
    """Fields of one JSON object per line."""

    frozen_kind = "JsonlCorpus"
    file_keys = ("jsonl",)

    jsonl: str
    """File with one JSON object per line."""
    source: str = "source"
    """Field of the source sentences."""
    target: str = "target"
    """Field of the target sentences."""


class BuiltinCorpus(GeneratedCorpus):
    """Sentences from a generator that ships with Heedful."""

    frozen_kind = "BuiltinCorpus"

    builtin: Literal["english-spanish"]


PAIRS = (TextCorpus, TsvCorpus, CsvCorpus, JsonlCorpus, BuiltinCorpus)
PairCorpus = TextCorpus | TsvCorpus | CsvCorpus | JsonlCorpus | BuiltinCorpus
