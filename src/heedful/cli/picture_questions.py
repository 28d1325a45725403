"""Questions about pictures on the command line: what `heedful answer` does with a model that reads pictures."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heedful.cli import messages
from heedful.cli.input import InputLines, open_inputs, standard_input
from heedful.cli.output import line_progress, line_writer
from heedful.columns import one_column
from heedful.data.corpora.formats.json_rows import json_object, text_field
from heedful.data.pictures.questions.reading import AskedPicture, locate_picture, make_picture_question
from heedful.data.pictures.reading import Picture
from heedful.errors import UserError
from heedful.files import expand_user

if TYPE_CHECKING:
    from heedful.tasks.pictures.answer.answer import PictureAnswer

_JSON_LINES: Final = 'one JSON object per line: {"question": "...", "picture": "..."}'


@dataclass(frozen=True)
class _Entry:
    """Lines of questions about one picture, or lines of JSON objects that name their pictures."""

    lines: InputLines
    picture: Path | None

    def asked(self) -> Iterator[AskedPicture | None]:
        """Yield the question of each line with its picture; None for a blank line."""
        for number, line in enumerate(self.lines.lines(), start=1):
            where = f"{self.lines.name}, line {number:,}"
            if not line.strip():
                yield None
            elif self.picture is None:
                yield _of_object(json_object(line, where), where)
            else:
                yield _asked(self.picture, line, where)


def answer_about_pictures(
    model: str,
    inputs: Sequence[str] | None,
    questions: Sequence[str] | None,
    picture: str | None,
    *,
    n_best: int,
    as_json: bool,
    output: Path | None,
    device: str,
    precision: str,
) -> None:
    """Answer questions and write one line for each."""
    entries = _entries(inputs, questions, picture)
    with messages.busy(f"loading {model}"):
        from heedful.tasks.pictures.answer.model import PictureAnswerer  # after the quick checks: torch takes seconds

        answerer = PictureAnswerer.load(model, device, precision)
    with line_writer(output) as write, line_progress("answering", [entry.lines for entry in entries], output) as ready:
        for entry in entries:
            waiting = list[AskedPicture | None]()
            for found in answerer.stream_asked(_remembered(entry.asked(), waiting), ready=entry.lines.ready):
                asked = waiting.pop(0)
                write("" if asked is None or found is None else _line(asked, found, n_best, as_json))
                ready(1)


def _entries(inputs: Sequence[str] | None, questions: Sequence[str] | None, picture: str | None) -> list[_Entry]:
    if inputs and (questions or picture is not None):
        raise UserError(f"FILE has questions with their pictures ({_JSON_LINES}): leave out --question and --picture.")
    if picture is None:
        if questions:
            raise UserError("This model answers questions about pictures: give the picture by --picture.")
        return [_Entry(lines, None) for lines in open_inputs(inputs, on_each_line=_JSON_LINES)]
    path = expand_user(picture)
    if not path.is_file():
        raise UserError(f"{path}: {'this is a folder, but must be a picture' if path.is_dir() else 'no such file'}.")
    if not questions:
        return [_Entry(standard_input("one question per line"), path)]
    for question in questions:
        make_picture_question(question, where="--question")
    return [_Entry(InputLines("--question", lambda: questions, count=lambda: len(questions)), path)]


def _of_object(row: dict[str, object], where: str) -> AskedPicture:
    question, name = text_field(row, "question", where), text_field(row, "picture", where)
    return _asked(locate_picture(name, "", where), question, where)


def _asked(path: Path, question: str, where: str) -> AskedPicture:
    return AskedPicture(Picture(path, where=str(path)), (make_picture_question(question, where=where),))


def _remembered(
    asked: Iterable[AskedPicture | None], waiting: list[AskedPicture | None]
) -> Iterator[AskedPicture | None]:
    """Yield questions, and keep them until they are answered."""
    for each in asked:
        waiting.append(each)
        yield each


def _line(asked: AskedPicture, found: "PictureAnswer", n_best: int, as_json: bool) -> str:
    if not as_json:
        best = list(found.probabilities.items())[:n_best]
        return "\t".join(f"{one_column(text)}\t{share:.4f}" for text, share in best)
    row = {
        "question": asked.questions[0].question,
        "picture": asked.picture.where,
        "answer": found.text,
        "probability": found.probability,
        "probabilities": found.probabilities,
    }
    return json.dumps(row, ensure_ascii=False)
