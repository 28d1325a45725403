"""Questions about images on the command line: what `heedful answer` does with a model that reads images."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.cli import messages
from heedful.cli.input import InputLines, open_inputs, standard_input
from heedful.cli.output import line_progress, line_writer
from heedful.data.corpora.formats.json_rows import json_object, text_field
from heedful.data.images.questions.reading import AskedImage, locate_image, make_image_question
from heedful.data.images.reading import LabelledImage

if TYPE_CHECKING:
    from heedful.tasks.images.answer.answer import ImageAnswer

_JSON_LINES: Final = 'one JSON object per line: {"question": "...", "image": "..."}'


@dataclass(frozen=True)
class _Entry:
    """Lines of questions about one image, or lines of JSON objects that name their images."""

    lines: InputLines
    image: Path | None

    def asked(self) -> Iterator[AskedImage | None]:
        """Yield the question of each line with its image; None for a blank line."""
        for number, line in enumerate(self.lines.lines(), start=1):
            where = f"{self.lines.name}, line {number:,}"
            if not line.strip():
                yield None
            elif self.image is None:
                yield _of_object(json_object(line, where), where)
            else:
                yield _asked(self.image, line, where)


def answer_about_images(
    model: str,
    inputs: Sequence[str] | None,
    questions: Sequence[str] | None,
    image: str | None,
    *,
    n_best: int,
    as_json: bool,
    output: Path | None,
    device: str,
    precision: str,
) -> None:
    """Answer questions and write one line for each."""
    entries = _entries(inputs, questions, image)
    with messages.busy(f"loading {model}"):
        from heedful.tasks.images.answer.model import ImageAnswerer  # after the quick checks: torch takes seconds

        answerer = ImageAnswerer.load(model, device, precision)
    with line_writer(output) as write, line_progress("answering", [entry.lines for entry in entries], output) as ready:
        for entry in entries:
            waiting = list[AskedImage | None]()
            for found in answerer.stream_asked(_remembered(entry.asked(), waiting), ready=entry.lines.ready):
                asked = waiting.pop(0)
                write("" if asked is None or found is None else _line(asked, found, n_best, as_json))
                ready(1)


def _entries(inputs: Sequence[str] | None, questions: Sequence[str] | None, image: str | None) -> list[_Entry]:
    if inputs and (questions or image is not None):
        raise UserError(f"FILE has questions with their images ({_JSON_LINES}): leave out --question and --image.")
    if image is None:
        if questions:
            raise UserError("This model answers questions about images: give the image by --image.")
        return [_Entry(lines, None) for lines in open_inputs(inputs, on_each_line=_JSON_LINES)]
    path = expand_user(image)
    if not path.is_file():
        raise UserError(f"{path}: {'this is a folder, but must be an image' if path.is_dir() else 'no such file'}.")
    if not questions:
        return [_Entry(standard_input("one question per line"), path)]
    for question in questions:
        make_image_question(question, where="--question")
    return [_Entry(InputLines("--question", lambda: questions, count=lambda: len(questions)), path)]


def _of_object(row: dict[str, object], where: str) -> AskedImage:
    field = "image" if "image" in row or "picture" not in row else "picture"  # its name in an earlier version
    question, name = text_field(row, "question", where), text_field(row, field, where)
    return _asked(locate_image(name, "", where), question, where)


def _asked(path: Path, question: str, where: str) -> AskedImage:
    return AskedImage(LabelledImage(path, where=str(path)), (make_image_question(question, where=where),))


def _remembered(asked: Iterable[AskedImage | None], waiting: list[AskedImage | None]) -> Iterator[AskedImage | None]:
    """Yield questions, and keep them until they are answered."""
    for each in asked:
        waiting.append(each)
        yield each


def _line(asked: AskedImage, found: "ImageAnswer", n_best: int, as_json: bool) -> str:
    if not as_json:
        best = list(found.probabilities.items())[:n_best]
        return "\t".join(f"{one_column(text)}\t{share:.4f}" for text, share in best)
    row = {
        "question": asked.questions[0].question,
        "image": asked.image.where,
        "answer": found.text,
        "probability": found.probability,
        "probabilities": found.probabilities,
    }
    return json.dumps(row, ensure_ascii=False)
