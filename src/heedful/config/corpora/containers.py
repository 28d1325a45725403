"""The containers of corpora: files and generators; which roles the rows have follows from the keys that are set."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, TypeVar

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag

from heedful.config.corpora.corpus import Corpus, Subsets
from heedful.config.corpora.roles import (
    IMAGE_NUMBERS,
    IMAGE_QUESTIONS,
    IMAGES,
    PAIRS,
    QUESTIONS,
    ROLES,
    RUNNING_TEXT,
    SCENES,
    TABULAR,
    TAGGED,
    TEXTS,
    TREES,
    RowKind,
    tabular_kind,
)
from heedful.config.section import Share, as_tuple

Column = PositiveInt | Annotated[str, Field(min_length=1, description="the name of a column")]
Leaves = Literal["symbol", "tag", "word"]
Place = TypeVar("Place")


class AlignedFiles(Subsets):
    """Two files aligned by line: plain, .gz, .xz, or a member of a .zip ("corpus.zip:train.en")."""

    frozen = "Text"
    row_kinds = (PAIRS,)
    file_keys = ("source", "target", "references")
    later_keys = ("variants", "part", "sample")

    variants: bool = False
    """Whether targets of one source are variants: each is an example in training, and a reference in evaluation."""
    source: str = Field(examples=["train.en"])
    """File of source sentences."""
    target: str = Field(examples=["train.de"])
    """File of target sentences."""
    references: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field(
        default=(), examples=[["test.2.de", "test.3.de"]]
    )
    """Further files of references, for evaluation: line n of each belongs to line n of the source."""


# --- rows of roles ----------------------------------------------------------------------------------------------------


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


# --- one kind of rows -------------------------------------------------------------------------------------------------


class Conll(Subsets):
    """Words and their labels in columns: one word per line, and a blank line after each sentence.

    Columns are separated by tabs or spaces. Comments before a sentence (`# ...`) and `-DOCSTART-` are not words.
    Ranges and empty nodes (3-4, 3.1) of CoNLL-U are not words either. Its columns have names, and CoNLL-U Plus has them
    in its first line.
    """

    frozen = "Conll"
    row_kinds = (TAGGED,)
    file_keys = ("conll",)

    found_keys = ("word", "label")

    conll: str = Field(examples=["train.conll"])
    """File with one word per line."""
    word: Column = 1
    """Column of the words, by number; in CoNLL-U also by name, and by default "form"."""
    label: Column = 2
    """Column of the labels, by number; in CoNLL-U also by name, such as "xpos" or "deprel", and by default "upos".

    CoNLL-2003 has parts of speech in column 2, and entities in column 4.
    """


class PlainText(Subsets):
    """A file of running text, split into documents and sentences."""

    frozen = "Plain"
    row_kinds = (RUNNING_TEXT,)
    file_keys = ("text",)

    text: str = Field(examples=["train.txt"])
    """File of running text."""
    documents: Literal["blank_line", "line", "heading", "file"] = "blank_line"
    """Separator of documents: a blank line, the end of a line, a heading such as " = Title = " (WikiText), or none."""
    sentences: Literal["split", "line"] = "split"
    """How sentences are found: split at punctuation, or one per line."""


class Trees(Subsets):
    """Bracketed trees, as treebanks have them: a parser reads their words, and writes their brackets."""

    frozen = "Tree"
    row_kinds = (TREES,)
    file_keys = ("trees",)
    later_keys: ClassVar[tuple[str, ...]] = ("part", "sample")

    trees: str = Field(examples=["train.trees"])
    """File of bracketed trees, each on one line or on several, as in the Penn Treebank (.mrg).

    Traces and function tags (the -SBJ of NP-SBJ) are removed.
    """
    leaves: Leaves = "symbol"
    """What a parser writes in place of each word: one symbol for all of them, its tag, or the word itself."""


class Squad(Subsets):
    """Questions about texts in the JSON form of SQuAD, version 1.1 or 2.0, or in its rows as Hugging Face has them."""

    frozen = "Squad"
    row_kinds = (QUESTIONS,)
    file_keys = ("squad",)

    squad: str = Field(examples=["train-v2.0.json"])
    """File in SQuAD's form; or rows with `context`, `question` and `answers`, in JSON lines or in one array."""


class ImageFolder(Subsets):
    """A folder of images with one folder for each class, whose name is the label."""

    frozen = "Folder"
    row_kinds = (IMAGES,)
    folder_keys: ClassVar[tuple[str, ...]] = ("images",)

    images: str = Field(examples=["photos"])
    """Folder with one folder of images (.png, .jpg, .webp) for each class."""

    def _untitled(self) -> str:
        return self.images


class Idx(Subsets):
    """Images and labels in two idx files, as MNIST has them, plain or packed (.gz)."""

    frozen = "Idx"
    row_kinds = (IMAGES,)
    file_keys = ("idx", "labels")

    idx: str = Field(examples=["train-images-idx3-ubyte.gz"])
    """File of images."""
    labels: str = Field(examples=["train-labels-idx1-ubyte.gz"])
    """File of labels, one number per image."""


