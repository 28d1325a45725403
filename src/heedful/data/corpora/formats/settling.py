"""What a recipe leaves open about a table, told from its first lines: the separator, and whether they have a header.

A file that can be read as commas separate it stays a file of commas, and a first line that may be a row stays one: only
clear cases are taken, with a note, and what is in doubt is refused with the keys to set.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from heedful.base.errors import UserError
from heedful.base.notes import note
from heedful.config.corpora.containers import AnyCorpus, Conll, Csv, Jsonl, Tsv
from heedful.data.corpora.formats.column_kinds import (
    SEPARATORS,
    detect_separator,
    is_date,
    is_image_path,
    is_number,
    is_sentence,
    separators,
    split_rows,
)
from heedful.data.corpora.formats.column_names import names_role
from heedful.data.corpora.formats.conll import settle_conll
from heedful.data.corpora.formats.lines import FIRST_LINES, TextFile, first_lines, locate

SEPARATOR_WORDS: Final = {",": "commas", ";": "semicolons", "|": "bars", "\t": "tabs"}
_NAME: Final = (40, 3)  # most characters and words of a column's name
_CELLS_SHOWN: Final = 4
_FEW_LINES: Final = 3  # fewer do not raise a doubt about commas
_FEW_ROWS: Final = 8  # in fewer, a label that occurs once says nothing


class UnclearTableError(UserError):
    """Says what a file does not tell about its table, and the keys that do, of which a recipe sets one."""

    def __init__(self, doubt: str, key: str, values: Sequence[str]) -> None:
        self.doubt, self.key, self.values = doubt, key, values
        super().__init__(f"{doubt}: set {' or '.join(f'`{key} = {value}`' for value in values)}.")


def settle(corpus: AnyCorpus, folder: str = "") -> AnyCorpus:
    """Return the corpus with the keys that its file tells, where the recipe does not set them."""
    match corpus:
        case Tsv() | Csv():
            return settle_table(corpus, folder)
        case Conll():
            return settle_conll(corpus, folder)
        case _:
            return corpus


def settle_table(corpus: Tsv | Csv, folder: str = "") -> Tsv | Csv:
    """Return the corpus of a table with its separator and its header; a note names what the recipe does not set."""
    any_separator = isinstance(corpus, Csv) and "separator" not in corpus.model_fields_set
    any_header = not corpus.has_header and "header" not in corpus.model_fields_set
    if not (any_separator or any_header):
        return corpus
    file = locate(corpus.files()[0], folder)
    lines, found, taken = first_lines(file), dict[str, object](), list[str]()
    separator: str = corpus.separator if isinstance(corpus, Csv) else "\t"
    if any_separator:
        separator = _separator(corpus, file, lines)
        if separator != ",":
            found["separator"] = separator
            taken.append(f"columns separated by {SEPARATOR_WORDS[separator]}")
    if any_header and _has_header(corpus, file, _rows(corpus, lines, separator)):
        found["header"] = True
        taken.append("header taken from line 1")
    if taken:
        note(f"{file.name}: {', '.join(taken)}")
    return corpus.model_copy(update=found) if found else corpus


def without_roles(corpus: Tsv | Csv | Jsonl, roles: Iterable[str], folder: str = "") -> Tsv | Csv | Jsonl:
    """Return the corpus without some of its columns or fields; they help to tell a header, so that is told first."""
    dropped: dict[str, object] = dict.fromkeys(roles)
    if isinstance(corpus, Jsonl):
        return corpus.model_copy(update=dropped)
    settled = settle_table(corpus, folder)
    return settled.model_copy(update={**dropped, "header": settled.has_header})


def separator_advice(file: TextFile, separator: str, corpus: Tsv | Csv) -> str:
    """Return what to set where something else separates the columns of a table; nothing where the recipe is right."""
    likely = detect_separator(first_lines(file))
    if likely is None or likely == separator:
        return ""
    shown = "\\t" if likely == "\t" else likely
    form = f'`csv = "{corpus.tsv}"` and ' if isinstance(corpus, Tsv) else ""
    return f' Its columns seem to be separated by {SEPARATOR_WORDS[likely]}: set {form}`separator = "{shown}"`.'


def _rows(corpus: Tsv | Csv, lines: Sequence[str], separator: str) -> list[list[str]]:
    """Return the rows of the first lines that are not blank; the last of many may be cut inside a quoted cell."""
    rows = split_rows(lines, separator) if isinstance(corpus, Csv) else [line.split("\t") for line in lines]
    if isinstance(corpus, Csv) and len(lines) >= FIRST_LINES:
        rows = rows[:-1]
    return [row for row in rows if any(map(str.strip, row))]


# --- separators -------------------------------------------------------------------------------------------------------


def _separator(corpus: Tsv | Csv, file: TextFile, lines: Sequence[str]) -> str:
    """Return the character between columns: a comma, unless the columns of the recipe need another."""
    commas = _fits(corpus, _rows(corpus, lines, ","))
    by_name = any(isinstance(place, str) for place in corpus.places.values())
    if commas and (by_name or len(lines) < _FEW_LINES):
        return ","  # nothing else is tried: a line may have megabytes, and this is asked whenever a file is opened
    fitting = [each for each in SEPARATORS[:-1] if _fits(corpus, _rows(corpus, lines, each))]
    if commas:
        regular = [each for each, _ in separators(lines)] if fitting else []
        others = [each for each in fitting if each in regular]
        return _in_doubt(file, [",", *others]) if others and "," not in regular else ","
    likely = detect_separator(lines)
    if likely in fitting or len(fitting) == 1:
        return likely if likely in fitting else fitting[0]
    if not fitting:
        return likely or ","  # the message about the columns then names them one by one
    return _in_doubt(file, fitting)


def _fits(corpus: Tsv | Csv, rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows have the columns that the recipe names."""
    places = corpus.places.values()
    names = [place for place in places if isinstance(place, str)]
    last = max((place for place in places if isinstance(place, int)), default=1)
    header = [cell.strip() for cell in rows[0]] if rows else []
    return bool(rows) and all(name in header for name in names) and all(len(row) >= last for row in rows)


