"""What a file is, told from its name and its first rows: its container, its encoding, and what its columns hold.

At most a few hundred kilobytes are read, unless more are asked for. Nothing here decides what a recipe does with a
file: `heedful init` proposes it, and messages name it.
"""

import codecs
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Final, Literal, TypeVar

from heedful.base.errors import UserError, counted, machine_faults, user_faults
from heedful.data.corpora.formats.column_kinds import (
    Column,
    describe_columns,
    detect_header,
    detect_separator,
    is_image_path,
    is_number,
    separators,
    spaced,
    split_rows,
)
from heedful.data.corpora.formats.encodings import WINDOWS, Guess, guess_encoding, wide_encoding
from heedful.data.corpora.formats.file_kinds import describe_foreign
from heedful.data.corpora.formats.json_objects import flatten, objects_of_array, objects_of_lines
from heedful.data.corpora.formats.lines import DAMAGE, TextFile, locate, read_start
from heedful.data.zip_files import open_zip

__all__ = ["Column", "Detected", "detect", "detect_header", "detect_separator", "looks_like"]

Table = Literal["csv", "tsv", "jsonl", "json", "squad_rows"]
Words = Literal["squad", "conll", "conllu", "trees", "tmx", "xliff", "text", "empty"]
Images = Literal["image_folder", "folder", "image", "idx", "npz"]
Container = Table | Words | Images
Certainty = Literal["sure", "likely", "in doubt"]
_Row = TypeVar("_Row")

SAMPLE: Final = 1 << 18  # bytes that are read
_ROWS: Final = 2000  # rows whose columns are described, evenly spaced among those that are read
_NAMES_SHOWN: Final = 6
_UNREADABLE: Final[Mapping[str, tuple[str, str]]] = {  # by suffix: what it is, and the way out
    **dict.fromkeys(
        (".arrow", ".feather", ".h5", ".hdf5"),
        ("a binary table", "save it as JSON lines, in pandas with `to_json(FILE, orient='records', lines=True)`"),
    ),
    **dict.fromkeys(
        (".pkl", ".pickle", ".pt", ".joblib"),
        ("a file of Python objects, which could run code", "save its texts as CSV or JSON lines"),
    ),
    **dict.fromkeys((".tar", ".tgz", ".7z", ".rar", ".bz2", ".zst"), ("an archive", "unpack it first")),
}
_CONLL_U: Final = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_HEADING: Final = re.compile(r" ?= [^=\s].* = ?")  # of an article in WikiText
_TREE: Final = re.compile(r"[()]|[^\s()]+")
_TAG: Final = re.compile(r"\(\s*([^\s()]+)\s+[^\s()]+\s*\)")  # of a word
_ARRAY: Final = re.compile(rb"'descr': '(?P<kind>[^']+)'.*?'shape': \((?P<shape>[\d, ]*)\)")


@dataclass(frozen=True)
class Detected:
    """What a file is, as far as its name and its first rows tell."""

    path: str
    container: Container
    words: str  # "a table with the columns `text` and `label`": completes "FILE is ..."
    certainty: Certainty = "sure"
    encoding: str = "UTF-8"
    separator: str | None = None  # of tables
    header: bool | None = None  # whether the first line has the names of columns; None where it is in doubt
    columns: tuple[Column, ...] = ()
    rows: int = 0  # rows, sentences, trees or lines that were read
    more: bool = False  # whether the file has more
    facts: Mapping[str, object] = field(default_factory=dict)  # what else is known, by container

    @property
    def is_table(self) -> bool:
        """Whether it has rows with columns or fields."""
        return self.container in ("csv", "tsv", "jsonl", "json", "squad_rows")


def detect(
    path: str | Path, folder: str = "", *, separator: str | None = None, header: bool | None = None, size: int = SAMPLE
) -> Detected:
    """Return what a file or a folder is; `folder` goes before a relative path. An unreadable file is refused.

    `separator` and `header` are those of a table, where they are known; `size` is how many bytes are read.
    """
    file, name = locate(str(path), folder), str(path)
    if file.path.is_dir():
        return _of_folder(name, file.path)
    suffixes = [suffix.lower() for suffix in Path(file.member or file.path.name).suffixes]
    kind = next((suffix for suffix in reversed(suffixes) if suffix not in (".gz", ".xz", ".zip")), "")
    if kind in _UNREADABLE:
        what, way_out = _UNREADABLE[kind]
        raise UserError(f"{file.name} is {what}, which Heedful does not read: {way_out}.")
    if kind == ".npz":
        return _of_arrays(name, file)
    raw, more = read_start(file, size)
    if is_image_path(file.path.name) or raw.startswith((b"\x89PNG", b"\xff\xd8\xff")):
        return Detected(name, "image", "an image")
    if raw[:3] == b"\0\0\x08" and len(raw) > 3 and 1 <= raw[3] <= 4 and len(raw) >= 4 + 4 * raw[3]:
        shape = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
        what = "images" if len(shape) > 1 else "labels"
        return Detected(name, "idx", f"an idx file of {shape[0]:,} {what}", rows=shape[0], facts={"shape": shape})
    text, encoding = _decode(raw, file)
    return _of_text(name, file, kind, text, encoding, more, (separator, header))


