"""The schema at one place in a recipe: the table that holds it, the kinds there are, and what a value must be."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Tag
from pydantic.fields import FieldInfo

from heedful.config.recipe import Recipe
from heedful.config.section import Section

Key = str | int
KeyPath = tuple[Key, ...]
Sections = Mapping[str, type[Section]]

Bounds = Literal["usual", "upper", "all"]

MARKS = ("kind", "family")  # keys that choose a table's class


@dataclass(frozen=True)
class Place:
    """The place in the schema where a path ends."""

    path: KeyPath  # as written in a recipe
    holder: type[Section]  # the table that holds the last key
    siblings: Sections  # the classes that this table has with other kinds
    annotation: Any  # type of the value; None where the schema has no such key
    metadata: Sequence[Any]


def locate(path: KeyPath) -> Place:
    """Follow a path from pydantic, which also names union members, or from a recipe, which does not."""
    place = Place((), Recipe, {}, Recipe, ())
    tag: Key | None = None
    for piece in path:
        place, tag = _step(place, piece, tag)
    return place


def _step(place: Place, piece: Key, tag: Key | None) -> tuple[Place, Key | None]:
    bare, members = _bare(place.annotation), sections(place.annotation)
    if is_list(bare):
        return Place((*place.path, piece), place.holder, place.siblings, get_args(bare)[0], ()), None
    if not members:
        names = next((option for option in map(_bare, _options(place.annotation)) if get_origin(option) is dict), None)
        if names is None or tag is None:
            return place, piece  # the name of a member of a union of plain values
        return Place((*place.path, piece), place.holder, place.siblings, get_args(names)[1], ()), None
    options = _options(place.annotation)
    if tag is None and len(options) > 1 and any(piece == _tag(option) for option in options):
        return place, piece  # pydantic names the member of a union; where there is one member alone, it does not
    holder = members.get(str(tag)) or next(iter(members.values()))
    field = holder.model_fields.get(str(piece))
    annotation, metadata = (field.annotation, constraints_of(field)) if field else (None, [])
    return Place((*place.path, piece), holder, members, annotation, metadata), None


def sections(annotation: Any) -> Sections:
    """Return the tables that a value may be, by the name that chooses among them; none for a plain value."""
    return _sections(tuple(_options(annotation)))


@cache  # one recipe asks hundreds of times; of a tuple, as unions of the same members in another order are equal
def _sections(options: tuple[Any, ...]) -> Sections:
    return {_tag(option): _bare(option) for option in options if _is_section(_bare(option))}


def has_plain_form(annotation: Any) -> bool:
    """Whether a value may be something other than a table or a list."""
    return not is_list(annotation) and any(not _is_section(_bare(option)) for option in _options(annotation))


def tables_in(annotation: Any) -> Sections:
    """Return the tables that a value may be or, if it is a list, hold."""
    bare = _bare(annotation)
    return sections(get_args(bare)[0] if is_list(bare) else annotation)


def is_list(annotation: Any) -> bool:
    """Whether a value may be a list."""
    return get_origin(_bare(annotation)) is tuple


def mark_of(section: type[Section]) -> str | None:
    """Return the key that chooses this section among its siblings: `kind`, `family` or None."""
    return next((mark for mark in MARKS if mark in section.model_fields), None)


def kind_of(section: type[Section]) -> str:
    """Return the value of the key that chooses a section; an empty text where there is no such key."""
    mark = mark_of(section)
    return str(get_args(section.model_fields[mark].annotation)[0]) if mark else ""


def default_kind(members: Sections) -> str | None:
    """Return the kind of a table that does not set one."""
    for tag, section in members.items():
        mark = mark_of(section)
        if mark and not section.model_fields[mark].is_required():
            return tag
    return None


def paths_of_key(key: str) -> list[str]:
    """Return the shortest dotted paths of the schema that end in this key, among all kinds of tables."""
    paths = dict.fromkeys(path for path in _dotted_keys(Recipe, "") if path.rpartition(".")[2] == key)
    depth = min((path.count(".") for path in paths), default=0)
    return [path for path in paths if path.count(".") == depth]


def constraints_of(source: Any) -> list[Any]:
    """Return the bounds of a field or an annotation, and its description as a plain string."""
    if isinstance(source, FieldInfo):
        return [*source.metadata, *([source.description] if source.description else [])]
    if get_origin(source) is not Annotated:
        return []
    return [part for item in get_args(source)[1:] for part in (constraints_of(item) or [item])]


def must_be(annotation: Any, metadata: Sequence[Any] = (), bounds: Bounds = "usual") -> str:
    """Say in words what a value must be, with these bounds of a whole number.

    usual: the least value, as the greatest is far from what anyone uses; upper: the greatest alone, for a value above
    it; all: both.
    """
    members, options = sections(annotation), _options(annotation)
    if members:
        plain = [must_be(option, bounds=bounds) for option in options if has_plain_form(option)]
        return _joined([*plain, _table_in_words(members)]) if plain else _table_in_words(members)
    if len(options) > 1:
        return _joined([must_be(option, bounds=bounds) for option in options])
    bare = _bare(options[0])
    metadata = [*metadata, *constraints_of(options[0])]
    described = next((item for item in metadata if isinstance(item, str)), None)
    if described:
        return described
    if get_origin(bare) is Literal:
        return _joined([json.dumps(value) for value in get_args(bare)])  # text in quotes, numbers without
    if is_list(bare):
        return f"{must_be(get_args(bare)[0], bounds=bounds)}, or a list of them"
    if get_origin(bare) is dict:
        return f"a table of names, each with {must_be(get_args(bare)[1], bounds=bounds)}"
    if bare is bool:
        return "true or false"
    if bare is int:
        above = [f"of at least {item.gt + 1:,}" for item in metadata if getattr(item, "gt", None) is not None]
        least = [f"of at least {item.ge:,}" for item in metadata if getattr(item, "ge", None) is not None]
        most = [f"of at most {item.le:,}" for item in metadata if getattr(item, "le", None) is not None]
        whole = {"usual": above + least, "upper": most, "all": above + least + most}[bounds]
        return " ".join(["a whole number", *([" and ".join(whole)] if whole else [])])
    if bare is float:
        words = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
        found = [(word, getattr(item, name, None)) for item in metadata for name, word in words.items()]
        given = [f"{word} {bound}" for word, bound in found if bound is not None]
        return " ".join(["a number", *([" and ".join(given)] if given else [])])
    return "a text in quotes"


def _table_in_words(members: Sections) -> str:
    if len(members) == 1 or default_kind(members):
        return "a table"
    required = [
        tuple(key for key, field in section.model_fields.items() if field.is_required()) for section in members.values()
    ]
    least = [keys for keys in dict.fromkeys(required) if not any(set(other) < set(keys) for other in required)]
    return f"a table with {_joined([' and '.join(f'`{key}`' for key in keys) for keys in least])}"


def _joined(words: Sequence[str]) -> str:
    flat = [part for word in words for part in word.split(" or ")]
    return " or ".join([*([", ".join(flat[:-1])] if flat[:-1] else []), flat[-1]])


def _dotted_keys(section: type[Section], prefix: str) -> Iterator[str]:
    for key, field in section.model_fields.items():
        yield prefix + key
        for member in sections(field.annotation).values():
            yield from _dotted_keys(member, f"{prefix}{key}.")


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _bare(annotation: Any) -> Any:
    """Remove Annotated, and the None of an optional value."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    options = _options(annotation)
    return options[0] if len(options) == 1 and options[0] is not annotation else annotation


def _options(annotation: Any) -> list[Any]:
    """Return the members of a union without None; a type that is not a union is its own only member."""
    unwrapped = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if get_origin(unwrapped) in (Union, UnionType):
        return [each for option in get_args(unwrapped) if option is not NoneType for each in _options(option)]
    return [annotation]


def _tag(option: Any) -> str:
    """Return the name that chooses a member: its Tag, or the value of its `kind` or `family`; empty without either."""
    for item in constraints_of(option):
        if isinstance(item, Tag):
            return item.tag
    bare = _bare(option)
    return kind_of(bare) if _is_section(bare) else ""
