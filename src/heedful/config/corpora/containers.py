"""The containers of corpora: files and generators; which roles the rows have follows from the keys that are set."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from heedful.config.corpora.corpus import Corpus, Language, Subsets
from heedful.config.corpora.roles import (
    IMAGE_NUMBERS,
    IMAGE_QUESTIONS,
    IMAGES,
    PAIRS,
    QUESTIONS,
    ROLES,
    RUNNING_TEXT,
    SCENES,
    TAGGED,
    TREES,
    RowKind,
)
from heedful.config.corpora.tables import Column, Csv, Jsonl, Tabular, Tsv, refuse_missing_file
from heedful.config.section import Share, as_tuple

__all__ = [
    "FORMS",
    "SPLITS",
    "AlignedFiles",
    "AnyCorpus",
    "Builtin",
    "Column",
    "Conll",
    "Corpora",
    "Csv",
    "Idx",
    "ImageFolder",
    "Jsonl",
    "Leaves",
    "Npz",
    "PlainText",
    "Squad",
    "Tabular",
    "Tmx",
    "Trees",
    "Tsv",
    "Xliff",
]

Leaves = Literal["symbol", "tag", "word"]


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

    @model_validator(mode="before")
    @classmethod
    def _has_a_file(cls, value: Any) -> Any:
        """Corpora without any key of a container are taken for this one."""
        if isinstance(value, dict) and not {"source", "target"} & value.keys():
            refuse_missing_file(value)
        return value


class _Translations(Subsets):
    """Keys of files of CAT tools, in which a unit has its texts in several languages."""

    row_kinds = (PAIRS,)

    variants: bool = False
    """Whether targets of one source are variants: each is an example in training, and a reference in evaluation."""
    source: Language = Field(default="", examples=["en"])
    """Source language: "en" is also en-GB; by default that which the file names as its source."""
    target: Language = Field(default="", examples=["de"])
    """Target language: "de" is also de-AT; by default the only other language of the file."""


class Tmx(_Translations):
    """A translation memory (TMX): units without a translation, and codes of layout in their texts, are left out."""

    frozen = "Tmx"
    file_keys = ("tmx",)

    tmx: str = Field(examples=["memory.tmx"])
    """File of a translation memory."""


class Xliff(_Translations):
    """Texts and their translations in XLIFF, version 1.2 or 2: units without a translation are left out."""

    frozen = "Xliff"
    file_keys = ("xliff",)

    xliff: str = Field(examples=["site.xlf"])
    """File in XLIFF."""


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
FORMS: Final = ("tsv", "csv", "jsonl", "tmx", "xliff", "conll", "trees", "builtin", "squad", "images", "idx", "npz")


def _container(value: Any) -> str:
    def has(key: str) -> bool:
        return key in value if isinstance(value, dict) else hasattr(value, key)

    form = next((form for form in FORMS if has(form)), "")
    if not form and any(has(role) for role in ROLES if role not in ("source", "target", "text")):
        return "tsv"  # which says that its file is missing
    return form or ("text" if has("text") else "pairs")


SPLITS: Final = ("train", "valid", "test")  # keys of [data]
AnyCorpus = Annotated[
    Annotated[AlignedFiles, Tag("pairs")]
    | Annotated[Tsv, Tag("tsv")]
    | Annotated[Csv, Tag("csv")]
    | Annotated[Jsonl, Tag("jsonl")]
    | Annotated[Tmx, Tag("tmx")]
    | Annotated[Xliff, Tag("xliff")]
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
