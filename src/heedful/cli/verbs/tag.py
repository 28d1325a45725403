"""`heedful tag MODEL [FILE|TEXT...]`: a label for every word."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.base.columns import one_column
from heedful.base.label_schemes import mark_spans
from heedful.cli import messages
from heedful.cli.input import open_inputs
from heedful.cli.options import (
    DeviceOption,
    InputsArgument,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    TextOption,
)
from heedful.cli.output import check_output, line_progress, line_writer

if TYPE_CHECKING:
    from heedful.tasks.tag.model import Tagging


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Write one JSON object per sentence: words, labels, their probabilities, and spans."
        ),
    ] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Label the words of sentences, one sentence per line, words separated by spaces.

    Each line of output is a word and its label, separated by a tab; a blank line follows each sentence. A sentence of
    any length is labelled in full: one that is longer than the model reads is cut between words. A blank line stays
    blank.
    """
    check_output(output)
    entries = open_inputs(inputs, text, "one sentence per line, words separated by spaces")
    with messages.busy(f"loading {model}"):
        from heedful.tasks.tag.model import load_tagger  # after the quick checks: importing torch takes seconds

        tagger = load_tagger(model, device, precision)
    spans = mark_spans(tagger.labels)
    layout = (lambda found: _object(found, spans)) if as_json else _columns
    with line_writer(output) as write, line_progress("tagging", entries, output) as progress:
        for entry in entries:
            for found in tagger.stream(entry.lines(), ready=entry.ready, name=entry.name):
                write(layout(found))
                progress(1)


def _columns(found: "Tagging") -> str:
    """Write each word and its label on a line; the end of the last line is the blank line after the sentence."""
    return "".join(
        f"{one_column(word)}\t{one_column(label)}\n" for word, label in zip(found.words, found.labels, strict=True)
    )


def _object(found: "Tagging", spans: bool) -> str:
    values: dict[str, object] = {
        "words": found.words,
        "labels": found.labels,
        "probabilities": found.probabilities,
        **({"spans": [span._asdict() for span in found.spans()]} if spans else {}),
    }
    return json.dumps(values, ensure_ascii=False)