def looks_like(path: str | Path, folder: str = "") -> str | None:
    """Return what a file is in words where it is not plain text: "a table with the columns ..."; otherwise None."""
    with suppress(UserError):
        found = detect(path, folder)
        if found.container not in ("text", "empty"):
            return found.words
    return None


def _decode(raw: bytes, file: TextFile) -> tuple[str, str]:
    """Return the text of the first bytes, cut at most in a character, and its encoding."""
    if foreign := describe_foreign(raw, file.path.name):
        raise UserError(f"{file.name}: {foreign}")
    wide = wide_encoding(raw, file.name)
    if 0 in raw and not wide:
        raise UserError(f"{file.name} is not text: it has bytes that are zero.")
    with suppress(UnicodeDecodeError):
        return codecs.getincrementaldecoder(wide or "utf-8-sig")().decode(raw), wide or "UTF-8"
    guess = guess_encoding(raw.splitlines(keepends=True))
    if guess != Guess(WINDOWS):
        raise UserError(f"{file.name} is not UTF-8. {guess.way_out}")
    return raw.decode(WINDOWS, errors="replace"), WINDOWS


def _of_text(
    name: str, file: TextFile, suffix: str, text: str, encoding: str, more: bool, known: tuple[str | None, bool | None]
) -> Detected:
    """Return what a file of text is: each reader says whether it is of its kind."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if (more or not lines[-1]) and len(lines) > 1:
        lines.pop()  # cut, or empty after the last line break
    start = text.lstrip()[:2000]
    if not start:
        return Detected(name, "empty", "an empty file", encoding=encoding)
    facts = {"encoding": encoding, "more": more}
    if start.startswith("<"):
        for container, mark in (("tmx", "<tmx"), ("xliff", "<xliff")):
            if mark in start:
                return Detected(name, container, f"a translation memory ({container.upper()})", **facts)  # type: ignore[arg-type]
    folder = file.path.parent
    found = None
    if start[0] in "{[":
        found = _json(text, lines, folder)
    if found is None and start[0] == "(":
        found = _trees(text)
    found = found or _conll(lines, suffix) or _table(lines, suffix, folder, *known) or _plain(lines)
    return Detected(name, **{**facts, **found})  # type: ignore[arg-type]


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(text: str, lines: Sequence[str], folder: Path) -> dict[str, object] | None:
    if text.lstrip()[0] == "{" and re.search(r'"paragraphs"\s*:', text) and re.search(r'"qas"\s*:', text):
        version = "2.0" if re.search(r'"is_impossible"\s*:|"v?2\.0"', text) else "1.1"
        words = f"questions about texts in SQuAD's form, version {version}"
        return {"container": "squad", "words": words, "facts": {"version": version}}
    objects = list(objects_of_lines(_spread([line for line in lines if line.strip()]), _ROWS))
    array = not objects
    if array:
        objects = _spread([row for _, row in objects_of_array(text)])
    if not objects:
        return None
    rows = [dict(flatten(each)) for each in objects]
    places = list(dict.fromkeys(key for row in rows for key in row))
    columns = describe_columns(places, [[row.get(place) for place in places] for row in rows], folder)
    nested = any("." in place for place in places)
    found: dict[str, object] = {"container": "json" if array else "jsonl", "columns": columns, "rows": len(rows)}
    if len(rows) == _ROWS:
        found["more"] = True
    if {"question", "context", "answers.text"} <= set(places):
        words = "questions about texts as rows of SQuAD" + (", in one JSON array" if array else "")
        return {**found, "container": "squad_rows", "words": words, "facts": {"array": array}}
    what = "a JSON array of objects" if array else "JSON lines"
    return {**found, "words": f"{what} with the fields {_shown(places)}", "facts": {"nested": nested}}


# --- trees and words --------------------------------------------------------------------------------------------------


def _trees(text: str) -> dict[str, object] | None:
    """Return the facts about bracketed trees; None for a text that begins with a bracket."""
    trees = broken = depth = nested = words = 0
    unlabelled, deep, before, start = False, False, "", 0
    for token in _TREE.finditer(text):
        if token[0] == "(":
            unlabelled |= depth == 1 and before == "(" and nested == 1
            if depth == 0:
                start, nested = token.start(), 0
            depth, nested = depth + 1, nested + 1
        elif token[0] == ")":
            depth -= 1
            if depth < 0:
                return None
            if depth == 0:
                deep |= nested > 1
                trees, broken = trees + 1, broken + ("\n" in text[start : token.end()])
        words = words + 1 if token[0] not in "()" else 0
        if (depth == 0 and words) or words > 2:  # a bracket has a label, or a tag and a word
            return None
        before = token[0]
    if not (trees and deep):
        return None
    lines = "over several lines each" if broken else "one per line"
    tags = {tag for tag in _TAG.findall(text) if tag != "-NONE-"}
    tagged = len(tags) > 1 and not all(map(is_number, tags))  # those of a sentiment treebank are numbers
    facts = {"several_lines": bool(broken), "root": not unlabelled, "traces": "-NONE-" in text, "tagged": tagged}
    found = f"bracketed trees, {lines}, {'without' if unlabelled else 'with'} a label at the root"
    return {"container": "trees", "words": found, "rows": trees, "facts": facts}


def _conll(lines: Sequence[str], suffix: str) -> dict[str, object] | None:
    """Return the facts about words in columns, one word per line; None for anything else."""
    kept = [line for line in lines if not line.startswith("-DOCSTART-") and not re.match(r"# |#\w+ ?=", line)]
    tabs = sum("\t" in line for line in kept) * 2 > sum(bool(line.strip()) for line in kept)
    sentences = [
        [[cell for cell in line.split("\t" if tabs else " ") if cell or tabs] for line in group]
        for filled, group in groupby(kept, key=lambda line: bool(line.strip()))
        if filled
    ]
    rows = [row for sentence in sentences for row in sentence]
    named = suffix in (".conll", ".conllu", ".iob", ".iob2", ".bio", ".conllx", ".conll03")
    if not rows or not (named or (len(sentences) > 1 and len(rows) >= 3 * len(sentences))):
        return None
    width = max(len(row) for row in rows)
    words = [cell for row in rows for cell in row]
    if width < 2 or sum(len(row) == width for row in rows) < 0.95 * len(rows):
        return None
    if sum(" " in cell for cell in words) > 0.1 * len(words) or sum(map(len, words)) > 15 * len(words):
        return None
    if not named and len({row[-1] for row in rows}) > max(2, len(rows) / 2):
        return None
    if tabs and width == len(_CONLL_U) and all(re.match(r"\d+", row[0]) for row in rows):
        rows = [row for row in rows if row[0].isdecimal()]
        return _tagged("conllu", "words in the columns of CoNLL-U", _CONLL_U, rows, 2, len(sentences))
    word = 2 if width > 2 and all(is_number(row[0]) for row in rows) else 1
    found = f"words in columns as CoNLL has them: {counted(width, 'column')}"
    return _tagged("conll", found, range(1, width + 1), rows, word, len(sentences))


def _tagged(
    container: str, found: str, places: Sequence[int | str], rows: Sequence[Sequence[str]], word: int, sentences: int
) -> dict[str, object]:
    columns = list(describe_columns(places, rows, Path()))
    kept = columns[word - 1]
    columns[word - 1] = replace(kept, kind="words", evidence=f"{kept.distinct:,} different words")
    facts = {"word": word, "label": len(columns)}
    return {"container": container, "words": found, "columns": tuple(columns), "rows": sentences, "facts": facts}


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(
    lines: Sequence[str], suffix: str, folder: Path, separator: str | None, header: bool | None
) -> dict[str, object] | None:
    """Return the facts about a table; None for plain text. A name that does not promise a table asks for more."""
    named = suffix in (".csv", ".tsv", ".tab", ".psv") or separator is not None
    ranked = separators(lines) if separator is None else [(separator, 1.0)]
    if not ranked and not named:
        return None
    doubt = len(ranked) > 1 and ranked[0][1] - ranked[1][1] < 0.02
    separator = ranked[0][0] if ranked else ("\t" if suffix in (".tsv", ".tab") else ",")
    plain = [line.split("\t") for line in lines if line.strip()]
    quoted = separator != "\t" or any(cell.startswith('"') and cell.endswith('"') for row in plain for cell in row)
    rows = [row for row in split_rows(lines, separator) if any(map(str.strip, row))] if quoted else plain
    header = detect_header(rows[: _ROWS + 1]) if header is None else header
    count, rows = len(rows), [*rows[: bool(header)], *_spread(rows[bool(header) :])]
    if not named and separator != "\t":  # sentences with equally many commas are not a table
        sentences = spaced(rows) > 0.5 and header is not True
        if doubt or ranked[0][1] < 0.98 or sentences or not (header or _typed(rows)):
            return None
    first = [cell.strip() for cell in rows[0]] if rows else []
    names: list[int | str] = [*first] if header else [*range(1, len(first) + 1)]
    often = Counter(names)
    places = [name if name and often[name] == 1 else number for number, name in enumerate(names, start=1)]
    columns = describe_columns(places, rows[1 if header else 0 :], folder)
    certainty: Certainty = "in doubt" if doubt or header is None else "sure" if named and ranked else "likely"
    return {
        "container": "csv" if quoted else "tsv",
        "words": f"a table with the columns {_shown(first)}"
        if header
        else f"a table of {counted(len(first), 'column')}",
        "certainty": certainty,
        "separator": separator,
        "header": header,
        "columns": columns,
        "rows": len(rows) - bool(header),
        **({"more": True} if count - bool(header) > _ROWS else {}),
        "facts": {"separators": [each for each, _ in ranked] if doubt else [separator], "first": first},
    }


def _typed(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a column of a table without names holds numbers, labels or names of images, as one of a text does not."""
    places = range(1, len(rows[0]) + 1)
    kinds = {column.kind for column in describe_columns(places, rows, Path()) if column.kind != "empty"}
    return len(rows) >= 3 and not kinds <= {"text"}


