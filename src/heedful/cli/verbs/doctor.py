"""`heedful doctor RECIPE`: check a recipe and its data before training; `heedful doctor MODEL`: before publishing."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from heedful.base.columns import align_columns, one_column
from heedful.base.errors import UserError, counted
from heedful.base.files import expand_user
from heedful.cli.messages import is_quiet, write_message
from heedful.cli.options import (
    OutputOption,
    RecipeOrModelArgument,
    SetOption,
    TrainingDeviceOption,
    TrainingPrecisionOption,
    json_option,
    option,
    with_device,
)
from heedful.cli.output import check_output, write_result
from heedful.config.reading.bundle_config import CONFIG
from heedful.config.reading.load import load_recipe
from heedful.defaults.apply import with_followed_defaults
from heedful.interop.exports.formats import FORMATS, Refusal
from heedful.pages.report.tables import duration

if TYPE_CHECKING:
    from heedful.doctor.estimates.memory import Memory
    from heedful.doctor.examination import DataReport, RunPlan, Time
    from heedful.doctor.findings import Finding
    from heedful.doctor.kernels import Kernels
    from heedful.doctor.token_statistics import Histogram, TokenStatistics


def command(
    recipe: RecipeOrModelArgument,
    set_: SetOption = None,
    device: TrainingDeviceOption = None,
    precision: TrainingPrecisionOption = None,
    json_: Annotated[bool, json_option("everything, as one object")] = False,
    output: OutputOption = None,
    quick: Annotated[bool, option("Skip the ten training steps, and with them the time estimate.", "--quick")] = False,
    strict: Annotated[bool, option("Exit with code 2 on warnings too, not only on problems.", "--strict")] = False,
) -> None:
    """Check a recipe and its data before training: suspicious rows and images, computation, memory and time.

    Given the folder of a model, list what it would reveal if it were published, and say what would run it in int8.
    """
    check_output(output)
    if (expand_user(recipe) / CONFIG).is_file():
        if set_ or device or precision or quick:
            raise UserError(f"{recipe} is a model, but --set, --device, --precision and --quick are for recipes.")
        _examine_model(expand_user(recipe), json_, output, strict)
        return
    overrides = with_device(set_, device, precision)
    resolved = with_followed_defaults(load_recipe(recipe, overrides))  # before torch: mistakes show at once
    from rich.console import Console

    from heedful.doctor.examination import DataReport, Report, UntrainableError, examine
    from heedful.runs.dry_run import dry_run
    from heedful.runs.fine_tuning import read_start

    start = read_start(resolved) if resolved.train.start_from else None
    forecast = None if quick else partial(dry_run, console=Console(quiet=True))
    known, vocabularies = (start.recipe, start.vocabularies) if start else (resolved, None)
    report: DataReport
    try:
        report = examine(known, forecast, _say, vocabularies, resolved, Path(recipe).parent)
    except UntrainableError as error:
        report = error.report
    refused = {form.name: form.refusals(known) for form in FORMATS.values()}
    everything = {field.name: None for field in fields(Report)} | asdict(report)
    everything["export"] = {name: [each._asdict() for each in found] for name, found in refused.items()}
    write_result(everything if json_ else "\n".join([text_of(report), *_exports(refused)]), output)
    severities = [finding.severity for finding in report.findings]
    counts = {"problem": severities.count("problem"), "warning": severities.count("warning")}
    if counts["problem"] or (strict and counts["warning"]):
        told = " and ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count)
        raise UserError(f"{recipe}: {told}, listed in the report: fix the data or the recipe before training.")


def _examine_model(folder: Path, as_json: bool, output: Path | None, strict: bool) -> None:
    """Write what the folder of a model would reveal, and what computes it in int8."""
    from heedful.doctor.kernels import examine_kernels
    from heedful.doctor.publishing import examine_model

    found, kernels = examine_model(folder), examine_kernels()
    lines = [f"A published model has {', '.join(found.files)}.", ""]
    for finding in found.findings:
        lines += _finding(finding)
    lines += [] if found.findings else ["Nothing private was found."]
    lines += ["", *_wrapped("What weights remember of their training data cannot be seen in this way.", "", "")]
    lines += ["", *_kernels(kernels)]
    write_result(asdict(found) | {"int8": asdict(kernels)} if as_json else "\n".join(lines), output)
    warnings = sum(finding.severity == "warning" for finding in found.findings)
    if strict and warnings:
        raise UserError(f"{folder}: {counted(warnings, 'warning')}, listed in the report: mend them before publishing.")


def _kernels(kernels: "Kernels") -> list[str]:
    if kernels.missing is not None:
        return _wrapped(f"In int8, PyTorch computes everything on this CPU, as {kernels.missing}.", "", "")
    rows = {"compiler": kernels.compiler, "library": kernels.library}
    return [
        f"In int8, kernels for {kernels.instructions} compute what they can on this CPU.",
        *(line for label, text in rows.items() for line in _wrapped(str(text), _row(label, ""))),
    ]


def _say(message: str) -> None:
    if not is_quiet():
        write_message(message)


# --- the report -------------------------------------------------------------------------------------------------------


_COLUMNS: Final = 80
_LABEL: Final = 14  # columns of the labels on the left
_CLASSES: Final = 50  # rows of classes
_SIZES: Final = 5  # rows of sizes
_PATCHES: Final = "patches"  # the side of images
_BAR: Final = 22  # columns of the longest bar of a histogram


def text_of(report: "DataReport") -> str:
    """Return the report as text of at most 80 columns, findings first; of data that cannot be trained on, no run."""
    from heedful.doctor.examination import Report

    lines = [] if report.findings else ["Nothing unusual was found."]
    for finding in report.findings:
        lines += _finding(finding)
    lines += ["", "Corpora"]
    for corpus in report.corpora:
        lines += _wrapped(
            f"{corpus.rows:>11,} {corpus.unit}  {corpus.name}", _row(corpus.part, ""), " " * (_LABEL + 19)
        )
    lines += _classes_and_sizes(report)
    if isinstance(report, Report):
        lines += ["", "Pieces", *_pieces(report.pieces)] if report.pieces.sides else []
        lines += ["", "Run", *_run(report.run)]
        lines += ["", "Memory of the largest micro-batch", *_memory(report.memory, report.time)]
        lines += ["", "Time", *_time(report.time, report.run)]
    return "\n".join(lines)


def _classes_and_sizes(report: "DataReport") -> list[str]:
    lines = []
    if report.classes:
        parts = list(dict.fromkeys(part for counts in report.classes.values() for part in counts))
        rows = [
            [one_column(label), *(f"{counts.get(part, 0):,}" for part in parts)]
            for label, counts in islice(report.classes.items(), _CLASSES)
        ]
        lines += ["", f"Classes: {len(report.classes):,}", *align_columns([["class", *parts], *rows])]
        lines += ["…"] if len(report.classes) > _CLASSES else []
    if report.sizes:
        lines += ["", f"Sizes: {len(report.sizes):,}, height x width"]
        lines += [f"{count:>11,} images  {size}" for size, count in islice(report.sizes.items(), _SIZES)]
        lines += ["…"] if len(report.sizes) > _SIZES else []
    return lines


def _finding(finding: "Finding") -> list[str]:
    indent = " " * 9
    lines = _wrapped(f"{finding.part}: {finding.what}", f"{finding.severity:9}", indent)
    where = finding.file or finding.corpus
    if finding.lines:
        more = ", …" if finding.count is not None and finding.count > len(finding.lines) else ""
        word = "line" if len(finding.lines) == 1 else "lines"
        where += f", {word} {', '.join(f'{line:,}' for line in finding.lines)}{more}"
    lines += _wrapped(where, indent, indent) if where else []
    lines += [f"{indent}“{finding.example}”"] if finding.example else []
    return lines + _wrapped(finding.advice, f"{indent}> ", f"{indent}  ")


def _pieces(pieces: "TokenStatistics") -> list[str]:
    lines = []
    for vocabulary in pieces.vocabularies:
        of_side = f"{vocabulary.side}: " if vocabulary.side in ("source", "target") else ""
        usable = vocabulary.size - vocabulary.markers
        asked = f"of {vocabulary.asked:,} requested" if vocabulary.given else "pieces"
        lines.append(_row("vocabulary", f"{of_side}{vocabulary.size:,} {asked}"))
        lines.append(
            _row("", f"of {usable:,} for text, {vocabulary.never:,} never used, {vocabulary.rare:,} under 10 times")
        )
    for side in pieces.sides:
        told = f"{side.pieces_per_word:.2f} per word; mean {side.mean_length:.1f}, longest {side.longest:,}"
        lines.append(_row(side.side, f"{side.pieces:,} pieces, {told}"))
        valid = "" if side.unknown_valid is None else f" ({side.unknown_valid:.3%} in valid)"
        lone = "" if side.byte_pieces is None else f"; {side.byte_pieces:.3%} are lone bytes"
        lines.append(_row("", f"{side.unknown:.3%} unknown{valid}{lone}"))
    for dropped in pieces.dropped:
        reasons = f"{dropped.empty:,} empty, {dropped.too_long:,} too long, {dropped.ratio:,} by ratio"
        reasons += f", {dropped.line:,} by `data.max_line`" if dropped.line else ""
        lines += _wrapped(f"{dropped.kept:,} of {dropped.corpus}; dropped: {reasons}", _row("kept", ""))
    return lines + _histogram(pieces.lengths)


def _histogram(lengths: "Histogram") -> list[str]:
    """Draw the lengths of all sides next to each other, on one scale."""
    most = max(1, *(count for counts in lengths.sides.values() for count in counts))
    lines = [_row("length", "".join(f"{side:{_BAR + 11}}" for side in lengths.sides).rstrip())]
    for number, low in enumerate(lengths.edges):
        last = number + 1 == len(lengths.edges)
        high = low if last else lengths.edges[number + 1] - 1
        label = f"{low:,}+" if last else f"{low:,}" if high == low else f"{low:,}-{high:,}"
        bars = (
            f"{counts[number]:>9,} {'█' * round(_BAR * counts[number] / most)}" for counts in lengths.sides.values()
        )
        lines.append(f"{label:>{_LABEL - 2}}  {' '.join(f'{bar:{_BAR + 10}}' for bar in bars)}".rstrip())
    return lines


def _run(run: "RunPlan") -> list[str]:
    parameters = run.parameters
    fill = ", ".join(f"{share:.0%} of the {side} budget" for side, share in run.fill.items())
    lines = [
        _row("device", f"{run.device}, {run.precision}{'' if run.precision_known else ' (expected)'}"),
        _row("parameters", f"{parameters.total:,}: embeddings {parameters.embeddings:,}, the rest {parameters.rest:,}"),
        _row("one epoch", f"{run.rows_per_epoch:,} inputs, {run.micro_batches_per_epoch:,} micro-batches"),
        _row("", f"{run.updates_per_epoch:,} updates"),
        _row("", _counted(run.tokens_per_epoch)),
        _row("whole run", f"{run.updates:,} updates, {run.epochs:,.1f} epochs"),
        _row("batch fill", fill),
    ]
    if run.flop_per_update is not None and run.flop is not None:
        lines.append(_row("work", f"{run.flop_per_update:.3g} FLOP per update, {run.flop:.3g} in all"))
        lines.append(_row("", "(counted: matrix products and attention, forward and backward)"))
    return lines


def _counted(tokens: Mapping[str, int]) -> str:
    if not _has_patches(tokens):
        return " and ".join(f"{count:,} {side}" for side, count in tokens.items()) + " tokens"
    return " and ".join(f"{count:,} {side if _PATCHES in side else f'{side} tokens'}" for side, count in tokens.items())


def _has_patches(tokens: Mapping[str, int]) -> bool:
    return any(_PATCHES in side for side in tokens)


def _memory(memory: "Memory", time: "Time | None") -> list[str]:
    batch = memory.batch
    parts = [
        ("weights", memory.parameters),
        ("gradients", memory.gradients),
        ("optimizer", memory.optimizer),
        ("activations", memory.activations),
        ("total", memory.total),
        ("device has", memory.available),
        ("GPU peak", time.peak_gpu_bytes if time else None),
    ]
    inputs, longest, tokens = "sentences", "longest sentence", "tokens"
    if _has_patches(batch.tokens):
        inputs, longest, tokens = "inputs", "largest input", "patches or tokens"
    return [
        _row("batch", f"{batch.sentences:,} {inputs}, {_counted(batch.tokens)}"),
        _row("", f"its {longest} has {batch.longest:,} {tokens}"),
        *(_row(label, f"{size / 2**20:>11,.1f} MiB") for label, size in parts if size is not None),
    ]


def _time(time: "Time | None", run: "RunPlan") -> list[str]:
    if time is None:
        return [_row("unknown", "the ten training steps were left out")]
    used = [] if time.used is None else [_row("", f"the counted work is {time.used:.0%} of it")]
    return [
        _row("speed", f"{time.tokens_per_second:,.0f} {time.unit}/s"),
        _row("whole run", f"{duration(time.seconds)} without validation"),
        _row("device rate", f"{time.matrix_rate:.3g} FLOP/s in matrix products ({run.precision})"),
        _row("capacity", f"{time.capacity_flop:.3g} FLOP: time x rate, as Vaswani et al. 2017 count"),
        *used,
    ]


def _exports(refused: Mapping[str, Sequence[Refusal]]) -> list[str]:
    """Return a line for each format that models are exported to: whether it can hold the model, or why it cannot."""
    lines = ["", "Export"]
    for name, found in refused.items():
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        answer = f"no, because of `{found[0].key}`: {found[0].why}{more}" if found else "yes"
        lines += _wrapped(answer, f"  {name:{_LABEL}}", " " * (_LABEL + 2))
    return lines


def _row(label: str, text: str) -> str:
    return f"  {label:{_LABEL - 2}}{text}"


def _wrapped(text: str, first: str, rest: str = " " * _LABEL) -> list[str]:
    return textwrap.wrap(
        text, _COLUMNS, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
