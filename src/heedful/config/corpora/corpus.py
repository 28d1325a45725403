"""What every corpus of a recipe has: its keys, its files, and the facts that its form declares about itself."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from heedful.config.corpora.old_names import with_first_names
from heedful.config.section import Section

# The description completes the loader's message about a value that does not match: "... but must be <description>".
Lines = Annotated[str, Field(pattern=r"^(\d+-\d+)?$", description='a range of lines such as "1-2000"')]
Name = Annotated[str, Field(pattern=r"^(\w[\w. -]*)?$", description="letters, digits, `.`, `-`, `_` and spaces")]
Language = Annotated[str, Field(pattern=r"^(\w[\w-]*)?$", description='a language such as "de"')]
Column = PositiveInt | Annotated[str, Field(min_length=1, description="the name of a column")]
Separator = Literal[",", ";", "|", "\t"]
# Keys that name columns.
_COLUMNS = ("source", "target", "text", "second", "image", "caption", "label", "question", "answer", "group")


class Corpus(Section):
    """Keys of every corpus, and the facts that each form of corpus declares about itself."""

    frozen_kind: ClassVar[str]  # part of cache keys and of checkpoints: stays the same if the class is renamed
    file_keys: ClassVar[tuple[str, ...]] = ()  # keys whose values are file names
    folder_keys: ClassVar[tuple[str, ...]] = ()  # keys whose values are names of folders
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
        return tuple(name for _, name in self.named_files())

    def named_files(self) -> Iterator[tuple[str, str]]:
        """Yield the names of the corpus's files, each with the key that has it."""
        for key in self.file_keys:
            value = getattr(self, key)
            yield from ((key, name) for name in ([value] if isinstance(value, str) else value))

    @property
    def has_header(self) -> bool:
        """Whether the first line has the names of columns: it says so, or a column is given by its name."""
        columns = (getattr(self, key, None) for key in _COLUMNS)
        header = getattr(self, "header", None)  # None: not a table
        return header is not None and (header or any(isinstance(column, str) for column in columns))

    @property
    def title(self) -> str:
        """Name of the corpus in messages."""
        return self.name or self._untitled()

    def options(self) -> dict[str, object]:
        """Return the keys that decide, besides the content of the files, which rows are read: part of cache keys.

        A key that was added later is included only where it differs from its default, so that old caches stay valid.
        """
        unset = {key for key in self.later_keys if getattr(self, key) == type(self).model_fields[key].default}
        return with_first_names(self.model_dump(exclude={"name", "weight", *self.file_keys, *self.folder_keys, *unset}))

    def _untitled(self) -> str:
        return " + ".join(self.files())

    @property
    def line_range(self) -> tuple[int, int]:
        """First and last line of `lines`, which must be set."""
        first, last = map(int, self.lines.split("-"))
        return first, last


class GeneratedCorpus(Corpus):
    """Keys of corpora from generators that ship with Heedful."""

    builtin: str
    """Name of the generator."""
    part: Literal["train", "valid", "test"] = "train"
    """Part of what is generated; parts have nothing in common."""
    count: Annotated[int, Field(ge=1, le=10_000_000)] = 1000
    """Number of sentence pairs, of questions, or of images."""

    def _untitled(self) -> str:
        return f"{self.builtin} {self.part}"
