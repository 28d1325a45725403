"""Corpora of pairs of sentences: aligned files, tables, JSON Lines, and the generator that ships with Heedful."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from heedful.config.corpora.corpus import Column, Corpus, GeneratedCorpus, Separator
from heedful.config.section import as_tuple


class FiledPairs(Corpus):
    """Keys of every corpus of pairs in files."""

    later_keys: ClassVar[tuple[str, ...]] = ("variants",)

    variants: bool = False
    """Whether targets of one source are variants: each is an example in training, and a reference in evaluation."""


class TextCorpus(FiledPairs):
    """Two files aligned by line: plain, .gz, .xz, or a member of a .zip ("corpus.zip:train.en")."""

    frozen_kind = "TextCorpus"
    file_keys = ("source", "target", "references")

    source: str
    """File of source sentences."""
    target: str
    """File of target sentences."""
    references: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Further files of references, for evaluation: line n of each belongs to line n of the source."""


class TsvCorpus(FiledPairs):
    """Tab-separated columns of one file, by their numbers from 1 on, or by their names in the first line."""

    frozen_kind = "TsvCorpus"
    file_keys = ("tsv",)
    later_keys: ClassVar[tuple[str, ...]] = ("header", "variants")

    tsv: str
    """File of tab-separated columns."""
    source: Column = 1
    """Column of the source sentences, by number or name."""
    target: Column = 2
    """Column of the target sentences, by number or name."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""


class CsvCorpus(FiledPairs):
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


class JsonlCorpus(FiledPairs):
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

    # A name that is none of any generator's is refused here, in the words of the description.
    builtin: Annotated[
        Literal["english-spanish", "dates"],
        Field(description='"english-spanish" or "dates" for pairs, "reports" for questions, "scenes" for images'),
    ]


PAIRS = (TextCorpus, TsvCorpus, CsvCorpus, JsonlCorpus, BuiltinCorpus)
PairCorpus = TextCorpus | TsvCorpus | CsvCorpus | JsonlCorpus | BuiltinCorpus