class Npz(Subsets):
    """Images, and their labels or numbers, in arrays of a file of NumPy."""

    frozen = "Npz"
    row_kinds = (IMAGES, IMAGE_NUMBERS)
    file_keys = ("npz",)

    npz: str = Field(examples=["digits.npz"])
    """File of arrays."""
    image: str = "x"
    """Array of images: images x height x width, or images x height x width x 3, of bytes."""
    label: str | None = Field(default=None, examples=["y"])
    """Array of labels, by default "y": one whole number or text per image; commas separate several labels in a text."""
    number: str | None = Field(default=None, examples=["price"])
    """Array of numbers, such as ratings or prices, one per image; labels are not read then, unless `label` is set."""

    @property
    def row_kind(self) -> RowKind:
        """The kind of its rows, which follows from the arrays that are set."""
        return IMAGE_NUMBERS if self.label is None and self.number is not None else IMAGES

    @classmethod
    def keys_of(cls, kind: RowKind) -> tuple[str, ...]:
        """Return the keys that apply to a corpus with rows of this kind."""
        return tuple(key for key in cls.model_fields if key != "label" or kind is IMAGES)

    @property
    def defaults(self) -> Mapping[str, object]:
        """Default of the labels."""
        return {"label": "y"} if self.row_kind is IMAGES else {}


class Builtin(Corpus):
    """Examples from a generator that ships with Heedful: pairs of sentences, reports with questions, or scenes.

    Scenes are images of 64 x 64 pixels with three to five shapes, each with a label, a sentence and the number of its
    shapes, or with questions.
    """

    frozen = "Builtin"
    row_kinds = (PAIRS, QUESTIONS, SCENES, IMAGE_QUESTIONS)
    own_keys: ClassVar[Mapping[RowKind, str]] = {
        QUESTIONS: "unanswerable",
        SCENES: "label",
        IMAGE_QUESTIONS: "questions",
    }

    builtin: Annotated[
        Literal["english-spanish", "dates", "reports", "scenes"],
        Field(
            description='"english-spanish" or "dates" for pairs, "reports" for questions, "scenes" for images',
            examples=["english-spanish"],
        ),
    ]
    """Name of the generator."""
    part: Literal["train", "valid", "test"] = "train"
    """Part of what is generated; parts have nothing in common."""
    count: Annotated[int, Field(ge=1, le=10_000_000)] = 1000
    """Number of sentence pairs, of questions about reports, or of images."""
    unanswerable: Share | None = Field(default=None, examples=[0.3])
    """Share of questions that the report does not answer, of "reports"; by default 0."""
    label: Literal["shape", "colour", "number"] | None = Field(default=None, examples=["colour"])
    """Label of "scenes" for a classifier: by default the number of things; or shape or colour of the first thing.

    The first thing is at the top left. A classifier with several labels per image gets the shapes or colours of all
    things.
    """
    questions: Annotated[int, Field(ge=1, le=4)] | None = Field(default=None, examples=[4])
    """Maximum number of questions about an image, which "scenes" have where this is set.

    They ask for a colour, a shape, a size, a number, a neighbour, or whether something is there, or left of or above
    something else.
    """

    @property
    def row_kind(self) -> RowKind:
        """The kind of its rows, which follows from the generator."""
        of_scenes = SCENES if self.questions is None else IMAGE_QUESTIONS
        return {"scenes": of_scenes, "reports": QUESTIONS}.get(self.builtin, PAIRS)

    @property
    def roles(self) -> frozenset[str]:
        """What its rows have."""
        return frozenset(self.row_kind.roles)

    @classmethod
    def keys_of(cls, kind: RowKind) -> tuple[str, ...]:
        """Return the keys that apply to a corpus with rows of this kind."""
        return tuple(key for key in cls.model_fields if key not in {*cls.own_keys.values()} - {cls.own_keys.get(kind)})

    @property
    def defaults(self) -> Mapping[str, object]:
        """Defaults of keys that depend on the generator."""
        own: dict[RowKind, dict[str, object]] = {SCENES: {"label": "number"}, QUESTIONS: {"unanswerable": 0.0}}
        return own.get(self.row_kind, {})

    def _untitled(self) -> str:
        return f"{self.builtin} {self.part}"


# --- any of them ------------------------------------------------------------------------------------------------------

# The key that a corpus has decides its container; without one, it is running text or two files.
FORMS: Final = ("tsv", "csv", "jsonl", "conll", "trees", "builtin", "squad", "images", "idx", "npz")


def _container(value: Any) -> str:
    def has(key: str) -> bool:
        return key in value if isinstance(value, dict) else hasattr(value, key)

    form = next((form for form in FORMS if has(form)), "")
    if not form and has("label"):
        return "tsv"  # the usual form of texts with labels, so that the message names the missing key
    return form or ("text" if has("text") else "pairs")


SPLITS: Final = ("train", "valid", "test")  # keys of [data]
AnyCorpus = Annotated[
    Annotated[AlignedFiles, Tag("pairs")]
    | Annotated[Tsv, Tag("tsv")]
    | Annotated[Csv, Tag("csv")]
    | Annotated[Jsonl, Tag("jsonl")]
    | Annotated[Builtin, Tag("builtin")]
    | Annotated[Conll, Tag("conll")]
    | Annotated[PlainText, Tag("text")]
    | Annotated[Trees, Tag("trees")]
    | Annotated[Squad, Tag("squad")]
    | Annotated[ImageFolder, Tag("images")]
    | Annotated[Idx, Tag("idx")]
    | Annotated[Npz, Tag("npz")],
    Discriminator(_container),
]
Corpora = Annotated[tuple[AnyCorpus, ...], BeforeValidator(as_tuple)]  # one table, or a list of them