# --- plain text -------------------------------------------------------------------------------------------------------


def _plain(lines: Sequence[str]) -> dict[str, object]:
    """Return the facts about running text: how many lines are blank, and whether there are headings."""
    filled = [line for line in lines if line.strip()]
    headings = sum(_HEADING.fullmatch(line) is not None for line in filled)
    blank = len(lines) - len(filled)
    what = (
        "articles with headings"
        if headings
        else "running text"
        if blank
        else "plain text, one sentence or more per line"
    )
    labels = sum(line.startswith("__label__") for line in filled)
    facts = {
        "headings": headings,
        "paragraphs": sum(filled for filled, _ in groupby(bool(line.strip()) for line in lines)),
        "blank": blank / max(1, len(lines)),
        "letters": sum(map(len, filled)) / max(1, len(filled)),
        "fasttext": labels > 0.9 * len(filled),
    }
    return {"container": "text", "words": what, "certainty": "likely", "rows": len(lines), "facts": facts}


# --- images and folders -----------------------------------------------------------------------------------------------


def _of_folder(name: str, folder: Path) -> Detected:
    """Return what a folder holds: one folder of images per class, images, or other files."""
    with machine_faults(folder), user_faults(folder):
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        inner = {path.name: _images_in(path) for path in entries if path.is_dir()}
    classes = {label: count for label, count in inner.items() if count}
    files = [path.name for path in entries if path.is_file() and not is_image_path(path.name)]
    loose = sum(is_image_path(path.name) for path in entries)
    facts: dict[str, object] = {"classes": classes, "images": loose, "files": files, "folders": list(inner)}
    if classes and not loose:
        words = f"{counted(len(classes), 'folder')} of images: {_shown(list(classes))}"
        return Detected(name, "image_folder", words, rows=sum(classes.values()), facts=facts)
    what = f"a folder with {counted(loose, 'image')}" if loose else f"a folder with {counted(len(files), 'file')}"
    return Detected(name, "folder", what, rows=loose, facts=facts)


