"""Questions about pictures, with their answers, from every kind of corpus that has them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.picture_questions import (
    BuiltinPictureQuestions,
    CsvPictureQuestions,
    JsonlPictureQuestions,
    PictureQuestionCorpus,
    TsvPictureQuestions,
)
from heedful.data.builtin.scenes import scenes
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.json_rows import field_of, json_object, text_field
from heedful.data.corpora.formats.lines import TextFile, locate, read_lines
from heedful.data.corpora.formats.tables import read_columns
from heedful.data.corpora.subsets import choose
from heedful.data.corpora.texts import label_name
from heedful.data.pictures.reading import Picture
from heedful.errors import UserError


@dataclass(frozen=True)
class PictureQuestion:
    """A question about a picture, and its answer and kind where they are known."""

    question: str
    answer: str = ""
    kind: str = ""
    where: str = field(default="", compare=False)  # its place, for messages


@dataclass(frozen=True, eq=False)
class AskedPicture:
    """A picture and all questions about it, at least one."""

    picture: Picture
    questions: tuple[PictureQuestion, ...]


def read_asked_pictures(corpus: AnyCorpus, folder: str = "") -> Iterator[AskedPicture]:
    """Yield the pictures of a corpus, not decoded yet, in the order of their first questions."""
    if not isinstance(corpus, PictureQuestionCorpus):
        raise TypeError(f"{corpus.title} has no questions about pictures")
    if isinstance(corpus, BuiltinPictureQuestions):
        return select_lines(_scenes(corpus), corpus)
    rows = (row for row in select_lines(_all_rows(corpus, folder), corpus) if row is not None)
    return choose(_grouped(rows), corpus, lambda asked: asked.picture.content(), "picture")


def make_picture_question(question: str, answer: str = "", kind: str = "", where: str = "") -> PictureQuestion:
    """Return a checked question."""
    if not question.strip():
        raise UserError(f"{where}: the question is empty: give one, or remove the row.")
    return PictureQuestion(question, answer.strip(), kind.strip(), where)


def locate_picture(name: str, folder: str, where: str) -> Path:
    """Return the file of a picture that a row names by a path, relative to a folder."""
    if not name.strip():
        raise UserError(f"{where} has no path of a picture: give one, or remove the row.")
    path = locate(name.strip(), folder).path
    if not path.is_file():
        raise UserError(f"{where} names the picture {path}, which is not a file.")
    return path


Row = tuple[Path, PictureQuestion]


def _all_rows(
    corpus: TsvPictureQuestions | CsvPictureQuestions | JsonlPictureQuestions, folder: str
) -> Iterator[Row | None]:
    """Yield the file of the picture and the question of each row; None for a blank one."""
    (file,) = files_of(corpus, folder)
    match corpus:
        case TsvPictureQuestions() | CsvPictureQuestions():
            keys = ("picture", "question", "answer", *(() if corpus.group is None else ("group",)))
            for number, values in read_columns(corpus, file, keys):
                yield _row(values, file, f"{file.name}, line {number:,}") if values else None
        case JsonlPictureQuestions():
            for number, line in enumerate(read_lines(file), start=1):
                yield _jsonl_row(corpus, line, file, f"{file.name}, line {number:,}") if line.strip() else None
        case _:
            assert_never(corpus)


def _jsonl_row(corpus: JsonlPictureQuestions, line: str, file: TextFile, where: str) -> Row:
    row = json_object(line, where)
    values = [
        text_field(row, corpus.picture, where),
        text_field(row, corpus.question, where),
        label_name(field_of(row, corpus.answer, where), corpus.answer, where),
    ]
    if corpus.group is not None:
        values.append(text_field(row, corpus.group, where))
    return _row(values, file, where)


def _row(values: Sequence[str], file: TextFile, where: str) -> Row:
    picture, question, answer, *kind = values
    if not answer.strip():
        raise UserError(f"{where} has no answer: every question needs one.")
    asked = make_picture_question(question, answer, kind[0] if kind else "", where)
    return locate_picture(picture, str(file.path.parent), where), asked


def _grouped(rows: Iterable[Row]) -> Iterator[AskedPicture]:
    """Bring all questions about one picture together."""
    found: dict[Path, list[PictureQuestion]] = {}
    for path, question in rows:
        found.setdefault(path, []).append(question)
    for path, questions in found.items():
        yield AskedPicture(Picture(path, where=str(path)), tuple(questions))


def _scenes(corpus: BuiltinPictureQuestions) -> Iterator[AskedPicture]:
    """Yield scenes with their questions.

    A question in training whether there is a thing of a held-out pair would always be answered by no, which would teach
    an answer without a look at the picture: only "test" has such questions.
    """
    for number, scene in enumerate(scenes(corpus.part, corpus.count), start=1):
        where = f"{corpus.title}, picture {number:,}"
        fair = [asked for asked in scene.questions if corpus.part == "test" or not asked.held_out]
        questions = [PictureQuestion(asked.question, asked.answer, asked.kind, where) for asked in fair]
        if questions:
            yield AskedPicture(Picture(scene, where=where), tuple(questions[: corpus.questions]))
