"""`heedful answer MODEL --question Q --context FILE`: the span of a text that answers a question.

With a model that reads images, `--image FILE` takes the place of the text.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.cli.answering import Answering
from heedful.cli.input import InputLines, as_one_text, family_of, of_texts, open_inputs, standard_input
from heedful.cli.options import LONGEST_ANSWER, THRESHOLD, json_option, n_best_option, option, with_option_groups
from heedful.cli.output import Line
from heedful.data.corpora.formats.rows import json_object, text_field
from heedful.data.corpora.images import AskedImage, LabelledImage, locate_image, make_image_question
from heedful.data.corpora.questions import Question, make_question

if TYPE_CHECKING:
    from heedful.tasks.answer.answer import Answer
    from heedful.tasks.answer.model import Reader
    from heedful.tasks.classify.classification import ImageAnswer

MAX_ANSWER: Final = 30  # tokens: see `tasks.answer.answer`, which needs torch
_JSON_LINES = 'one JSON object per line: {"question": "...", "text": "..."}'
_JSON_IMAGES = _JSON_LINES.replace("text", "image")

Asked = tuple[list[InputLines], Callable[[str, str], Any]]  # inputs, and what reads the question of a line and where


@with_option_groups
def command(
    asked: Answering,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help=f"Files of questions and their texts, or images, {_JSON_LINES}; `-`: standard input.",
        ),
    ] = None,
    question: Annotated[
        list[str] | None,
        option("A question, about --context or --image; repeatable.", "--question", "-Q", metavar="QUESTION"),
    ] = None,
    text: Annotated[
        str | None,
        option("What to answer from: a file, or the text itself; `-`: stdin.", "--context", "-c", metavar="FILE|TEXT"),
    ] = None,
    image: Annotated[str | None, option("The image, for a model that reads images.", "--image", metavar="FILE")] = None,
    n_best: Annotated[int, n_best_option("the most likely answers, on one line")] = 1,
    max_answer: Annotated[int, LONGEST_ANSWER] = MAX_ANSWER,
    threshold: Annotated[float, THRESHOLD] = 0.0,
    as_json: Annotated[
        bool,
        json_option(
            "one object per line, with answer, position, probability and spans; of an image's answer, all probabilities"
        ),
    ] = False,
) -> None:
    """Answer questions about a text with spans of the text, copied exactly, or questions about an image.

    Each line of output is an answer and its probability, separated by a tab; the answer is empty if the model decides
    that the text has none. With --context alone, questions are read from standard input, one per line; with --question
    alone, the text is. With neither, each line is a JSON object with a question and its text. A blank line stays blank.

    A model that reads images needs --image instead of --context, and answers with one of the answers that it was
    trained with.
    """
    family = family_of(asked.model)
    answer: Callable[..., Iterator[Any]]
    line_of: Callable[[Any, Any], Line]
    if family == "image_answerer":
        if text is not None:
            raise UserError(
                "--context gives a text, but this model answers questions about images: give --image instead."
            )
        if max_answer != MAX_ANSWER or threshold:
            raise UserError("--max-answer and --threshold apply to answers in a text, not to images: leave them out.")
        entries, read = _about_images(inputs, question, image)
        with asked.loading() as place:
            from heedful.tasks.classify.image_models import ImageAnswerer  # after the quick checks: torch takes seconds

            answer = ImageAnswerer.load(*place).stream_asked
        line_of = partial(_image_line, n_best=n_best, as_json=as_json)
    else:
        if image is not None and family == "reader":
            raise UserError(
                "--image gives an image, but this model answers questions about texts: give --context instead."
            )
        if inputs and (question or text is not None):
            raise UserError(f"FILE has questions with their texts ({_JSON_LINES}): leave out --question and --context.")
        if family != "reader":  # which loading refuses, before anything is read from standard input
            _load(asked)
        entries, read = _about_texts(inputs, question, text)
        reader = _load(asked)
        from heedful.tasks.answer.answer import Choice

        answer = partial(reader.stream_questions, choice=Choice(max_answer, threshold, n_best))
        line_of = partial(_line, as_json=as_json)

    def stream(lines: Iterable[str], *, ready: Callable[[], bool], name: str) -> Iterator[Line]:
        waiting = deque[Any]()  # questions whose answers are yet to come; None for a blank line

        def questions() -> Iterator[Any]:
            for number, line in enumerate(lines, start=1):
                waiting.append(read(line, f"{name}, line {number:,}") if line.strip() else None)
                yield waiting[-1]

        for found in answer(questions(), ready=ready):
            one = waiting.popleft()
            yield "" if one is None or found is None else line_of(one, found)

    asked.write("answering", entries, stream, lambda line: line)


def _load(asked: Answering) -> "Reader":
    with asked.loading() as place:
        from heedful.tasks.answer.model import Reader  # after the quick checks: importing torch takes seconds

        return Reader.load(*place)


def _about_texts(inputs: Sequence[str] | None, questions: Sequence[str] | None, text: str | None) -> Asked:
    """Return what to read: lines of questions about the text, or JSON lines, which have their own."""
    if not questions and text is None:

        def read(line: str, where: str) -> Question:
            row = json_object(line, where)
            asked, text_of_row = text_field(row, "question", where), text_field(row, "text", where)
            return make_question(asked, text_of_row, where=where, key=str(row.get("id", "")))

        return open_inputs(inputs, on_each_line=_JSON_LINES), read
    if text == "-" and not questions:
        raise UserError("--context - reads the text from standard input: give the question by --question.")
    (opened,) = open_inputs(None if text is None else [text])
    (about,) = as_one_text(opened).lines()
    if not about.strip():
        raise UserError(f"{opened.name}: the text is empty: give the text that the question is about.")
    return _lines(questions, lambda line, where: make_question(line, about, where=where))


def _about_images(inputs: Sequence[str] | None, questions: Sequence[str] | None, image: str | None) -> Asked:
    """Return what to read: lines of questions about the image, or JSON lines, which name their own."""
    if inputs and (questions or image is not None):
        raise UserError(f"FILE has questions with their images ({_JSON_IMAGES}): leave out --question and --image.")

    def asked(path: Path, line: str, where: str) -> AskedImage:
        return AskedImage(LabelledImage(path, where=str(path)), (make_image_question(line, where=where),))

    def read(line: str, where: str) -> AskedImage:
        row = json_object(line, where)
        field = "image" if "image" in row or "picture" not in row else "picture"  # its name in an earlier version
        line, name = text_field(row, "question", where), text_field(row, field, where)
        return asked(locate_image(name, "", where), line, where)

    if image is None:
        if questions:
            raise UserError("This model answers questions about images: give the image by --image.")
        return open_inputs(inputs, on_each_line=_JSON_IMAGES), read
    path = expand_user(image)
    if not path.is_file():
        raise UserError(f"{path}: {'this is a folder, but must be an image' if path.is_dir() else 'no such file'}.")
    return _lines(questions, partial(asked, path))


def _lines(questions: Sequence[str] | None, read: Callable[[str, str], Any]) -> Asked:
    """Return questions, of the command line or of standard input, about one text or image."""
    if not questions:
        return [standard_input("one question per line")], read
    for asked in questions:
        read(asked, "--question")
    return [of_texts(questions, "--question")], read


def _line(question: Question, found: "Answer", as_json: bool) -> Line:
    if as_json:
        return {
            **({"id": question.key} if question.key else {}),
            "question": question.question,
            "answer": found.text,
            "start": found.start,
            "end": found.end,
            "probability": found.probability,
            **({} if found.no_answer is None else {"no_answer": found.no_answer}),
            "spans": [asdict(span) for span in found.spans],
        }
    shown = [found] if len(found.spans) < 2 or not found.text else found.spans
    return "\t".join(f"{one_column(one.text)}\t{one.probability:.4f}" for one in shown)


def _image_line(asked: AskedImage, found: "ImageAnswer", n_best: int, as_json: bool) -> Line:
    if as_json:
        return {
            "question": asked.questions[0].question,
            "image": asked.image.where,
            "answer": found.text,
            "probability": found.probability,
            "probabilities": found.probabilities,
        }
    best = list(found.probabilities.items())[:n_best]
    return "\t".join(f"{one_column(text)}\t{share:.4f}" for text, share in best)
