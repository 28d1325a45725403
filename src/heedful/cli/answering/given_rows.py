"""The rows of a file given by --data, each with what it holds, so that answers can be written next to it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, assert_never

from heedful.base.errors import UserError, counted
from heedful.config.corpora.containers import (
    AlignedFiles,
    AnyCorpus,
    Builtin,
    Conll,
    Csv,
    Idx,
    ImageFolder,
    Jsonl,
    Npz,
    PlainText,
    Squad,
    Tmx,
    Trees,
    Tsv,
    Xliff,
)
from heedful.data.corpora.formats.json_objects import place_words
from heedful.data.corpora.formats.lines import TextFile, locate, read_lines
from heedful.data.corpora.formats.rows import Row, json_rows
from heedful.tasks.shared.answering.answers import Given

Format = Literal["csv", "tsv", "jsonl", "conll"]


@dataclass(frozen=True)
class GivenRow:
    """A row as it is in its file: cells, a JSON object, or the lines of a sentence."""

    cells: Sequence[Any] = ()
    fields: Mapping[str, Any] | None = None
    lines: Sequence[tuple[str, bool]] = ()  # of a sentence in columns, and whether it has a word

    @property
    def between(self) -> bool:
        """Whether it is lines between sentences."""
        return bool(self.lines) and not any(has_word for _, has_word in self.lines)


@dataclass(frozen=True)
class GivenRows:
    """The rows of a file, and what is known before they are read."""

    name: str
    format: Format  # that their answers are written in, unless another is asked for
    columns: Sequence[str]  # names of the columns, or of all fields
    rows: Callable[[], Iterator[Given]]
    header: bool = True  # whether the columns have names in the file
    separator: str = "\t"
    mark: bool = False  # whether the file begins with a byte order mark, as spreadsheet programs write it


def open_rows(corpus: AnyCorpus, roles: Sequence[str], words: bool) -> GivenRows:
    """Open the rows of a corpus for a model that answers these roles; with `words`, a text may be a list of words."""
    reads = set(roles)
    match corpus:
        case Csv() | Tsv():
            return _table(corpus, roles, words)
        case Jsonl():
            return _json_lines(corpus, roles, words)
        case Conll() if reads == {"text"}:
            return GivenRows(corpus.conll, "conll", ["text"], lambda: _sentences(corpus))
        case Trees() if reads == {"text"}:
            return GivenRows(corpus.trees, "tsv", ["tree"], lambda: _trees(corpus))
        case Tmx() | Xliff() if reads == {"source"}:
            return GivenRows(corpus.files()[0], "tsv", ["source", "target"], lambda: _translations(corpus))
        case Squad() if reads == {"question", "text"}:
            return GivenRows(corpus.squad, "jsonl", ["id", "question", "text"], lambda: _questions(corpus))
        case ImageFolder() | Idx() | Npz() if reads == {"image"}:
            return _images(corpus)
        case PlainText() | AlignedFiles() if len(roles) == 1:
            return _lines(corpus.files()[0], roles[0])
        case (
            Conll()
            | Trees()
            | Squad()
            | ImageFolder()
            | Idx()
            | Npz()
            | PlainText()
            | AlignedFiles()
            | Tmx()
            | Xliff()
            | Builtin()
        ):
            asked = " and ".join(f"`{role}`" for role in roles)
            raise UserError(f"{corpus.title} has {corpus.row_kind.words}, but the model reads {asked}.")
        case _:
            assert_never(corpus)


# --- rows with columns or fields --------------------------------------------------------------------------------------


def _table(corpus: Csv | Tsv, roles: Sequence[str], words: bool) -> GivenRows:
    from heedful.data.corpora.formats.tables import open_table

    table = open_table(corpus)
    file, asked = table.file, [role for role in roles if role in corpus.places]
    indices = dict(zip(asked, table.indices(asked), strict=True))
    rows = table.all_rows()
    first = next(rows, None)
    names = list(table.names) or [str(number) for number in range(1, len(first[1] if first else ()) + 1)]

    def given() -> Iterator[Given]:
        for number, cells in table.all_rows():
            where = f"{file.name}, line {number:,}"
            row, error = GivenRow(cells), None
            if len(cells) > len(names):
                error = UserError(
                    f"{where} has {counted(len(cells), 'column')}, but the first line has {len(names)}: put quotes "
                    "around a text with the separator in it."
                )
            values = dict(enumerate(cells))
            yield _given(Row(file, number, values, indices), row, roles, words, error)

    csv = isinstance(corpus, Csv)
    return GivenRows(
        file.name, "csv" if csv else "tsv", names, given, table.corpus.has_header, table.separator, _marked(file)
    )


def _marked(file: TextFile) -> bool:
    with file.path.open("rb") as opened:
        return opened.read(3) == b"\xef\xbb\xbf"


def _json_lines(corpus: Jsonl, roles: Sequence[str], words: bool) -> GivenRows:
    file, places = locate(corpus.jsonl), corpus.places

    def objects() -> Iterator[tuple[int, dict[str, Any] | None, str]]:
        for number, row in json_rows(file):
            yield number, row, f"{file.name}, {place_words(number)}"

    def given() -> Iterator[Given]:
        for number, row, where in objects():
            if row is None:
                yield Given({}, where, row=GivenRow(), skip=True)
            else:
                yield _given(Row(file, number, row, places, json=True), GivenRow(fields=row), roles, words)

    names = dict.fromkeys(chain.from_iterable(row or () for _, row, _ in objects()))  # rows may differ in their fields
    return GivenRows(file.name, "jsonl", list(names), given)


def _given(row: Row, kept: GivenRow, roles: Sequence[str], words: bool, error: UserError | None = None) -> Given:
    """Return the input of a row; one with a blank text, or without a cell of it, is blank."""
    asked = [role for role in roles if role in row.places]
    missing = all(row.get(role) in (None, "") for role in asked)
    if error is not None or missing or not any(str(value).strip() for value in row.values.values()):
        return Given({}, row.where, row=kept, skip=error is None, error=error)
    try:
        short = next((role for role in asked if not row.json and row.places[role] not in row.values), None)
        if short is not None:
            number = int(row.places[short]) + 1
            raise UserError(f"{row.where} has {counted(len(row.values), 'column')}, but `{short}` is column {number}.")
        values = {role: _value(row, role, words) for role in asked}
    except UserError as refusal:
        return Given({}, row.where, row=kept, error=refusal)
    blank = any(not (" ".join(value) if isinstance(value, list) else str(value)).strip() for value in values.values())
    return Given(values, row.where, row=kept, skip=blank)


def _value(row: Row, role: str, words: bool) -> Any:
    if role == "image":
        name = row.text(role)
        if not name.strip():
            return ""
        from heedful.data.corpora.images import locate_image  # imports NumPy

        return locate_image(name, str(row.file.path.parent), row.where)
    value = row.value(role)
    if value is None:
        return ""
    return row.words(role) if words and isinstance(value, list) else row.text(role)


# --- other containers -------------------------------------------------------------------------------------------------


def _lines(name: str, role: str) -> GivenRows:
    file = locate(name)

    def given() -> Iterator[Given]:
        for number, line in enumerate(read_lines(file), start=1):
            yield Given({role: line}, f"{file.name}, line {number:,}", row=GivenRow([line]), skip=not line.strip())

    return GivenRows(file.name, "tsv", [role], given)


def _sentences(corpus: Conll) -> Iterator[Given]:
    """Yield the sentences of a file with words in columns, each with all its lines and the blank one after it."""
    from heedful.data.corpora.tagged import conll_words

    file, word_of = locate(corpus.conll), conll_words(corpus)
    lines: list[tuple[str, bool]] = []
    words: list[str] = []
    first = 1
    for number, line in enumerate(read_lines(file), start=1):
        ends = not line.strip() or line.startswith("-DOCSTART-")
        word = None if ends else word_of(line, f"{file.name}, line {number:,}", not words)
        lines.append((line, word is not None))
        words += [] if word is None else [word]
        if ends:
            yield _sentence(words, lines, f"{file.name}, line {first:,}")
            lines, words, first = [], [], number + 1
    if lines:
        yield _sentence(words, lines, f"{file.name}, line {first:,}")


def _sentence(words: list[str], lines: list[tuple[str, bool]], where: str) -> Given:
    return Given({"text": words}, where, row=GivenRow([" ".join(words)], lines=lines), skip=not words)


def _translations(corpus: Tmx | Xliff) -> Iterator[Given]:
    from heedful.data.corpora.formats.translations import read_translations

    for number, (source, target) in enumerate(read_translations(corpus), start=1):
        yield Given({"source": source}, f"{corpus.title}, unit {number:,}", row=GivenRow([source, target]))


def _trees(corpus: Trees) -> Iterator[Given]:
    from heedful.data.corpora.trees import read_trees

    for number, tree in enumerate(read_trees(corpus), start=1):
        where, words = f"{corpus.trees}, tree {number:,}", [] if tree is None else list(tree.words)
        yield Given({"text": words}, where, row=GivenRow(["" if tree is None else str(tree)]), skip=not words)


def _questions(corpus: Squad) -> Iterator[Given]:
    from heedful.data.corpora.questions import read_questions

    for question in read_questions(corpus, answered=False):
        values = {"question": question.question, "text": question.text}
        yield Given(values, question.where, row=GivenRow([question.key, question.question, question.text]))


def _images(corpus: ImageFolder | Idx | Npz) -> GivenRows:
    from heedful.data.corpora.images import images_in, unlabelled_images

    if isinstance(corpus, ImageFolder):
        folder = locate(corpus.images).path
        paths = images_in(folder)
        if not paths:
            raise UserError(f"{folder} has no images in it (.png, .jpg or .webp).")
        labelled = all(path.parent != folder for path in paths)

        def of_folder() -> Iterator[Given]:
            for path in paths:
                label = [path.relative_to(folder).parts[0]] if labelled else []
                yield Given({"image": path}, str(path), row=GivenRow([str(path), *label]))

        return GivenRows(str(folder), "tsv", ["image", *(["label"] if labelled else [])], of_folder)

    def of_arrays() -> Iterator[Given]:
        for number, image in enumerate(unlabelled_images(corpus), start=1):
            yield Given({"image": image}, image.where, row=GivenRow([str(number)]))

    return GivenRows(corpus.title, "tsv", ["image"], of_arrays)
