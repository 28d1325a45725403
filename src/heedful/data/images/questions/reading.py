"""Questions about images, with their answers, from every kind of corpus that has them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

from heedful.base.errors import UserError
from heedful.config.corpora.any import AnyCorpus
from heedful.config.corpora.image_questions import (
    BuiltinImageQuestions,
    CsvImageQuestions,
    ImageQuestionCorpus,
    JsonlImageQuestions,
    TsvImageQuestions,
)
from heedful.data.builtin.scenes import scenes
from heedful.data.corpora.files import files_of, select_lines
from heedful.data.corpora.formats.json_rows import field_of, json_object, text_field
from heedful.data.corpora.formats.lines import TextFile, locate, read_lines
from heedful.data.corpora.formats.tables import read_columns
from heedful.data.corpora.subsets import choose
from heedful.data.corpora.texts import label_name
from heedful.data.images.reading import LabelledImage


@dataclass(frozen=True)
class ImageQuestion:
    """A question about an image, and its answer and kind where they are known."""

    question: str
    answer: str = ""
    kind: str = ""
    where: str = field(default="", compare=False)  # its place, for messages


@dataclass(frozen=True, eq=False)
class AskedImage:
    """An image and all questions about it, at least one."""

    image: LabelledImage
    questions: tuple[ImageQuestion, ...]


def read_asked_images(corpus: AnyCorpus, folder: str = "") -> Iterator[AskedImage]:
    """Yield the images of a corpus, not decoded yet, in the order of their first questions."""
    if not isinstance(corpus, ImageQuestionCorpus):
        raise TypeError(f"{corpus.title} has no questions about images")
    if isinstance(corpus, BuiltinImageQuestions):
        return select_lines(_scenes(corpus), corpus)
    rows = (row for row in select_lines(_all_rows(corpus, folder), corpus) if row is not None)
    return choose(_grouped(rows), corpus, lambda asked: asked.image.content(), "image")


def make_image_question(question: str, answer: str = "", kind: str = "", where: str = "") -> ImageQuestion:
    """Return a checked question."""
    if not question.strip():
        raise UserError(f"{where}: the question is empty: give one, or remove the row.")
    return ImageQuestion(question, answer.strip(), kind.strip(), where)


def locate_image(name: str, folder: str, where: str) -> Path:
    """Return the file of an image that a row names by a path, relative to a folder."""
    if not name.strip():
        raise UserError(f"{where} has no path of an image: give one, or remove the row.")
    path = locate(name.strip(), folder).path
    if not path.is_file():
        raise UserError(f"{where} names the image {path}, which is not a file.")
    return path


Row = tuple[Path, ImageQuestion]


def _all_rows(corpus: TsvImageQuestions | CsvImageQuestions | JsonlImageQuestions, folder: str) -> Iterator[Row | None]:
    """Yield the file of the image and the question of each row; None for a blank one."""
    (file,) = files_of(corpus, folder)
    match corpus:
        case TsvImageQuestions() | CsvImageQuestions():
            keys = ("image", "question", "answer", *(() if corpus.group is None else ("group",)))
            for number, values in read_columns(corpus, file, keys):
                yield _row(values, file, f"{file.name}, line {number:,}") if values else None
        case JsonlImageQuestions():
            for number, line in enumerate(read_lines(file), start=1):
                yield _jsonl_row(corpus, line, file, f"{file.name}, line {number:,}") if line.strip() else None
        case _:
            assert_never(corpus)


def _jsonl_row(corpus: JsonlImageQuestions, line: str, file: TextFile, where: str) -> Row:
    row = json_object(line, where)
    values = [
        text_field(row, corpus.image, where),
        text_field(row, corpus.question, where),
        label_name(field_of(row, corpus.answer, where), corpus.answer, where),
    ]
    if corpus.group is not None:
        values.append(text_field(row, corpus.group, where))
    return _row(values, file, where)


def _row(values: Sequence[str], file: TextFile, where: str) -> Row:
    image, question, answer, *kind = values
    if not answer.strip():
        raise UserError(f"{where} has no answer: every question needs one.")
    asked = make_image_question(question, answer, kind[0] if kind else "", where)
    return locate_image(image, str(file.path.parent), where), asked


def _grouped(rows: Iterable[Row]) -> Iterator[AskedImage]:
    """Bring all questions about one image together."""
    found: dict[Path, list[ImageQuestion]] = {}
    for path, question in rows:
        found.setdefault(path, []).append(question)
    for path, questions in found.items():
        yield AskedImage(LabelledImage(path, where=str(path)), tuple(questions))


def _scenes(corpus: BuiltinImageQuestions) -> Iterator[AskedImage]:
    """Yield scenes with their questions.

    A question in training whether there is a thing of a held-out pair would always be answered by no, which would teach
    an answer without a look at the image: only "test" has such questions.
    """
    for number, scene in enumerate(scenes(corpus.part, corpus.count), start=1):
        where = f"{corpus.title}, image {number:,}"
        fair = [asked for asked in scene.questions if corpus.part == "test" or not asked.held_out]
        questions = [ImageQuestion(asked.question, asked.answer, asked.kind, where) for asked in fair]
        if questions:
            yield AskedImage(LabelledImage(scene, where=where), tuple(questions[: corpus.questions]))
