"""What every corpus of a recipe has: its keys, its files, and the facts that its container declares about itself."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    Field,
    PositiveInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails

from heedful.config.corpora.old_names import with_first_names
from heedful.config.corpora.roles import RowKind
from heedful.config.section import Section

# The description completes the loader's message about a value that does not match: "... but must be <description>".
Lines = Annotated[str, Field(pattern=r"^(\d+-\d+)?$", description='a range of lines such as "1-2000"')]
Name = Annotated[str, Field(pattern=r"^(\w[\w. -]*)?$", description="letters, digits, `.`, `-`, `_` and spaces")]
Language = Annotated[str, Field(pattern=r"^(\w[\w-]*)?$", description='a language such as "de"')]
Part = Annotated[str, Field(pattern=r"^(\d+(-\d+)?/\d+)?$", description='a part such as "0/10" or "1-9/10"')]


class Corpus(Section):
    """Keys of every corpus, and the facts that each container declares about itself."""

    frozen: ClassVar[str]  # first part of the corpus's kind in cache keys: stays the same if the class is renamed
    row_kinds: ClassVar[tuple[RowKind, ...]]  # the kinds of rows that it can hold
    file_keys: ClassVar[tuple[str, ...]] = ()  # keys whose values are file names
    folder_keys: ClassVar[tuple[str, ...]] = ()  # keys whose values are names of folders
    found_keys: ClassVar[tuple[str, ...]] = ()  # keys whose values its file tells where the recipe does not set them
    later_keys: ClassVar[tuple[str, ...]] = ()  # keys added after the container's first release: see `options`

    name: Name = Field(default="", examples=["news"])
    """Name of the corpus in messages and results; by default its file names."""
    weight: Annotated[float, Field(gt=0, le=1_000_000, examples=[0.5])] = 1.0
    """Average number of times an epoch shows each sentence."""
    lines: Lines = Field(default="", examples=["1-2000"])
    """Range of lines to read, as in "1-2000": counted from 1, both ends included."""
    to: Language = Field(default="", examples=["de"])
    """Target language: "de" puts the tag `<2de>` before every source, for multilingual models."""

    @property
    def row_kind(self) -> RowKind:
        """The kind of its rows."""
        return self.row_kinds[0]

    @property
    def roles(self) -> frozenset[str]:
        """What its rows have: the needed roles of their kind, and the optional ones that are set."""
        kind = self.row_kind
        return frozenset(kind.needed).union(role for role in kind.roles if getattr(self, role, None) is not None)

    @property
    def frozen_kind(self) -> str:
        """Container and kind of rows, in cache keys."""
        return self.frozen + self.row_kind.frozen

    @classmethod
    def keys_of(cls, kind: RowKind) -> tuple[str, ...]:
        """Return the keys that apply to a corpus with rows of this kind."""
        return tuple(cls.model_fields)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that apply to this corpus."""
        return self.keys_of(self.row_kind)

    @property
    def defaults(self) -> Mapping[str, object]:
        """Defaults of keys that depend on the kind of rows."""
        return {}

    @model_validator(mode="after")
    def _keys_fit_the_rows(self) -> Self:
        kind = self.row_kind
        for key in type(self).model_fields:
            if key not in self.keys and getattr(self, key) not in (None, "", False):
                raise ValueError(f"`{key}` does not apply to {kind.words}: leave it out")
        for key, value in self.defaults.items():
            if getattr(self, key) is None:
                self.__dict__[key] = value  # not by the recipe: `model_fields_set` stays what it is
        missing = [role for role in kind.needed if role in type(self).model_fields and getattr(self, role) is None]
        if missing:
            lines = [InitErrorDetails(type="missing", loc=(role,), input=self) for role in missing]
            raise ValidationError.from_exception_data(type(self).__name__, lines)
        return self

    @model_validator(mode="after")
    def _lines_go_up(self) -> Self:
        if self.lines and not 1 <= self.line_range[0] <= self.line_range[1]:
            raise ValueError(
                f'`lines` is "{self.lines}", but must be a first and a last line in ascending order, counted from 1'
            )
        return self

    @model_serializer(mode="wrap")
    def _only_keys_that_apply(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values = serialize(self)
        unset = {role for role in self.row_kind.later if getattr(self, role, None) is None}
        unset |= self._unset_later() - {"variants", "header"}  # these two are in bundles from their first day on
        return {key: values[key] for key in self.keys if key in values and key not in unset}

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
        """Whether the first line has the names of columns."""
        return False

    @property
    def title(self) -> str:
        """Name of the corpus in messages."""
        return self.name or self._untitled()

    def options(self) -> dict[str, object]:
        """Return the keys that decide, besides the content of the files, which rows are read: part of cache keys.

        A key that was added later is included only where it differs from its default, so that old caches stay valid.
        """
        left_out = {"name", "weight", *self.file_keys, *self.folder_keys, *self._unset_later()}
        return with_first_names(self.model_dump(exclude=left_out))

    def _unset_later(self) -> set[str]:
        """Return the keys that were added later and have their default."""
        return {key for key in self._added_later() if getattr(self, key) == type(self).model_fields[key].default}

    def _added_later(self) -> tuple[str, ...]:
        """Return `later_keys`, and those that were added later to this kind of rows alone."""
        return self.later_keys

    def _untitled(self) -> str:
        return " + ".join(self.files())

    @property
    def line_range(self) -> tuple[int, int]:
        """First and last line of `lines`, which must be set."""
        first, last = map(int, self.lines.split("-"))
        return first, last


class Subsets(Corpus):
    """Keys of corpora in files of which a part can be used.

    Rows are chosen by the sha256 of their content, so that neither their order nor another corpus changes the choice.
    """

    part: Part = Field(default="", examples=["1-9/10"])
    """Subset of the rows: "0/10" is the first of ten parts, "1-9/10" the others.

    The hash of a row's text, source, sentence or image decides its part. So equal rows, translations of one source,
    questions about one text, and captions of one image or questions about it are in the same part.
    """
    sample: PositiveInt | None = Field(default=None, examples=[10000])
    """Number of rows to keep, or of images with their captions or questions: the smallest hashes; by default all."""

    @property
    def chosen(self) -> bool:
        """Whether the rows are chosen by their hash."""
        return bool(self.part) or self.sample is not None

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
    def _each_role_has_its_place(self) -> Self:
        places: dict[object, str] = {}
        for role in self.row_kind.roles if self.row_kind.needed[0] != "source" else ():  # a target may be its source
            place = getattr(self, role, None)
            if place is not None and places.setdefault(place, role) != role:
                raise ValueError(f"`{places[place]}` and `{role}` are both {place!r}, but must be different")
        return self
