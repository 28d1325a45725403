"""`heedful score MODEL [FILE|TEXT...]`: log probabilities of given translations."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.cli import messages
from heedful.cli.input import open_inputs, pairs_of
from heedful.cli.options import (
    DeviceOption,
    InputsArgument,
    ModelArgument,
    OutputOption,
    PrecisionOption,
    TextOption,
    ToOption,
    WithOption,
)
from heedful.cli.output import check_output, line_writer
from heedful.config.corpora import TextCorpus
from heedful.data.corpora.files import check_files
from heedful.data.corpora.pairs import read_pairs
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.tasks.translate.scoring import PairScore

Pairs = Iterable[tuple[str, str]]
Input = tuple[Pairs, Callable[[], bool], str]  # pairs, whether the next one has arrived, and their name in messages


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    source: Annotated[str | None, typer.Option("--source", metavar="FILE", help="Source sentences.")] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="FILE", help="Their translations.")] = None,
    others: WithOption = None,
    to: ToOption = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Add every token with its log probability.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object per line, tokens included.")] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Score given translations by forced decoding, to filter corpora or to rescore n-best lists.

    Writes one line per pair: the log probability of the translation, and its mean per token (`</s>` counts). A pair is
    a line of --source and of --target, or one line of a file, a text or standard input with a tab between the two.
    """
    if as_json and tokens:
        raise UserError("--json has the tokens in every object: leave out --tokens.")
    check_output(output)
    entries = list(_pairs(source, target, inputs, text))
    with messages.busy(f"loading {model}"):
        from heedful.tasks.translate.model import load  # after the quick checks: importing torch takes seconds

        translator = load(model, device, precision, others or ())
    with line_writer(output) as write:
        for pairs, ready, name in entries:
            for scored in translator.score_stream(pairs, to, ready=ready, name=name):
                write(_object(scored) if as_json else _columns(scored, tokens))


def _pairs(
    source: str | None, target: str | None, inputs: list[str] | None, texts: list[str] | None
) -> Iterator[Input]:
    """Open the pairs of two files, or of inputs with two columns."""
    if source is None and target is None:
        for entry in open_inputs(inputs, texts, "a source and its translation per line, separated by a tab"):
            yield pairs_of(entry.lines(), entry.name), entry.ready, entry.name
        return
    if inputs or texts:
        raise UserError("--source and --target are the pairs to score: leave out the other files and texts.")
    if source is None or target is None:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: a translation is scored together with its source.")
    corpus = TextCorpus(source=source, target=target)
    check_files(corpus)
    yield read_pairs(corpus), lambda: True, corpus.title


def _columns(scored: "PairScore", tokens: bool) -> str:
    columns = [f"{scored.log_probability:.4f}", f"{scored.per_piece:.4f}"]
    if tokens:
        pairs = zip(scored.pieces, scored.log_probabilities, strict=True)
        columns.append(" ".join(f"{piece} {log_p:.4f}" for piece, log_p in pairs))
    return "\t".join(columns)


def _object(scored: "PairScore") -> str:
    shown = {
        "log_probability": scored.log_probability,
        "per_piece": scored.per_piece,
        "pieces": scored.pieces,
        "log_probabilities": scored.log_probabilities,
    }
    return json.dumps(shown, ensure_ascii=False)
