"""Places on the machine that trained a model: absolute paths of its recipe, kept apart from what is published.

    RUN/config.json     the recipe with the last name of each absolute path, and an empty `data.folder`
    RUN/.places    the paths themselves, by their keys: this machine evaluates and resumes with them

Who publishes a model copies its bundle, of which `.places` is no part. Without it the recipe is still whole: its
files are looked up from the current folder, like all relative ones.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from heedful.base.errors import UserError, machine_faults
from heedful.base.files import read_json, write_json
from heedful.config.recipe import Recipe

PLACES: Final = ".places"
_FOLDER: Final = "data.folder"
_ZIP_MEMBER: Final = re.compile(r"(?i)(.*\.zip)(:.+)")

Key = tuple[str | int, ...]


def is_place(path: str) -> bool:
    """Whether a path says where on a machine something is: an absolute one, or one in a user's home folder (~ann)."""
    return path.startswith("/") or bool(PureWindowsPath(path).drive) or bool(re.match(r"~[^/\\]", path))


def without_place(path: str) -> str:
    """Return the last name of a path that is a place, and any other path as it is."""
    if not is_place(path):
        return path
    archive = _ZIP_MEMBER.fullmatch(path)
    path, member = (archive[1], archive[2]) if archive else (path, "")
    kind = PureWindowsPath if PureWindowsPath(path).drive else PurePosixPath
    return kind(path).name + member


def take_places(recipe: Recipe, content: dict[str, Any]) -> dict[str, str]:
    """Replace places in the JSON values of a recipe by their last names; return what they were, by key."""
    found = {}
    for key, path in paths_of(recipe):
        if is_place(path):
            name = ".".join(map(str, key))
            found[name] = path
            _holder(content, key)[key[-1]] = _short(name, path)
    return found


def write_places(folder: Path, places: Mapping[str, str]) -> None:
    """Write the places of a model; where it has none, there is no file."""
    if places:
        write_json(folder / PLACES, dict(places))
    else:
        with machine_faults(folder / PLACES):
            (folder / PLACES).unlink(missing_ok=True)


def put_places_back(folder: Path, content: dict[str, Any]) -> None:
    """Put the places of a model back into the JSON values of its recipe, as far as they are those of this recipe."""
    try:
        places = read_json(folder / PLACES) if (folder / PLACES).exists() else {}
    except UserError:  # damaged: relative paths are what a published model has, too
        return
    for name, path in places.items() if isinstance(places, dict) else ():
        key = tuple(int(part) if part.isdecimal() else part for part in name.split("."))
        holder = _holder(content, key)
        try:
            if isinstance(path, str) and holder[key[-1]] == _short(name, path):
                holder[key[-1]] = path
        except (KeyError, IndexError, TypeError):
            continue


def _short(name: str, path: str) -> str:
    return "" if name == _FOLDER else without_place(path)


def paths_of(recipe: Recipe) -> Iterator[tuple[Key, str]]:
    """Yield all paths of a recipe with their keys."""
    yield ("data", "folder"), recipe.data.folder
    for split in ("train", "valid", "test"):
        for number, corpus in enumerate(getattr(recipe.data, split)):
            for name in (*corpus.file_keys, *corpus.folder_keys):
                value = getattr(corpus, name)
                if isinstance(value, str):
                    yield ("data", split, number, name), value
                else:
                    yield from ((("data", split, number, name, place), path) for place, path in enumerate(value or ()))
    yield ("train", "start_from"), recipe.train.start_from
    if recipe.train.distill is not None:
        yield ("train", "distill", "teacher"), recipe.train.distill.teacher


def _holder(content: Any, key: Key) -> Any:
    """Return the object or list that has the last part of a key; None where there is none."""
    for part in key[:-1]:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return None
    return content
