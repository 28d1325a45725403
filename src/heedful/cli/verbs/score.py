"""`heedful score MODEL [FILE|TEXT...]`: log probabilities of given translations, or of given texts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from heedful.base.errors import UserError
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
from heedful.config.corpora.containers import AlignedFiles
from heedful.data.corpora.files import check_files
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.data.corpora.pairs import read_pairs

if TYPE_CHECKING:
    from heedful.tasks.generate.model import TextGenerator
    from heedful.tasks.shared.sequences.token_scores import TokenScores
    from heedful.tasks.translate.model import Translator

_EACH_LINE: Final = "one text per line, or a source and its translation, separated by a tab"
_EACH_CANDIDATE: Final = "a source and a candidate, separated by a tab, on each line"


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
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Translators: order n-best lists anew, and write the best of each.")
    ] = False,
    whole_lists: Annotated[
        bool, typer.Option("--all", help="With --rerank: write whole lists, best first, with their scores.")
    ] = False,
    weight: Annotated[
        float, typer.Option("--weight", help="With --rerank: weight of the lists' own scores, added to the model's.")
    ] = 0.0,
    length_penalty: Annotated[
        float | None,
        typer.Option("--length-penalty", min=0, help="With --rerank: alpha of the length penalty (default: recipe's)."),
    ] = None,
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

    With --rerank, each line is a candidate of another system: `source TAB text TAB score`, lines of one source
    together, or with --source in the form of Moses, `id ||| text ||| features ||| score`, the id counting the lines of
    --source from 0. Scores may be missing. Candidates are ordered by log P / length penalty + weight * score.
    """
    if as_json and tokens:
        raise UserError("--json has the tokens in every object: leave out --tokens.")
    check_output(output)
    _check_rerank(
        rerank,
        {"--all": whole_lists, "--weight": weight, "--length-penalty": length_penalty is not None},
        {"--target": target, "--tokens": tokens, "--stride": stride, "--whole": whole},
    )
    if as_json and whole_lists:
        raise UserError("--json has the whole list in every object: leave out --all.")
    if rerank:
        lists = open_inputs(inputs, text, _EACH_CANDIDATE)
        with messages.busy(f"loading {model}"):
            translator = _translator(model, device, precision, others)
        written = 0
        with line_writer(output) as write:
            for line in _reranked(
                translator, lists, source, (whole_lists, as_json), weight=weight, length_penalty=length_penalty, to=to
            ):
                write(line)
                written += 1
            if not written:
                names = ", ".join(entry.name for entry in lists)
                raise UserError(f"{names}: no candidate, but --rerank needs at least one line.")
        return
    corpus = _corpus(source, target, inputs, text)
    entries = [] if corpus else open_inputs(inputs, text, _EACH_LINE)
    entries = [as_one_text(entry) for entry in entries] if whole else entries
    with messages.busy(f"loading {model}"):
        from heedful.models.bundle import read_description  # after the quick checks: importing torch takes seconds
        from heedful.tasks.generate.model import TextGenerator
        from heedful.tasks.translate.model import Translator

        language = read_description(Path(model))[0].rules.scored == "texts"
        of_pairs = {"--source": source, "--target": target, "--with": others, "--to": to}
        _refuse_idle(of_pairs if language else {"--stride": stride, "--whole": whole}, language, model)
        scores = (
            _of_texts(TextGenerator.load(model, device, precision), entries, stride)
            if language
            else _of_pairs(Translator.load(model, device, precision, others or ()), corpus, entries, to)
        )
    with line_writer(output) as write:
        for scored in scores:
            write(_object(scored) if as_json else _columns(scored, tokens))


def _check_rerank(rerank: bool, only: Mapping[str, object], never: Mapping[str, object]) -> None:
    """Refuse options that need --rerank, or that it does not take."""
    idle = next((option for option, value in (never if rerank else only).items() if value), None)
    if idle is not None and rerank:
        raise UserError(f"{idle} is not for --rerank, which reads lists of candidates: leave it out.")
    if idle is not None:
        raise UserError(f"{idle} is for --rerank: leave it out.")


def _translator(model: str, device: str, precision: str, others: list[str] | None) -> "Translator":
    from heedful.models.bundle import read_description
    from heedful.tasks.translate.model import Translator

    _refuse_idle({"--rerank": read_description(Path(model))[0].rules.scored == "texts"}, True, model)
    return Translator.load(model, device, precision, others or ())


def _reranked(
    translator: "Translator",
    lists: Sequence[InputLines],
    source: str | None,
    form: tuple[bool, bool],
    to: str | None,
    **options: Any,
) -> Iterator[str]:
    """Yield the lines to write: of each list the best candidate, all of them, or one object."""
    from heedful.cli.nbest_lists import read_nbest_lists
    from heedful.tasks.translate.scoring import rerank

    sources = None if source is None else list(read_lines(replace(locate(source), hint="")))
    whole, as_json = form
    for entry in lists:
        read = read_nbest_lists(entry.lines(), entry.name, sources, source or "")
        score = partial(translator.score_stream, to=to, ready=entry.ready, name=entry.name)
        for listed, ranked in rerank(score, translator.recipe.decode, read, **options):
            if as_json:
                yield json.dumps({"source": listed.source, "candidates": list(map(asdict, ranked))}, ensure_ascii=False)
            elif whole:
                yield from map(listed.line, ranked)
            else:
                yield ranked[0].text


def _of_texts(generator: "TextGenerator", entries: Sequence[InputLines], stride: int | None) -> "Iterator[TokenScores]":
    for entry in entries:
        yield from generator.score_stream(entry.lines(), stride=stride, ready=entry.ready, name=entry.name)


def _of_pairs(
    translator: "Translator", corpus: AlignedFiles | None, entries: Sequence[InputLines], to: str | None
) -> "Iterator[TokenScores]":
    if corpus is not None:
        yield from translator.score_stream(read_pairs(corpus), to, name=corpus.title)
    for entry in entries:
        pairs = pairs_of(entry.lines(), entry.name)
        yield from translator.score_stream(pairs, to, ready=entry.ready, name=entry.name)


def _corpus(
    source: str | None, target: str | None, inputs: list[str] | None, texts: list[str] | None
) -> AlignedFiles | None:
    """Return the corpus of --source and --target, if they are given."""
    if source is None and target is None:
        return None
    if inputs or texts:
        raise UserError("--source and --target are the pairs to score: leave out the other files and texts.")
    if source is None or target is None:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: a translation is scored together with its source.")
    corpus = AlignedFiles(source=source, target=target)
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
