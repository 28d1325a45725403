"""`heedful answer MODEL --question Q --text FILE`: the span of a text that answers a question.

With a model that reads images, `--image FILE` takes the place of the text.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from heedful.base.columns import one_column
from heedful.base.errors import UserError
from heedful.cli import messages
from heedful.cli.image_questions import answer_about_images
from heedful.cli.images import family_of
from heedful.cli.input import InputLines, as_one_text, open_inputs, standard_input
from heedful.cli.options import DeviceOption, ModelArgument, OutputOption, PrecisionOption
from heedful.cli.output import check_output, line_progress, line_writer
from heedful.config.corpora.questions import JsonlQuestions
from heedful.data.corpora.formats.json_rows import json_object
from heedful.data.corpora.questions.question import Question, make_question
from heedful.data.corpora.questions.reading import question_of_row

if TYPE_CHECKING:
    from heedful.tasks.answer.answer import Answer
    from heedful.tasks.answer.model import Reader

MAX_ANSWER: Final = 30  # tokens: see `tasks.answer.answer`, which needs torch
_FIELDS = JsonlQuestions(jsonl="", question="question")
_JSON_LINES = 'one JSON object per line: {"question": "...", "text": "..."}'


def command(
    model: ModelArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help=f"Files of questions and their texts, or images, {_JSON_LINES}; `-`: standard input.",
        ),
    ] = None,
    question: Annotated[
        list[str] | None,
        typer.Option("--question", "-Q", metavar="QUESTION", help="A question about --text or --image; repeatable."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", "-t", metavar="FILE|TEXT", help="The text: a file, or the text itself; `-`: stdin."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option("--image", "-p", metavar="FILE", help="The image, for a model that reads images."),
    ] = None,
    n_best: Annotated[int, typer.Option("--n-best", metavar="K", min=1, help="Write the K most likely answers.")] = 1,
    max_answer: Annotated[
        int, typer.Option("--max-answer", metavar="N", min=1, help="Maximum tokens of an answer.")
    ] = MAX_ANSWER,
    threshold: Annotated[
        float,
        typer.Option(
            "--threshold",
            help="Give no answer where log P(no answer) is greater than the best answer's by more than this.",
        ),
    ] = 0.0,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Write one JSON object per line: answer, position, probability and spans; of an image's answer, all "
            "probabilities.",
        ),
    ] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Answer questions about a text with spans of the text, copied exactly, or questions about an image.

    Each line of output is an answer and its probability, separated by a tab; the answer is empty if the model decides
    that the text has none. With --text alone, questions are read from standard input, one per line; with --question
    alone, the text is. With neither, each line is a JSON object with a question and its text. A blank line stays blank.

    A model that reads images needs --image instead of --text, and answers with one of the answers that it was
    trained with.
    """
    family = family_of(model)
    if family == "image_answerer":
        _refuse_options_of_texts(text, max_answer, threshold)
        check_output(output)
        answer_about_images(
            model,
            inputs,
            question,
            image,
            n_best=n_best,
            as_json=as_json,
            output=output,
            device=device,
            precision=precision,
        )
        return
    if image is not None and family == "reader":
        raise UserError("--image gives an image, but this model answers questions about texts: give --text instead.")
    if inputs and (question or text is not None):
        raise UserError(f"FILE has questions with their texts ({_JSON_LINES}): leave out --question and --text.")
    check_output(output)
    if family != "reader":  # which loading refuses, before anything is read from standard input
        _load(model, device, precision)
    entries = _entries(inputs, question, text)
    reader = _load(model, device, precision)
    from heedful.tasks.answer.answer import Choice

    choice = Choice(max_answer, threshold, n_best)
    with line_writer(output) as write, line_progress("answering", [entry for entry, _ in entries], output) as progress:
        for entry, about in entries:
            asked = list[Question | None]()
            for found in reader.stream_questions(
                _remembered(_questions(entry, about), asked), choice, ready=entry.ready
            ):
                one = asked.pop(0)
                write("" if one is None or found is None else _line(one, found, as_json))
                progress(1)


def _load(model: str, device: str, precision: str) -> "Reader":
    with messages.busy(f"loading {model}"):
        from heedful.tasks.answer.model import Reader  # after the quick checks: importing torch takes seconds

        return Reader.load(model, device, precision)


def _refuse_options_of_texts(text: str | None, max_answer: int, threshold: float) -> None:
    if text is not None:
        raise UserError("--text gives a text, but this model answers questions about images: give --image instead.")
    if max_answer != MAX_ANSWER or threshold:
        raise UserError("--max-answer and --threshold apply to answers in a text, not to images: leave them out.")


def _entries(
    inputs: Sequence[str] | None, questions: Sequence[str] | None, text: str | None
) -> list[tuple[InputLines, str | None]]:
    """Return what to read: lines of questions with the text they are about, or JSON lines, which have their own."""
    if not questions and text is None:
        return [(entry, None) for entry in open_inputs(inputs, on_each_line=_JSON_LINES)]
    if text == "-" and not questions:
        raise UserError("--text - reads the text from standard input: give the question by --question.")
    (opened,) = open_inputs(None if text is None else [text])
    (about,) = as_one_text(opened).lines()
    if not about.strip():
        raise UserError(f"{opened.name}: the text is empty: give the text that the question is about.")
    if not questions:
        return [(standard_input("one question per line"), about)]
    for asked in questions:
        make_question(asked, about, where="--question")
    return [(InputLines("--question", lambda: questions, count=lambda: len(questions)), about)]


def _questions(entry: InputLines, about: str | None) -> Iterator[Question | None]:
    for number, line in enumerate(entry.lines(), start=1):
        where = f"{entry.name}, line {number:,}"
        if not line.strip():
            yield None
        elif about is None:
            yield question_of_row(json_object(line, where), _FIELDS, where, answered=False)
        else:
            yield make_question(line, about, where=where)


def _remembered(questions: Iterable[Question | None], asked: list[Question | None]) -> Iterator[Question | None]:
    """Yield questions, and keep them until they are answered."""
    for question in questions:
        asked.append(question)
        yield question


def _line(question: Question, found: "Answer", as_json: bool) -> str:
    if not as_json:
        if len(found.spans) < 2 or not found.text:
            return f"{one_column(found.text)}\t{found.probability:.4f}"
        return "\t".join(f"{one_column(span.text)}\t{span.probability:.4f}" for span in found.spans)
    none = {} if found.no_answer is None else {"no_answer": found.no_answer}
    row = {
        **({"id": question.key} if question.key else {}),
        "question": question.question,
        "answer": found.text,
        "start": found.start,
        "end": found.end,
        "probability": found.probability,
        **none,
        "spans": [asdict(span) for span in found.spans],
    }
    return json.dumps(row, ensure_ascii=False)
