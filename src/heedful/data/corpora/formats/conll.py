"""Columns of CoNLL files: by number, or by name where the file is CoNLL-U or says its names (CoNLL-U Plus)."""

import re
from collections.abc import Sequence
from typing import Final

from heedful.base.errors import UserError, suggestion
from heedful.base.notes import note
from heedful.config.corpora.containers import Conll
from heedful.data.corpora.formats.lines import TextFile, first_lines, locate

CONLL_U: Final = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_NAMES: Final = re.compile(r"#\s*global\.columns\s*=(?P<names>.*)")  # CoNLL-U Plus
_ID: Final = re.compile(r"\d+([-.]\d+)?")
_ENTITY: Final = re.compile(r"[BIESLU]-\S+")
_DOCUMENT: Final = "-DOCSTART-"


def column_names(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns of a file that begins with these lines; nothing where columns have numbers."""
    for line in lines:
        if said := _NAMES.fullmatch(line.strip()):
            return tuple(name.lower() for name in said["names"].split())
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    by_number = rows and all(len(row) == len(CONLL_U) and _ID.fullmatch(row[0]) for row in rows)
    return CONLL_U if by_number else ()


def settle_conll(corpus: Conll, folder: str = "") -> Conll:
    """Return the corpus with the columns that CoNLL-U has for words and their labels, where the recipe sets neither."""
    left = [key for key in ("word", "label") if key not in corpus.model_fields_set]
    if not left:
        return corpus
    file = locate(corpus.conll, folder)
    lines = first_lines(file)
    names = column_names(lines)
    usual = {"word": "form", "label": "upos"}
    found = {key: usual[key] for key in left if usual[key] in names}
    if "label" in left and names and "label" not in found:
        shown = ", ".join(f"`{name}`" for name in names)
        raise UserError(f'{file.name} has the columns {shown}: name that of the labels, as in `label = "{names[-1]}"`.')
    if found:
        what = {"word": "words", "label": "labels"}
        note(f"{file.name}: " + ", ".join(f"{what[key]} are in the column `{name}`" for key, name in found.items()))
    elif "label" in left and not names:
        _note_entities(file, lines)
    return corpus.model_copy(update=found) if found else corpus


def place_of(column: int | str, names: Sequence[str], file: TextFile, key: str) -> int:
    """Return the number of a column, from 1 on."""
    if isinstance(column, int):
        return column
    if not names:
        raise UserError(
            f"{file.name}: `{key}` is the name `{column}`, but only CoNLL-U has names of columns: give its number."
        )
    if column.lower() not in names:
        raise UserError(f"{file.name} has no column `{column}`.{suggestion(column.lower(), names)}")
    return names.index(column.lower()) + 1


def _note_entities(file: TextFile, lines: Sequence[str]) -> None:
    """Note that labels are not the entities in the last of four columns, as CoNLL-2003 has them."""
    rows = [line.split() for line in lines if line.strip() and not line.startswith(("#", _DOCUMENT))]
    width = len(rows[0]) if rows else 0
    if width < 3 or any(len(row) != width for row in rows):
        return
    last = {row[-1] for row in rows}
    if any(map(_ENTITY.fullmatch, last)) and all(label == "O" or _ENTITY.fullmatch(label) for label in last):
        note(f"{file.name}: labels are in column 2; those of entities are in column {width} (`label = {width}`)")
