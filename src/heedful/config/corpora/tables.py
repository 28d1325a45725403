"""Containers with one row per example: tables and JSON lines, whose rows have the roles that are set."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import Field, PositiveInt, model_validator

from heedful.config.corpora.corpus import Subsets
from heedful.config.corpora.roles import PAIRS, ROLES, TABULAR, TEXTS, RowKind, tabular_kind

# By the end of a file's name, the key of the container that it usually is.
_CONTAINERS: Final[Mapping[str, str]] = {
    suffix: container
    for container, suffixes in {
        "csv": "csv",
        "tsv": "tsv tab",
        "jsonl": "jsonl json ndjson",
        "text": "txt",
        "conll": "conll conllu",
        "trees": "mrg trees",
        "tmx": "tmx",
        "xliff": "xlf xliff",
        "npz": "npz",
    }.items()
    for suffix in suffixes.split()
}
_FILE: Final = (
    "file",
    "files",
    "filename",
    "file_name",
    "path",
    "data",
    "dataset",
)  # what others call it
Column = PositiveInt | Annotated[str, Field(min_length=1, description="the name of a column")]
Place = TypeVar("Place")


def container_of_name(name: object) -> str:
    """Return the key of the container that a file of this name usually is; nothing for what is not such a name."""
    parts = name.lower().removesuffix(".gz").removesuffix(".xz").split(".") if isinstance(name, str) else []
    return _CONTAINERS.get(parts[-1], "") if len(parts) > 1 else ""


def refuse_missing_file(value: Mapping[str, Any], otherwise: str = "") -> None:
    """Refuse a table of a recipe that gives its file by a role or by a general word; `otherwise` is for other tables.

    Keys that nobody knows are left to the check of all keys, which has suggestions.
    """
    for key, given in value.items():
        if key in (*ROLES, *_FILE) and container_of_name(given):
            right = f'give the file as `{container_of_name(given)} = "{given}"`'
            raise ValueError(f'`{key}` is "{given}", which is not read as a file: {right}')
    if otherwise and value.keys() <= {*Subsets.model_fields, *ROLES, *_FILE}:
        raise ValueError(otherwise)


class Tabular(Subsets, Generic[Place]):
    """Keys of every file with one row per example: the roles of a row, each with its column or field.

    The roles that are set decide what a corpus has: pairs (`source`, `target`), texts (`text`, and optionally `second`,
    `label` or `number`), questions about texts (`question`, `text`, `answer`, `start`), images (`image`, and `label` or
    `number`), images with captions (`caption`), or questions about images (`question`, `answer`, `group`).
    """

    row_kinds = TABULAR
    later_keys = ("variants",)

    variants: bool = False
    """Whether targets of one source are variants: each is an example in training, and a reference in evaluation."""
    source: Place | None = Field(default=None, examples=["english"])
    """Column or field of the source sentences; of pairs, by default column 1, or the field `source`."""
    target: Place | None = Field(default=None, examples=["german"])
    """Column or field of the target sentences; of pairs, by default column 2, or the field `target`."""
    image: Place | None = Field(default=None, examples=["path"])
    """Column or field of the paths of images, relative to the folder of the file."""
    question: Place | None = Field(default=None, examples=["question"])
    """Column or field of the questions, about a text or an image; about images, in JSON by default `question`."""
    text: Place | None = Field(default=None, examples=["review"])
    """Column or field of the texts; of questions, the texts that hold the answers, in JSON by default `text`."""
    second: Place | None = Field(default=None, examples=["reply"])
    """Column or field of the second texts, for models that read pairs of texts."""
    caption: Place | None = Field(default=None, examples=["caption"])
    """Column or field of the captions, where an image may have several rows; a field may hold a list of captions."""
    label: Place | None = Field(default=None, examples=["sentiment"])
    """Column or field of the labels; of images, in JSON by default `label`.

    Several labels are separated by commas in a column, and a list in a field.
    """
    number: Place | None = Field(default=None, examples=["rating"])
    """Column or field of the numbers that a text or an image has, such as ratings or prices."""
    answer: Place | None = Field(default=None, examples=["answer"])
    """Column or field of the answers; in JSON by default `answer`.

    The answer to a question about a text is a span of it, or empty where there is none; a field may hold a list of
    acceptable ones, or `answers` as SQuAD has them, with their positions.
    """
    start: Place | None = Field(default=None, examples=["position"])
    """Column or field of the first answer's position in its text, in characters; by default where it first occurs."""
    group: Place | None = Field(default=None, examples=["kind"])
    """Column or field of the kinds of questions about images: evaluation scores each kind by itself."""

    @property
    def row_kind(self) -> RowKind:
        """The kind of its rows, which follows from the roles that are set."""
        return tabular_kind([role for role in ROLES if getattr(self, role) is not None])

    @classmethod
    def keys_of(cls, kind: RowKind) -> tuple[str, ...]:
        """Return the keys that apply to a corpus with rows of this kind."""
        own = [key for key in cls.model_fields if key not in (*Tabular.model_fields, *cls.file_keys)]
        variants = ("variants",) if kind is PAIRS else ()
        return (*Subsets.model_fields, *variants, *cls.file_keys, *kind.roles, *own)

    @property
    def places(self) -> dict[str, Place]:
        """Column or field of each role that the rows have."""
        return {role: getattr(self, role) for role in self.row_kind.roles if getattr(self, role) is not None}

    def _added_later(self) -> tuple[str, ...]:
        return (*self.later_keys, "part", "sample") if self.row_kind is PAIRS else self.later_keys


