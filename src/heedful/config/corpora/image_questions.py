"""Corpora of questions about images, and their answers: tables of paths, and a generator."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heedful.config.corpora.corpus import Column, GeneratedCorpus, Separator
from heedful.config.corpora.images import ImagesCorpus


class ImageQuestionsCorpus(ImagesCorpus):
    """Keys of every corpus of questions about images in files. All questions about an image stay together."""

    @model_validator(mode="after")
    def _each_has_its_column(self) -> Self:
        keys = ("image", "question", "answer", "group")
        said = [(key, value) for key in keys if (value := getattr(self, key, None)) is not None]
        for number, (key, value) in enumerate(said):
            for other, same in said[:number]:
                if value == same:
                    raise ValueError(f"`{other}` and `{key}` are both {value!r}, but must be different")
        return self


class TsvImageQuestions(ImageQuestionsCorpus):
    """Paths of images, questions about them and answers in columns of a tab-separated file.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "TsvPictureQuestions"
    file_keys = ("tsv",)

    tsv: str
    """File of tab-separated columns."""
    image: Column
    """Column of the paths, relative to the folder of the file, by number or name."""
    question: Column
    """Column of the questions, by number or name."""
    answer: Column
    """Column of the answers, by number or name."""
    group: Column | None = None
    """Column of the kinds of questions, by number or name: evaluation scores each kind by itself."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""


class CsvImageQuestions(ImageQuestionsCorpus):
    """Paths of images, questions about them and answers in columns of a CSV file.

    Columns are given by their numbers from 1 on, or by their names in the first line.
    """

    frozen_kind = "CsvPictureQuestions"
    file_keys = ("csv",)

    csv: str
    """File of columns separated by commas."""
    image: Column
    """Column of the paths, relative to the folder of the file, by number or name."""
    question: Column
    """Column of the questions, by number or name."""
    answer: Column
    """Column of the answers, by number or name."""
    group: Column | None = None
    """Column of the kinds of questions, by number or name: evaluation scores each kind by itself."""
    header: bool = False
    """Whether the first line has the names of columns; it always has where a column is given by name."""
    separator: Separator = ","
    """Character between columns."""


class JsonlImageQuestions(ImageQuestionsCorpus):
    """Paths of images, questions about them and answers in fields of one JSON object per line."""

    frozen_kind = "JsonlPictureQuestions"
    file_keys = ("jsonl",)

    jsonl: str
    """File with one JSON object per line."""
    image: str
    """Field of the paths, relative to the folder of the file."""
    question: str = "question"
    """Field of the questions."""
    answer: str = "answer"
    """Field of the answers."""
    group: str | None = None
    """Field of the kinds of questions: evaluation scores each kind by itself."""


class BuiltinImageQuestions(GeneratedCorpus):
    """Questions about images of scenes from a generator that ships with Heedful; `count` is the number of images.

    They ask for a colour, a shape, a size, a number, a neighbour, or whether something is there, or left of or above
    something else.
    """

    frozen_kind = "BuiltinPictureQuestions"

    builtin: Literal["scenes"]
    questions: Annotated[int, Field(ge=1, le=4)]
    """Maximum number of questions about an image."""


ImageQuestionCorpus = TsvImageQuestions | CsvImageQuestions | JsonlImageQuestions | BuiltinImageQuestions
