"""`heedful translate MODEL [FILES...]`: one line out for every line in."""

import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.cli.arriving import Arriving
from heedful.cli.searching import (
    BatchTokensOption,
    BeamOption,
    DeviceOption,
    LengthPenaltyOption,
    MaxExtraOption,
    ModelArgument,
    PrecisionOption,
    one_line,
    sentence_progress,
)
from heedful.data.lines import TextFile, check_exists, decode_lines, locate, read_lines
from heedful.errors import UserError
from heedful.files import write_bytes

if TYPE_CHECKING:
    from heedful.api.model import Translation

STANDARD_INPUT = "-"


def command(
    model: ModelArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="Text, .gz, .xz or member of a .zip; `-` is standard input."),
    ] = None,
    beam: BeamOption = None,
    length_penalty: LengthPenaltyOption = None,
    max_extra: MaxExtraOption = None,
    n_best: Annotated[
        int | None, typer.Option("--n-best", min=1, help="So many translations of each line: number, score, text.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score and a tab before each line.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="An object a line: text, score, tokens, complete.")] = False,
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
    inputs = [_input(name) for name in files or [STANDARD_INPUT]]
    if output and output.is_dir():
        raise UserError(f"{output}: this is a folder, but must be a file.")
    layout = _layout(n_best, scores, as_json)
    from heedful.api.model import load  # after the quick checks: it takes seconds

    translator = load(model, device, precision)
    total, cut = 0, 0
    with _writer(output) as write, sentence_progress(*_expected(inputs, output)) as progress:
        for entry in inputs:
            for translations in translator.stream_detailed(
                entry.lines(),
                nbest=n_best or 1,
                ready=entry.ready,
                name=entry.name,
                progress=progress,
                beam=beam,
                length_penalty=length_penalty,
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


# --- input --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Input:
    """Lines to translate, where they come from, and whether a further one is there already."""

    name: str
    lines: Callable[[], Iterable[str]]
    ready: Callable[[], bool] = lambda: True
    file: TextFile | None = None  # where it can be read twice


def _input(name: str) -> _Input:
    if name == STANDARD_INPUT:
        return _standard_input()
    file = replace(locate(name), hint="")  # the hint is about recipes
    check_exists(file)
    again = file if file.path.is_file() else None
    return _Input(file.name, lambda: read_lines(file), file=again)


def _standard_input() -> _Input:
    name = "standard input"
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:  # not the process's own: there is nothing to await
        return _Input(name, lambda: decode_lines(sys.stdin.buffer, name))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return _Input(name, lambda: decode_lines(sys.stdin.buffer, name))
    arriving = Arriving(descriptor)
    return _Input(name, lambda: decode_lines(arriving, name), arriving.ready)


def _expected(inputs: Sequence[_Input], output: Path | None) -> tuple[int, bool]:
    """How many lines there are, and whether to show progress: where it is known and results go elsewhere."""
    known = [entry.file for entry in inputs if entry.file]
    in_the_way = output is None and sys.stdout.isatty()
    if len(known) < len(inputs) or in_the_way or not sys.stderr.isatty():
        return 0, False
    return sum(1 for file in known for _ in read_lines(file)), True


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


def _layout(n_best: int | None, scores: bool, as_json: bool) -> "Callable[[int, Sequence[Translation]], str]":
    """The function that lays out what was found for line number n."""
    if as_json:
        return lambda number, found: _object(found, n_best) + "\n"
    if n_best:
        return lambda number, found: "".join(f"{number}\t{best.score:.4f}\t{one_line(best.text)}\n" for best in found)
    if scores:
        return lambda number, found: f"{found[0].score:.4f}\t{one_line(found[0].text)}\n"
    return lambda number, found: one_line(found[0].text) + "\n"


def _object(found: "Sequence[Translation]", n_best: int | None) -> str:
    best = asdict(found[0])
    if n_best:
        best["nbest"] = [asdict(translation) for translation in found]
    return json.dumps(best, ensure_ascii=False)
