"""What the rows of a corpus have: roles, such as a text and its label, and the kinds of rows that they make."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class RowKind:
    """A kind of rows: the roles that each row has, and those that all rows may have."""

    words: str  # "images with captions": the rows in messages
    frozen: str  # last part of the corpus's kind in cache keys: stays the same whatever the kind is called
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    later: tuple[str, ...] = ()  # optional roles added after the first release: in cache keys only where they are set
    named: tuple[str, ...] = ()  # roles that are in the JSON field of the same name, unless the corpus names another

    @property
    def roles(self) -> tuple[str, ...]:
        """All roles that its rows can have."""
        return self.needed + self.optional + self.later


PAIRS: Final = RowKind("pairs", "Corpus", ("source", "target"), named=("source", "target"))
TREES: Final = RowKind("trees", "Corpus", ("tree",))
TEXTS: Final = RowKind("texts", "Texts", ("text",), ("second", "label"), ("number",))
RUNNING_TEXT: Final = RowKind("running text", "Texts", ("text",))
TAGGED: Final = RowKind("words with labels", "Texts", ("word", "label"))
QUESTIONS: Final = RowKind(
    "questions about texts", "Questions", ("question", "text", "answer"), ("start",), named=("text", "answer", "start")
)
IMAGES: Final = RowKind("images with labels", "Pictures", ("image", "label"), later=("number",), named=("label",))
SCENES: Final = RowKind("images with labels, numbers and captions", "Pictures", ("image", "label", "number", "caption"))
IMAGE_NUMBERS: Final = RowKind("images with numbers", "PictureNumbers", ("image", "number"))
CAPTIONS: Final = RowKind("images with captions", "Captions", ("image", "caption"))
IMAGE_QUESTIONS: Final = RowKind(
    "questions about images",
    "PictureQuestions",
    ("image", "question", "answer"),
    ("group",),
    named=("question", "answer"),
)
TABULAR: Final = (PAIRS, TEXTS, QUESTIONS, IMAGES, IMAGE_NUMBERS, CAPTIONS, IMAGE_QUESTIONS)  # kinds that tables hold

ROLES: Final = (  # of tables, in the order of their keys
    *("source", "target", "image", "question", "text", "second"),
    *("caption", "label", "number", "answer", "start", "group"),
)


def role_noun(role: str) -> str:
    """Return what a value of a role is called in messages."""
    return "second text" if role == "second" else role


def tabular_kind(roles: Collection[str]) -> RowKind:
    """Return the kind of rows of a table in which these roles have columns; without any, it has pairs."""
    asked = not {"question", "answer", "start", "group"}.isdisjoint(roles)
    if not {"image", "caption", "group"}.isdisjoint(roles):
        labelled = "label" in roles or "number" not in roles
        return IMAGE_QUESTIONS if asked else CAPTIONS if "caption" in roles else IMAGES if labelled else IMAGE_NUMBERS
    if asked:
        return QUESTIONS
    return TEXTS if any(role in roles for role in TEXTS.roles) else PAIRS


@dataclass(frozen=True)
class Roles:
    """One form of the rows that a task learns from."""

    needed: tuple[str, ...]  # roles of every row
    optional: tuple[str, ...] = ()  # roles that all rows have, or none
    besides: tuple[str, ...] = ()  # roles that a corpus may have as well, for other tasks

    @property
    def read(self) -> tuple[str, ...]:
        """Roles that the task reads."""
        return self.needed + self.optional

    def fit(self, roles: Collection[str]) -> bool:
        """Whether a corpus with these roles can be learned from."""
        return set(self.needed) <= set(roles) <= {*self.read, *self.besides}

    def fit_some(self, kind: RowKind) -> bool:
        """Whether corpora with rows of this kind can have the roles."""
        return self.fit({*kind.needed, *set(kind.roles).intersection(self.needed)})