def _images_in(folder: Path) -> int:
    return sum(is_image_path(path.name) for path in folder.rglob("*"))


def _of_arrays(name: str, file: TextFile) -> Detected:
    """Return the arrays of a file of NumPy, with their shapes and types."""
    arrays: dict[str, tuple[str, tuple[int, ...]]] = {}
    with machine_faults(file.path), user_faults(file.path):
        try:
            with open_zip(file.path) as archive:
                for member in archive.namelist():
                    with archive.open(member) as opened:
                        found = _ARRAY.search(opened.read(1000))
                    if found:
                        shape = tuple(int(axis) for axis in found["shape"].decode().split(",") if axis.strip())
                        arrays[member.removesuffix(".npy")] = found["kind"].decode(), shape
        except DAMAGE as error:
            raise UserError(
                f"{file.name} is not a file of NumPy's arrays (.npz): save it with `numpy.savez`."
            ) from error
    rows = max((shape[0] for _, shape in arrays.values() if shape), default=0)
    words = f"arrays of NumPy: {_shown(list(arrays))}"
    return Detected(name, "npz", words, rows=rows, facts={"arrays": arrays})


def _spread(rows: list[_Row]) -> list[_Row]:
    """Return as many rows as are described, evenly spaced and the first included: a file may be sorted."""
    return rows if len(rows) <= _ROWS else [rows[index * len(rows) // _ROWS] for index in range(_ROWS)]


def _shown(names: Sequence[object]) -> str:
    listed = [f"`{name}`" for name in names[:_NAMES_SHOWN]]
    return ", ".join(listed) + (", ..." if len(names) > _NAMES_SHOWN else "")
