"""`heedful classify MODEL [FILES...]`: one line out for every line in."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.cli.input import FilesArgument, InputLines, count_lines, input_lines
from heedful.cli.options import DeviceOption, ModelArgument, PrecisionOption, one_column
from heedful.cli.output import progress_bar
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.data.corpora.texts import Text
    from heedful.tasks.classify.model import Classification


def command(
    model: ModelArgument,
    files: FilesArgument = None,
    every_class: Annotated[
        bool, typer.Option("--all", help="Every class with its probability, the likeliest first.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="An object a line: label and all probabilities.")] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Classify files or standard input, line by line, in order.

    A line is a label and its probability, with a tab between. A model of
    several labels says `a,b` and `0.98,0.71`, or two empty columns for none.
    A model of pairs reads two texts a line, with a tab between. A blank line
    stays blank.
    """
    if as_json and every_class:
        raise UserError("--json has every class in every object: leave out --all.")
    inputs = input_lines(files)
    from heedful.tasks.classify.model import load_classifier  # after the quick checks: it takes seconds

    classifier = load_classifier(model, device, precision)
    layout = _layout(every_class, as_json, classifier.several)
    with progress_bar("classifying", *_expected(inputs)) as progress:
        for entry in inputs:
            texts = _texts(entry.lines(), classifier.paired, entry.name)
            for found in classifier.stream_texts(texts, ready=entry.ready):
                sys.stdout.buffer.write(f"{layout(found)}\n".encode())
                sys.stdout.buffer.flush()
                progress(1)


def _expected(inputs: Sequence[InputLines]) -> tuple[int, bool]:
    """How many lines there are, and whether to show progress: where it is known and results go elsewhere."""
    lines = count_lines(inputs) if sys.stderr.isatty() and not sys.stdout.isatty() else None
    return lines or 0, lines is not None


def _texts(lines: Iterable[str], paired: bool, name: str) -> "Iterator[Text]":
    from heedful.cli.text_lines import text_of

    return (text_of(line, paired, f"{name}, line {number:,}") for number, line in enumerate(lines, start=1))


def _layout(every_class: bool, as_json: bool, several: bool) -> "Callable[[Classification], str]":
    """The function that lays out what was found: columns between tabs, or an object."""
    if as_json:
        return lambda found: _object(found, several)
    return _all_columns if every_class else _columns


def _columns(found: "Classification") -> str:
    """The labels and their probabilities; nothing where the text was blank."""
    if not found.probabilities:
        return ""
    shares = [f"{found.probabilities[label]:.4f}" for label in found.labels]
    return f"{','.join(map(one_column, found.labels))}\t{','.join(shares)}"


def _all_columns(found: "Classification") -> str:
    """Every class and its probability, the likeliest first; equals as the model has them."""
    likeliest = sorted(found.probabilities.items(), key=lambda share: -share[1])
    return "\t".join(f"{one_column(label)}\t{share:.4f}" for label, share in likeliest)


def _object(found: "Classification", several: bool) -> str:
    said: dict[str, object] = {"labels": found.labels} if several else {"label": found.label or None}
    return json.dumps({**said, "probabilities": found.probabilities}, ensure_ascii=False)
