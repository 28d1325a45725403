"""`heedful doctor RECIPE`: check a recipe and its data before training."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.base.errors import UserError
from heedful.cli.messages import is_quiet
from heedful.cli.options import OutputOption, RecipeArgument, SetOption
from heedful.cli.output import check_output, write_result
from heedful.config.reading.load import load_recipe
from heedful.defaults.apply import with_followed_defaults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from heedful.doctor.findings import Finding


def command(
    recipe: RecipeArgument,
    set_: SetOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Write everything as one JSON object.")] = False,
    output: OutputOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the ten training steps, and with them the time estimate.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 2 on warnings too, not only on problems.")
    ] = False,
) -> None:
    """Check a recipe and its data before training: suspicious lines, vocabulary, computation, memory and time.

    For models of images: classes and sizes, images that cannot be decoded, repeats, and odd images.
    """
    check_output(output)
    resolved = with_followed_defaults(
        load_recipe(recipe, set_ or ())
    )  # before torch is imported, so that mistakes show at once
    from rich.console import Console

    from heedful.cli.reports.doctor import json_of, text_of, text_of_images
    from heedful.doctor.examination import examine, examine_images
    from heedful.runs.dry_run import dry_run
    from heedful.runs.fine_tuning import read_start

    if resolved.rules.images:
        images = examine_images(resolved, _say)
        write_result(json_of(images) if json_ else text_of_images(images), output)
        _refuse(recipe, images.findings, strict)
        return
    start = read_start(resolved) if resolved.train.start_from else None
    forecast = None if quick else partial(dry_run, console=Console(quiet=True))
    report = examine(start.recipe if start else resolved, forecast, _say, start.vocabularies if start else None)
    write_result(json_of(report) if json_ else text_of(report), output)
    _refuse(recipe, report.findings, strict)


def _say(message: str) -> None:
    if not is_quiet():
        print(message, file=sys.stderr, flush=True)


def _refuse(recipe: str, findings: "Sequence[Finding]", strict: bool) -> None:
    severities = [finding.severity for finding in findings]
    counts = {"problem": severities.count("problem"), "warning": severities.count("warning")}
    if counts["problem"] or (strict and counts["warning"]):
        told = " and ".join(f"{count} {word}{'s' * (count != 1)}" for word, count in counts.items() if count)
        raise UserError(f"{recipe}: {told}, listed in the report: fix the data or the recipe before training.")
