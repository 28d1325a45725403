"""The corpora that a recipe can name: pairs of sentences, texts with labels, words with labels, running text."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from heedful.config.section import Section, Share

# The description completes the loader's message about a value that does not match: "... but must be <description>".
Lines = Annotated[str, Field(pattern=r"^(\d+-\d+)?$", description='a range of lines such as "1-2000"')]
Name = Annotated[str, Field(pattern=r"^(\w[\w. -]*)?$", description="letters, digits, `.`, `-`, `_` and spaces")]
Language = Annotated[str, Field(pattern=r"^(\w[\w-]*)?$", description='a language such as "de"')]
Part = Annotated[str, Field(pattern=r"^(\d+(-\d+)?/\d+)?$", description='a part such as "0/10" or "1-9/10"')]


Column = PositiveInt | Annotated[str, Field(min_length=1, description="the name of a column")]
Separator = Literal[",", ";", "|", "\t"]


class Corpus(Section):
    """Keys of every corpus, and the facts that each form of corpus declares about itself."""

    frozen_kind: ClassVar[str]  # part of cache keys and of checkpoints: stays the same if the class is renamed
    file_keys: ClassVar[tuple[str, ...]] = ()  # keys whose values are file names
    later_keys: ClassVar[tuple[str, ...]] = ()  # keys added after the form's first release: see `options`

    name: Name = ""
    """Name of the corpus in messages and results; by default its file names."""
    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    """Average number of times an epoch shows each sentence."""
    lines: Lines = ""
    """Range of lines to read, as in "1-2000": counted from 1, both ends included."""
    to: Language = ""
    """Target language: "de" puts the tag `<2de>` before every source, for multilingual models."""

    @model_validator(mode="after")
    def _lines_go_up(self) -> Self:
        if self.lines and not 1 <= self.line_range[0] <= self.line_range[1]:
            raise ValueError(
                f'`lines` is "{self.lines}", but must be a first and a last line in ascending order, counted from 1'
            )
        return self

    def files(self) -> tuple[str, ...]:
        """Return the names of the corpus's files."""
        return tuple(getattr(self, key) for key in self.file_keys)

    @property
    def title(self) -> str:
        """Name of the corpus in messages."""
        return self.name or self._untitled()

    def options(self) -> dict[str, object]:
        """Return the keys that decide, besides the content of the files, which rows are read: part of cache keys.

        A key that was added later is included only where it differs from its default, so that old caches stay valid.
        """
        unset = {key for key in self.later_keys if getattr(self, key) == type(self).model_fields[key].default}
        return self.model_dump(exclude={"name", "weight", *self.file_keys, *unset})

    def _untitled(self) -> str:
        return " + ".join(self.files())

    @property
    def line_range(self) -> tuple[int, int]:
        """First and last line of `lines`, which must be set."""
        first, last = map(int, self.lines.split("-"))
        return first, last


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

    @property
    def has_header(self) -> bool:
        """Whether the first line is not data."""
        return _has_header(self)


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

    @property
    def has_header(self) -> bool:
        """Whether the first line is not data."""
        return _has_header(self)


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


class GeneratedCorpus(Corpus):
    """Keys of corpora from generators that ship with Heedful."""

    builtin: str
    """Name of the generator."""
    part: Literal["train", "valid", "test"] = "train"
    """Part of what is generated; parts have nothing in common, and "test" combines words as no other part does."""
    count: Annotated[int, Field(ge=1, le=10_000_000)] = 1000
    """Number of sentence pairs, or of questions."""

    def _untitled(self) -> str:
        return f"{self.builtin} {self.part}"


class BuiltinCorpus(GeneratedCorpus):
    """Sentences from a generator that ships with Heedful."""

    frozen_kind = "BuiltinCorpus"

    builtin: Literal["english-spanish"]


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

    @property
    def has_header(self) -> bool:
        """Whether the first line is not data."""
        return _has_header(self)


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

    @property
    def has_header(self) -> bool:
        """Whether the first line is not data."""
        return _has_header(self)


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


