"""What the names of files say: training, validation or test; languages; and which files belong together."""

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import PurePath
from typing import Final, Literal

from heedful.data.corpora.formats.column_names import NAMES

Split = Literal["train", "valid", "test"]
_SPLITS: Final[Mapping[str, Split]] = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev", "devel", "development", "newsdev"), "valid"),
    **dict.fromkeys(("test", "testing", "tst", "eval", "evaluation", "heldout", "newstest", "flores"), "test"),
}  # fmt: skip
_SIDES: Final = (NAMES["source"] | {"src", "x"}, NAMES["target"] | {"tgt", "trg", "y"})
_PACKED: Final = (".gz", ".xz", ".zip")
_SUFFIXES: Final = frozenset(("txt", "csv", "tsv", "tab", "json", "jsonl", "ndjson", "conll", "conllu", "trees", "mrg"))
_SUFFIXES_OF_OTHERS: Final = frozenset(("tmx", "xlf", "xliff", "npz", "tokens", "tok", "ubyte", "text", "raw"))


def parts_of(path: str) -> list[str]:
    """Return the parts of a file's name, in lower case: of "News20.en-ru.ru.gz", news, 20, en, ru, ru."""
    return [part for word in _words_of(path) for part in _parts(word)]


def _words_of(path: str) -> list[str]:
    name = PurePath(path.rpartition(":")[2] if ".zip:" in path.lower() else path).name
    for suffix in _PACKED:
        name = name[: -len(suffix)] if name.lower().endswith(suffix) else name
    return [word for word in re.split(r"[\W_]+", name.casefold()) if word]


def _parts(word: str) -> list[str]:
    """Return the letters and the digits of a word."""
    return re.split(r"(?<=\D)(?=\d)|(?<=\d)(?=\D)", word)


def split_of(path: str) -> Split | None:
    """Return the split that a file's name, or else that of its folder, says; None where neither says one."""
    if PurePath(path).name.startswith("t10k"):  # MNIST calls its test set by its size
        return "test"
    for part in (*parts_of(path), PurePath(path).parent.name.casefold()):
        if part in _SPLITS:
            return _SPLITS[part]
    return None


def stem_of(path: str) -> str:
    """Return a name for what a file holds: without split, language, side and suffix; it may be empty."""
    ignored = {*_SPLITS, *_SUFFIXES, *_SUFFIXES_OF_OTHERS}
    words = ([part for part in _parts(word) if part not in ignored and not _is_side(part)] for word in _words_of(path))
    return "-".join("".join(word) for word in words if word)


def _is_side(part: str) -> bool:
    return part in NAMES["language"] or any(part in side for side in _SIDES)


def sides_of(first: str, second: str) -> tuple[str, str] | None:
    """Return the parts in which the names of two files differ, where they differ in one part: ("en", "de")."""
    one, other = parts_of(first), parts_of(second)
    if len(one) != len(other):
        return None
    different = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    return different[0] if len(different) == 1 else None


def are_sides(first: str, second: str) -> bool:
    """Whether two parts of names are two languages, or a source and a target."""
    if first in _SPLITS or second in _SPLITS:
        return False
    languages = all(re.fullmatch(r"[a-z]{2,3}", part) or part in NAMES["language"] for part in (first, second))
    return languages or any(first in one and second in other for one, other in (_SIDES, _SIDES[::-1]))


def are_known(first: str, second: str) -> bool:
    """Whether two parts of names are sides for certain: languages that are known, or a source and a target."""
    return are_sides(first, second) and _is_side(first) and _is_side(second)


def in_order(first: str, second: str) -> tuple[str, str]:
    """Return the names of two sides with the source first: as `src` and `tgt`, or a pair such as en-ru, say it."""
    one, other = sides_of(first, second) or ("", "")
    parts = parts_of(first)
    pair = [(one, other) == found for found in pairwise(parts)]
    reverse = [(other, one) == found for found in pairwise(parts)]
    swapped = (one in _SIDES[1] and other in _SIDES[0]) or (any(reverse) and not any(pair))
    return (second, first) if swapped else (first, second)
