"""`heedful answer MODEL --question Q --context FILE`: the span of a text that answers a question.

With a model that reads images, `--image FILE` takes the place of the text.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.cli.answering.asked import Answering
from heedful.cli.answering.inputs import Source
from heedful.cli.input import as_one_text, is_file, of_texts, open_inputs, standard_input
from heedful.cli.options import LONGEST_ANSWER, THRESHOLD, json_option, n_best_option, option, with_option_groups
from heedful.data.corpora.formats.rows import json_object, text_field
from heedful.tasks.answer.answers import answers_of
from heedful.tasks.classify.answers import image_answers_of
from heedful.tasks.shared.answering.answers import Answers

if TYPE_CHECKING:
    pass

MAX_ANSWER: Final = 30  # tokens: see `tasks.answer.answer`, which needs torch
_JSON_LINES = 'one JSON object per line: {"question": "...", "text": "..."}'
_JSON_IMAGES = _JSON_LINES.replace("text", "image")


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
    asked.check_task("answer")
    rules, of_text = asked.recipe.rules, text is not None
    images = rules.images
    if images and of_text:
        raise UserError("--context gives a text, but this model answers questions about images: give --image instead.")
    if images and (max_answer != MAX_ANSWER or threshold):
        raise UserError("--max-answer and --threshold apply to answers in a text, not to images: leave them out.")
    if not images and image is not None:
        raise UserError("--image gives an image, but this model answers questions about texts: give --context instead.")
    others = {"other files": inputs, "--question": question, "--context": of_text, "--image": image}
    data = asked.data_source(rules.inputs, as_json, others, several=n_best > 1)
    if data is not None:
        sources = [data]
    elif images:
        sources = _about_images(asked, inputs, question, image)
    else:
        sources = _about_texts(asked, inputs, question, text)
    with asked.loading(sources) as place:
        from heedful.tasks.loading import load  # after the quick checks: importing torch takes seconds

        model: Any = load(*place, adapter=asked.adapter)
    if images:
        answers: Answers[Any] = image_answers_of(model, n_best)
    else:
        from heedful.tasks.answer.answer import Choice

        answers = answers_of(model, Choice(max_answer, threshold, n_best))
    asked.write("answering", sources, answers, as_json=as_json)


# --- what is asked ----------------------------------------------------------------------------------------------------


def _about_texts(
    asked: Answering, inputs: Sequence[str] | None, questions: Sequence[str] | None, text: str | None
) -> list[Source]:
    """Return what to read: lines of questions about the text, or JSON lines, which have their own."""
    if inputs and (questions or text is not None):
        raise UserError(f"FILE has questions with their texts ({_JSON_LINES}): leave out --question and --context.")
    if not questions and text is None:
        return _json_lines(asked, inputs, "text", _JSON_LINES)
    if text == "-" and not questions:
        raise UserError("--context - reads the text from standard input: give the question by --question.")
    hint = "a text of one word is read from standard input, by --context -"
    (opened,) = open_inputs(None if text is None else [text], hint=hint)
    (about,) = as_one_text(opened).lines()
    if not about.strip():
        name = "--context" if text is not None and not text.strip() else opened.name
        raise UserError(f"{name}: the text is empty: give the text that the question is about.")
    return _lines(asked, questions, {"text": about})


def _about_images(
    asked: Answering, inputs: Sequence[str] | None, questions: Sequence[str] | None, image: str | None
) -> list[Source]:
    """Return what to read: lines of questions about the image, or JSON lines, which name their own."""
    if inputs and (questions or image is not None):
        raise UserError(f"FILE has questions with their images ({_JSON_IMAGES}): leave out --question and --image.")
    if image is None:
        if questions:
            raise UserError("This model answers questions about images: give the image by --image.")
        return _json_lines(asked, inputs, "image", _JSON_IMAGES)
    path = expand_user(image)
    if not path.is_file():
        raise UserError(f"{path}: {'this is a folder, but must be an image' if path.is_dir() else 'no such file'}.")
    return _lines(asked, questions, {"image": path})


def _json_lines(asked: Answering, inputs: Sequence[str] | None, about: str, form: str) -> list[Source]:
    """Return questions of JSON lines, each about its own text or image."""
    way_out = f"give a question by --question, and its {about} by {'--context' if about == 'text' else '--image'}"
    for given in inputs or ():
        if not is_file(given):
            raise UserError(f"`{given}` is not a file: {way_out}.")

    def split(line: str, where: str) -> dict[str, str]:
        if not line.strip():
            return {}
        row = json_object(line, where)
        field = "picture" if about == "image" and "image" not in row and "picture" in row else about  # an earlier name
        key = {"id": str(row["id"])} if "id" in row else {}
        return {**key, "question": text_field(row, "question", where), about: text_field(row, field, where)}

    entries = open_inputs(inputs, None, form, ("jsonl", "squad_rows"), way_out)
    return asked.lines(entries, split, tolerant=about == "image")


def _lines(asked: Answering, questions: Sequence[str] | None, about: Mapping[str, Any]) -> list[Source]:
    """Return questions, of the command line or of standard input, about one text or image."""
    entry = of_texts(questions, "--question") if questions else standard_input("one question per line")
    for question in questions or ():
        _checked(question, "--question")

    def split(line: str, where: str) -> dict[str, Any]:
        return {"question": line, **about} if line.strip() else {}

    return asked.lines([entry], split)


def _checked(question: str, where: str) -> str:
    if not question.strip():
        raise UserError(f"{where}: the question is empty: give one.")
    return question