class _Table(Tabular[Column]):
    """Keys of every table, whose columns are given by their numbers from 1 on, or by their names in the first line."""

    found_keys = ("header", "separator")

    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name.

    Where it is not set, clear cases are told from the first lines: a name above a column of numbers, for example.
    """

    @property
    def defaults(self) -> Mapping[str, object]:
        """Defaults of pairs: the first two columns."""
        return {"source": 1, "target": 2} if self.row_kind is PAIRS else {}

    @property
    def has_header(self) -> bool:
        """Whether the first line has the names of columns."""
        return self.header or any(isinstance(column, str) for column in self.places.values())


class Tsv(_Table):
    """Tab-separated columns of one file, by their numbers from 1 on, or by their names in the first line."""

    frozen = "Tsv"
    file_keys = ("tsv",)

    tsv: str = Field(examples=["pairs.tsv.gz"])
    """File of tab-separated columns."""

    @model_validator(mode="before")
    @classmethod
    def _has_a_file(cls, value: Any) -> Any:
        """Tables without a container are taken for this one, so that the message is about their file."""
        if isinstance(value, dict) and "tsv" not in value:
            refuse_missing_file(value, 'there is no file: give it as `csv = "..."`, `tsv = "..."` or `jsonl = "..."`')
        return value

    def _added_later(self) -> tuple[str, ...]:
        later = super()._added_later()
        return (*later, "header") if self.row_kind in (PAIRS, TEXTS) else later


class Csv(_Table):
    """Columns of one CSV file, by their numbers from 1 on, or by their names in the first line."""

    frozen = "Csv"
    file_keys = ("csv",)

    csv: str = Field(examples=["reviews.csv"])
    """File of columns separated by commas; texts with commas, quotes or line breaks are in quotes."""
    separator: Literal[",", ";", "|", "\t"] = ","
    """Character between columns; where it is not set, it is told from the first lines if commas do not fit."""


class Jsonl(Tabular[str]):
    """Fields of one JSON object per line."""

    frozen = "Jsonl"
    file_keys = ("jsonl",)

    jsonl: str = Field(examples=["examples.jsonl"])
    """File with one JSON object per line, or with one array of objects."""

    @property
    def defaults(self) -> Mapping[str, object]:
        """Defaults of roles: the field of the same name."""
        return {role: role for role in self.row_kind.named}
