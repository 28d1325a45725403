"""`heedful score MODEL [FILE|TEXT...]`: log probabilities of given translations, or of given texts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from heedful.cli import messages
from heedful.cli.input import InputLines, as_one_text, open_inputs, pairs_of
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
from heedful.config.corpora.pairs import TextCorpus
from heedful.data.corpora.files import check_files
from heedful.data.corpora.pairs import read_pairs
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.tasks.generate.model import TextGenerator
    from heedful.tasks.shared.token_scores import TokenScores
    from heedful.tasks.translate.model import Translator

_EACH_LINE: Final = "one text per line, or a source and its translation, separated by a tab"


def command(
    model: ModelArgument,
    inputs: InputsArgument = None,
    text: TextOption = None,
    source: Annotated[str | None, typer.Option("--source", metavar="FILE", help="Source sentences.")] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="FILE", help="Their translations.")] = None,
    others: WithOption = None,
    to: ToOption = None,
    stride: Annotated[
        int | None,
        typer.Option(
            "--stride", metavar="N", help="Tokens by which the window of a language model moves (default: its length)."
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Language models: take each file as one text, not as one per line.")
    ] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="Add every token with its log probability.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object per line, tokens included.")] = False,
    output: OutputOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Score given translations, or given texts with a language model, to filter corpora or to rescore n-best lists.

    Writes one line per pair or text: its log probability, and the mean per token (`</s>` counts). A text is a line of a
    file, an argument or a line of standard input. A pair is such a line with a tab between source and translation, or a
    line of --source with the same line of --target.
    """
    if as_json and tokens:
        raise UserError("--json has the tokens in every object: leave out --tokens.")
    check_output(output)
    corpus = _corpus(source, target, inputs, text)
    entries = [] if corpus else open_inputs(inputs, text, _EACH_LINE)
    entries = [as_one_text(entry) for entry in entries] if whole else entries
    with messages.busy(f"loading {model}"):
        from heedful.models.bundle import read_description  # after the quick checks: importing torch takes seconds
        from heedful.tasks.generate.model import TextGenerator
        from heedful.tasks.translate.model import load

        language = read_description(Path(model))[0].rules.scored == "texts"
        of_pairs = {"--source": source, "--target": target, "--with": others, "--to": to}
        _refuse_idle(of_pairs if language else {"--stride": stride, "--whole": whole}, language, model)
        scores = (
            _of_texts(TextGenerator.load(model, device, precision), entries, stride)
            if language
            else _of_pairs(load(model, device, precision, others or ()), corpus, entries, to)
        )
    with line_writer(output) as write:
        for scored in scores:
            write(_object(scored) if as_json else _columns(scored, tokens))


def _of_texts(generator: "TextGenerator", entries: Sequence[InputLines], stride: int | None) -> "Iterator[TokenScores]":
    for entry in entries:
        yield from generator.score_stream(entry.lines(), stride=stride, ready=entry.ready, name=entry.name)


def _of_pairs(
    translator: "Translator", corpus: TextCorpus | None, entries: Sequence[InputLines], to: str | None
) -> "Iterator[TokenScores]":
    if corpus is not None:
        yield from translator.score_stream(read_pairs(corpus), to, name=corpus.title)
    for entry in entries:
        pairs = pairs_of(entry.lines(), entry.name)
        yield from translator.score_stream(pairs, to, ready=entry.ready, name=entry.name)


def _corpus(
    source: str | None, target: str | None, inputs: list[str] | None, texts: list[str] | None
) -> TextCorpus | None:
    """Return the corpus of --source and --target, if they are given."""
    if source is None and target is None:
        return None
    if inputs or texts:
        raise UserError("--source and --target are the pairs to score: leave out the other files and texts.")
    if source is None or target is None:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: a translation is scored together with its source.")
    corpus = TextCorpus(source=source, target=target)
    check_files(corpus)
    return corpus


def _refuse_idle(options: Mapping[str, object], language: bool, model: str) -> None:
    idle = next((option for option, value in options.items() if value), None)
    if idle is not None:
        users = "translators" if language else "language models"
        raise UserError(f"{idle} is for {users}, which {model} is not: leave it out.")


def _columns(scored: "TokenScores", tokens: bool) -> str:
    columns = [f"{scored.log_probability:.4f}", f"{scored.per_piece:.4f}"]
    if tokens:
        pairs = zip(scored.pieces, scored.log_probabilities, strict=True)
        columns.append(" ".join(f"{piece} {log_p:.4f}" for piece, log_p in pairs))
    return "\t".join(columns)


def _object(scored: "TokenScores") -> str:
    shown = {
        "log_probability": scored.log_probability,
        "per_piece": scored.per_piece,
        "pieces": scored.pieces,
        "log_probabilities": scored.log_probabilities,
    }
    return json.dumps(shown, ensure_ascii=False)
