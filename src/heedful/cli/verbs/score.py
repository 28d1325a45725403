"""`heedful score MODEL`: how probable given translations are."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.cli.options import DeviceOption, ModelArgument, PrecisionOption, ToOption, WithOption
from heedful.errors import UserError

if TYPE_CHECKING:
    from heedful.tasks.translate.scoring import PairScore


def command(
    model: ModelArgument,
    source: Annotated[str | None, typer.Option("--source", metavar="FILE", help="The sources.")] = None,
    target: Annotated[str | None, typer.Option("--target", metavar="FILE", help="Their translations.")] = None,
    others: WithOption = None,
    to: ToOption = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Also every piece with its log probability.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="An object a line, pieces included.")] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Score given translations by forced decoding, for filtering corpora and rescoring n-best lists.

    A line a pair: log P of the translation, and its mean per piece (`</s>` counts). Without files, pairs are read from
    standard input, source and translation separated by a tab.
    """
    if as_json and tokens:
        raise UserError("--json has the pieces in every object: leave out --tokens.")
    pairs, name = _pairs(source, target)
    from heedful.tasks.translate.model import load  # after the quick checks: it takes seconds

    translator = load(model, device, precision, others or ())
    for scored in translator.score_stream(pairs, to, name=name):
        sys.stdout.write((_object(scored) if as_json else _columns(scored, tokens)) + "\n")


def _pairs(source: str | None, target: str | None) -> tuple[Iterable[tuple[str, str]], str]:
    """The pairs of two files or of standard input, and what to call them."""
    from heedful.config.corpora import TextCorpus
    from heedful.data.corpora.files import check_files, corpus_name
    from heedful.data.corpora.lines import decode_lines
    from heedful.data.corpora.pairs import read_pairs

    if source is None and target is None:
        name = "standard input"
        return _columns_of(decode_lines(sys.stdin.buffer, name), name), name
    if source is None or target is None:
        missing = "--source" if source is None else "--target"
        raise UserError(f"{missing} is missing: a translation is scored beside its source.")
    corpus = TextCorpus(source=source, target=target)
    check_files(corpus)
    return read_pairs(corpus), corpus_name(corpus)


def _columns_of(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        columns = line.split("\t")
        if len(columns) == 1:
            raise UserError(f"{name}, line {number:,} has no tab between a source and its translation.")
        if len(columns) > 2:
            raise UserError(
                f"{name}, line {number:,} has {len(columns)} columns, but a source and its translation are two."
            )
        yield columns[0], columns[1]


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
