"""The corpora that a recipe can name: pairs of sentences, texts with labels, running text."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from heedful.config.section import Section

# A description is what the loader says of a value that does not match: "... but must be <description>".
Lines = Annotated[str, Field(pattern=r"^(\d+-\d+)?$", description='a range of lines such as "1-2000"')]
Name = Annotated[str, Field(pattern=r"^(\w[\w. -]*)?$", description="letters, digits, `.`, `-`, `_` and spaces")]
Language = Annotated[str, Field(pattern=r"^(\w[\w-]*)?$", description='a language such as "de"')]
Part = Annotated[str, Field(pattern=r"^(\d+(-\d+)?/\d+)?$", description='a part such as "0/10" or "1-9/10"')]


class Corpus(Section):
    """What every corpus may say, and what every form of corpus says of itself."""

    frozen_kind: ClassVar[str]  # part of cache keys and of checkpoints: no renaming of the class may change it
    file_keys: ClassVar[tuple[str, ...]] = ()  # the keys that are names of files
    later_keys: ClassVar[tuple[str, ...]] = ()  # those added after the form's first release: see `options`

    name: Name = ""
    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0  # how often an epoch shows each sentence, on average
    lines: Lines = ""  # "1-2000": only these, counted from 1, both included
    to: Language = ""  # "de" puts the tag <2de> before every source: one model for several target languages

    @model_validator(mode="after")
    def _lines_go_up(self) -> Self:
        if self.lines and not 1 <= self.line_range[0] <= self.line_range[1]:
            raise ValueError(f'`lines` is "{self.lines}", but must go up from a line to a later one, counted from 1')
        return self

    def files(self) -> tuple[str, ...]:
        """Return the names of the files that the corpus is in."""
        return tuple(getattr(self, key) for key in self.file_keys)

    @property
    def title(self) -> str:
        """What the corpus is called in messages."""
        return self.name or self._untitled()

    def options(self) -> dict[str, object]:
        """Return what decides, besides the content of the files, which rows are read: a part of cache keys.

        A key that was added later enters only where it is not at its default, so that old caches stay valid.
        """
        unset = {key for key in self.later_keys if getattr(self, key) == type(self).model_fields[key].default}
        return self.model_dump(exclude={"name", "weight", *self.file_keys, *unset})

    def _untitled(self) -> str:
        return " + ".join(self.files())

    @property
    def line_range(self) -> tuple[int, int]:
        """The first and the last of `lines`, where it is given."""
        first, last = map(int, self.lines.split("-"))
        return first, last


class TextCorpus(Corpus):
    """Two files aligned by line: plain, .gz, .xz, or a member of a .zip ("corpus.zip:train.en")."""

    frozen_kind = "TextCorpus"
    file_keys = ("source", "target")

    source: str
    target: str


class TsvCorpus(Corpus):
    """Tab-separated columns of one file, counted from 1."""

    frozen_kind = "TsvCorpus"
    file_keys = ("tsv",)

    tsv: str
    source: PositiveInt = 1
    target: PositiveInt = 2


class JsonlCorpus(Corpus):
    """Fields of one JSON object per line."""

    frozen_kind = "JsonlCorpus"
    file_keys = ("jsonl",)

    jsonl: str
    source: str = "source"
    target: str = "target"


class BuiltinCorpus(Corpus):
    """Sentences from a generator that ships with Heedful."""

    frozen_kind = "BuiltinCorpus"

    builtin: Literal["english-spanish"]
    part: Literal["train", "valid", "test"] = "train"
    count: PositiveInt = 1000

    def _untitled(self) -> str:
        return f"{self.builtin} {self.part}"


class TextsCorpus(Corpus):
    """What every corpus of texts may say, with labels or without: for classifiers and masked language models.

    Texts are chosen by the sha256 of their content, so that neither their order nor another corpus changes the choice.
    """

    part: Part = ""  # "0/10": of ten parts by hash the first; "1-9/10": the others
    sample: PositiveInt | None = None  # the number of texts of these: those of the smallest hashes

    @property
    def part_range(self) -> tuple[int, int, int]:
        """The first and the last of the parts, and the number of parts, where `part` is given."""
        members, count = self.part.split("/")
        first, _, last = members.partition("-")
        return int(first), int(last or first), int(count)

    @model_validator(mode="after")
    def _there_are_such_parts(self) -> Self:
        if self.part:
            first, last, count = self.part_range
            if not first <= last < count:
                raise ValueError(
                    f'`part` is "{self.part}", but must be some of the parts 0 to n-1 of n, such as "0/10" or "1-9/10"'
                )
        return self

    @model_validator(mode="after")
    def _each_has_its_place(self) -> Self:
        said = [(key, value) for key in ("text", "second", "label") if (value := getattr(self, key, None)) is not None]
        for number, (key, value) in enumerate(said):
            for other, same in said[:number]:
                if value == same:
                    raise ValueError(f"`{other}` and `{key}` are both {value!r}: each must have its own")
        return self


class TsvTexts(TextsCorpus):
    """Texts in a column of a tab-separated file, counted from 1; with a second text of a pair, and labels."""

    frozen_kind = "TsvTexts"
    file_keys = ("tsv",)

    tsv: str
    text: PositiveInt
    second: PositiveInt | None = None
    label: PositiveInt | None = None  # several labels are separated by commas


class JsonlTexts(TextsCorpus):
    """Texts in a field of one JSON object per line; with a second text of a pair, and a label or a list of labels."""

    frozen_kind = "JsonlTexts"
    file_keys = ("jsonl",)

    jsonl: str
    text: str
    second: str | None = None
    label: str | None = None


class PlainTexts(TextsCorpus):
    """A file of running text, split into documents and sentences."""

    frozen_kind = "PlainTexts"
    file_keys = ("text",)

    text: str
    documents: Literal["blank_line", "line", "heading"] = (
        "blank_line"  # what ends one; heading: " = Title = ", WikiText
    )
    sentences: Literal["split", "line"] = "split"  # found by punctuation, or one per line


def _corpus_form(value: Any) -> str:
    def has(key: str) -> bool:
        return key in value if isinstance(value, dict) else hasattr(value, key)

    form = next((form for form in ("tsv", "jsonl", "builtin") if has(form)), "")
    if form in ("tsv", "jsonl"):
        return f"{form}_texts" if any(map(has, ("text", "second", "label"))) else form
    if not form and has("label"):
        return "tsv_texts"  # the usual form of texts with labels, so that the message names what is missing
    return form or ("text" if has("text") else "pairs")


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


SPLITS: Final = ("train", "valid", "test")  # of [data]
PAIRS = (TextCorpus, TsvCorpus, JsonlCorpus, BuiltinCorpus)
TEXTS = (TsvTexts, JsonlTexts, PlainTexts)
PairCorpus = TextCorpus | TsvCorpus | JsonlCorpus | BuiltinCorpus
AnyTexts = TsvTexts | JsonlTexts | PlainTexts
AnyCorpus = Annotated[
    Annotated[TextCorpus, Tag("pairs")]
    | Annotated[TsvCorpus, Tag("tsv")]
    | Annotated[JsonlCorpus, Tag("jsonl")]
    | Annotated[BuiltinCorpus, Tag("builtin")]
    | Annotated[TsvTexts, Tag("tsv_texts")]
    | Annotated[JsonlTexts, Tag("jsonl_texts")]
    | Annotated[PlainTexts, Tag("text")],
    Discriminator(_corpus_form),
]
Corpora = Annotated[tuple[AnyCorpus, ...], BeforeValidator(_as_tuple)]  # one table, or a list of them
