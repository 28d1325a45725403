"""`heedful translate MODEL [FILES...]`: one line out for every line in."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.cli.input import FilesArgument, InputLines, count_lines, input_lines
from heedful.cli.options import (
    BatchTokensOption,
    BeamOption,
    CoverageOption,
    DeviceOption,
    LengthPenaltyKindOption,
    LengthPenaltyOption,
    LengthShiftOption,
    MaxExtraOption,
    MinLengthOption,
    ModelArgument,
    NoRepeatOption,
    PrecisionOption,
    RawOption,
    ToOption,
    WithOption,
    one_column,
    one_line,
    refuse_idle_length_shift,
    sentence_progress,
)
from heedful.errors import UserError
from heedful.files import write_bytes

if TYPE_CHECKING:
    from heedful.tasks.translate.model import Translation


def command(
    model: ModelArgument,
    files: FilesArgument = None,
    others: WithOption = None,
    to: ToOption = None,
    raw: RawOption = False,
    beam: BeamOption = None,
    length_penalty: LengthPenaltyOption = None,
    length_penalty_kind: LengthPenaltyKindOption = None,
    length_shift: LengthShiftOption = None,
    coverage: CoverageOption = None,
    no_repeat: NoRepeatOption = None,
    min_length: MinLengthOption = None,
    max_extra: MaxExtraOption = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="TEXT", help="What every translation begins with.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw translations at random; --n-best is how many of each line.")
    ] = False,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Of sampling: below 1 keeps to likely pieces, above 1 strays.")
    ] = 1.0,
    top_k: Annotated[int, typer.Option("--top-k", help="Draw among the so many likeliest pieces; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option("--top-p", help="Draw among the likeliest with this share of it all.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Of sampling: the same seed draws the same.")] = 0,
    n_best: Annotated[
        int | None, typer.Option("--n-best", min=1, help="So many translations of each line: number, score, text.")
    ] = None,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Also which source words the words attended to: 0-0 1-2 ...")
    ] = False,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score and a tab before each line.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="An object a line: text, score, token ids and more.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Written whole when all is translated.")
    ] = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Translate files or standard input, line by line, in order; a blank line stays blank.

    Results are written as they come. Lines that arrive one by one, as typed, are translated one by one.
    """
    inputs = input_lines(files)
    if output and output.is_dir():
        raise UserError(f"{output}: this is a folder, but must be a file.")
    _refuse_idle_options(sample, temperature=temperature != 1, top_k=top_k != 0, top_p=top_p != 1, seed=seed != 0)
    if sample and beam is not None and beam > 1:
        raise UserError("--sample has no beam: leave out --beam; --n-best is how many are drawn.")
    if as_json and scores:
        raise UserError("--json has the score in every object: leave out --scores.")
    from heedful.decode.frontiers.sampling import Sampling
    from heedful.tasks.translate.model import load  # after the quick checks: it takes seconds

    sampling = Sampling(temperature, top_k, top_p, n_best or 1, seed) if sample else None
    translator = load(model, device, precision, others or ())
    decode = translator.recipe.decode
    refuse_idle_length_shift(length_shift, length_penalty_kind or decode.length_penalty_kind)
    if not sample:
        _refuse_too_many(n_best, beam or decode.beam)
    layout = _layout(n_best, scores, as_json, alignments)
    total, cut = 0, 0
    with _writer(output) as write, sentence_progress(*_expected(inputs, output)) as progress:
        for entry in inputs:
            for translations in translator.stream_detailed(
                entry.lines(),
                nbest=1 if sample else n_best or 1,
                ready=entry.ready,
                name=entry.name,
                progress=progress,
                to=to,
                raw=raw,
                beam=beam,
                prefix=prefix,
                sampling=sampling,
                aligned=alignments,
                length_penalty=length_penalty,
                length_penalty_kind=length_penalty_kind,
                length_shift=length_shift,
                coverage=coverage,
                no_repeat=no_repeat,
                min_length=min_length,
                max_extra=max_extra,
                batch_tokens=batch_tokens,
            ):
                total += 1
                cut += not translations[0].complete
                write(layout(total, translations))
    if cut:
        told = (
            f"{cut:,} of {total:,} translations were cut at the maximum length: raise --max-extra to see more of them."
        )
        print(f"heedful: {told}", file=sys.stderr)


def _expected(inputs: Sequence[InputLines], output: Path | None) -> tuple[int, bool]:
    """How many lines there are, and whether to show progress: where it is known and results go elsewhere."""
    in_the_way = output is None and sys.stdout.isatty()
    lines = count_lines(inputs) if sys.stderr.isatty() and not in_the_way else None
    return lines or 0, lines is not None


# --- output -------------------------------------------------------------------------------------------------------


@contextmanager
def _writer(output: Path | None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes lines: at once to standard output, or to a file when all of them are there."""
    if output is None:
        yield _write
        return
    kept: list[str] = []
    yield kept.append
    write_bytes(output, "".join(kept).encode())


def _write(lines: str) -> None:
    sys.stdout.buffer.write(lines.encode())
    sys.stdout.buffer.flush()


def _layout(
    n_best: int | None, scores: bool, as_json: bool, alignments: bool
) -> "Callable[[int, Sequence[Translation]], str]":
    """The function that lays out what was found for line number n: columns between tabs, or an object."""
    form = one_column if n_best or scores or alignments else one_line

    def columns(number: int, best: "Translation") -> str:
        before = [str(number)] if n_best else []
        before += [f"{best.score:.4f}"] if scores or n_best else []
        after = [best.alignment.pharaoh() if best.alignment else ""] if alignments else []
        return "\t".join([*before, form(best.text), *after]) + "\n"

    if as_json:
        return lambda number, found: _object(found, n_best) + "\n"
    return lambda number, found: "".join(columns(number, best) for best in found[: n_best or 1])


def _object(found: "Sequence[Translation]", n_best: int | None) -> str:
    best = _fields(found[0])
    if n_best:
        best["nbest"] = [_fields(translation) for translation in found]
    return json.dumps(best, ensure_ascii=False)


def _fields(translation: "Translation") -> dict[str, object]:
    fields = asdict(translation)
    if fields["alignment"] is None:
        del fields["alignment"]
    return fields


def _refuse_idle_options(sample: bool, **given: bool) -> None:
    """Options of sampling without sampling would do nothing, silently."""
    idle = [name for name, is_given in given.items() if is_given]
    if idle and not sample:
        raise UserError(f"--{idle[0].replace('_', '-')} is of sampling: add --sample.")


def _refuse_too_many(n_best: int | None, beam: int) -> None:
    if n_best is not None and n_best > beam:
        raise UserError(f"--n-best is {n_best}, but a beam of {beam} finds no more than {beam}: add --beam {n_best}.")