def _in_doubt(file: TextFile, several: Sequence[str]) -> str:
    words = " or by ".join(SEPARATOR_WORDS[each] for each in several)
    raise UnclearTableError(
        f"{file.name}: columns are separated by {words}, and its first lines do not tell which",
        "separator",
        ['"{}"'.format("\\t" if each == "\t" else each) for each in several],
    )


# --- headers ----------------------------------------------------------------------------------------------------------


def _has_header(corpus: Tsv | Csv, file: TextFile, rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has the names of columns, which the recipe gives by number."""
    places = {role: place - 1 for role, place in corpus.places.items() if isinstance(place, int)}
    first = [cell.strip() for cell in rows[0]] if rows else []
    named = [cell for cell in first if cell]
    if not named or max(places.values()) >= len(first) or len(set(named)) < len(named):
        return False
    columns = [
        [row[index].strip() for row in rows[1:] if row[index:] and row[index].strip()] for index in range(len(first))
    ]
    if not all(_is_name(first[index], columns[index]) for index in places.values()):
        return False
    if any(name and _differs(name, values) for name, values in zip(first, columns, strict=True)):
        return True
    alone = len(places) == 1  # the words "a good review" in the only column are a text
    known = [names_role(first[index], role, whole=alone) for role, index in places.items()]
    if all(known) and len(rows) > 1:
        return True
    if "label" not in places or not _occurs_once(first[places["label"]], columns[places["label"]]):
        return False
    if any(known):
        return True
    text = places.get("text", places["label"])
    if sum(map(len, columns[text])) <= 3 * len(first[text]) * len(columns[text]):
        return False
    shown = ", ".join(f"`{cell}`" for cell in first[:_CELLS_SHOWN]) + (", ..." if len(first) > _CELLS_SHOWN else "")
    raise UnclearTableError(
        f"{file.name}, line 1 ({shown}) may have the names of columns, or be the first row",
        "header",
        ("true", "false"),
    )


def _is_name(cell: str, values: Sequence[str]) -> bool:
    """Whether a cell looks like the name of its column: short, not a sentence, and not among the values."""
    letters, words = _NAME
    short = bool(cell) and len(cell) <= letters and len(cell.split()) <= words
    return short and not is_sentence(cell) and not is_number(cell) and cell not in values


def _differs(name: str, values: Sequence[str]) -> bool:
    """Whether all values of a column are of a kind, such as numbers, and its first cell is not."""
    return bool(values) and any(
        all(map(holds, values)) and not holds(name) for holds in (is_number, is_date, is_image_path)
    )


def _occurs_once(label: str, labels: Sequence[str]) -> bool:
    """Whether a label occurs nowhere else, and all others do so repeatedly."""
    counts = Counter(labels)
    return len(labels) >= _FEW_ROWS and label not in counts and min(counts.values()) > 1