class JsonlQuestions(TextsCorpus):
    """Questions about texts, and their answers, in fields of one JSON object per line."""

    frozen_kind = "JsonlQuestions"
    file_keys = ("jsonl",)

    jsonl: str
    """File with one JSON object per line."""
    question: str
    """Field of the questions."""
    text: str = "text"
    """Field of the texts that hold the answers."""
    answer: str = "answer"
    """Field of the answer, a span of the text, or of a list of acceptable ones; empty where there is none."""
    start: str = "start"
    """Field of the first answer's position in the text, in characters; by default where it first occurs."""


class SquadQuestions(TextsCorpus):
    """Questions about texts in the JSON form of SQuAD, version 1.1 or 2.0."""

    frozen_kind = "SquadQuestions"
    file_keys = ("squad",)

    squad: str
    """File in SQuAD's form."""


class BuiltinQuestions(GeneratedCorpus):
    """Questions about short reports from a generator that ships with Heedful."""

    frozen_kind = "BuiltinQuestions"

    builtin: Literal["reports"]
    unanswerable: Share = 0.0
    """Share of questions that the report does not answer."""


def _has_header(table: Corpus) -> bool:
    columns = (getattr(table, key, None) for key in ("source", "target", "text", "second", "label"))
    return bool(getattr(table, "header", False)) or any(isinstance(column, str) for column in columns)


def _corpus_form(value: Any) -> str:
    def has(key: str) -> bool:
        return key in value if isinstance(value, dict) else hasattr(value, key)

    form = next((form for form in ("tsv", "csv", "jsonl", "conll", "builtin", "squad") if has(form)), "")
    if form == "builtin":
        name = value["builtin"] if isinstance(value, dict) else value.builtin
        return "builtin_questions" if name == "reports" else form
    if form == "jsonl" and any(map(has, ("question", "answer"))):
        return "jsonl_questions"
    if form in ("tsv", "csv", "jsonl"):
        return f"{form}_texts" if any(map(has, ("text", "second", "label"))) else form
    if not form and has("label"):
        return "tsv_texts"  # the usual form of texts with labels, so that the message names the missing key
    return form or ("text" if has("text") else "pairs")


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


SPLITS: Final = ("train", "valid", "test")  # keys of [data]
PAIRS = (TextCorpus, TsvCorpus, CsvCorpus, JsonlCorpus, BuiltinCorpus)
TEXTS = (TsvTexts, CsvTexts, JsonlTexts, PlainTexts)
PairCorpus = TextCorpus | TsvCorpus | CsvCorpus | JsonlCorpus | BuiltinCorpus
QuestionCorpus = JsonlQuestions | SquadQuestions | BuiltinQuestions
RowTexts = TsvTexts | CsvTexts | JsonlTexts
TaggedTexts = RowTexts | ConllTexts
AnyTexts = RowTexts | PlainTexts
AnyCorpus = Annotated[
    Annotated[TextCorpus, Tag("pairs")]
    | Annotated[TsvCorpus, Tag("tsv")]
    | Annotated[CsvCorpus, Tag("csv")]
    | Annotated[JsonlCorpus, Tag("jsonl")]
    | Annotated[BuiltinCorpus, Tag("builtin")]
    | Annotated[TsvTexts, Tag("tsv_texts")]
    | Annotated[CsvTexts, Tag("csv_texts")]
    | Annotated[JsonlTexts, Tag("jsonl_texts")]
    | Annotated[ConllTexts, Tag("conll")]
    | Annotated[PlainTexts, Tag("text")]
    | Annotated[JsonlQuestions, Tag("jsonl_questions")]
    | Annotated[SquadQuestions, Tag("squad")]
    | Annotated[BuiltinQuestions, Tag("builtin_questions")],
    Discriminator(_corpus_form),
]
Corpora = Annotated[tuple[AnyCorpus, ...], BeforeValidator(_as_tuple)]  # one table, or a list of them
