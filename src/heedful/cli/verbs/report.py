"""`heedful report RUN...`: the curves, recipe and scores of runs on one page; with --evaluate, their test sets too."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from heedful.base.errors import UserError
from heedful.base.files import expand_user
from heedful.cli.options import DeviceOption, PrecisionOption, json_option, option, page_option
from heedful.cli.output import check_output, progress_bar, write_page, write_result
from heedful.pages.report.page import PAGE, report_data, report_page
from heedful.pages.report.record import read_runs
from heedful.pages.report.test_sets import EvaluatedCorpus


def command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Folders of runs; the curves of several are drawn together.")
    ],
    output: Annotated[Path | None, page_option("default: RUN/report.html, or report.html for several runs")] = None,
    as_json: Annotated[bool, json_option("instead of a page one object with all that the runs have recorded")] = False,
    evaluate: Annotated[
        bool,
        option(
            "Also score each run's model on the test corpora of its recipe: scores by length, best and worst items.",
            "--evaluate",
        ),
    ] = False,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
) -> None:
    """Show how runs went: losses, scores, learning rate, gradients and speed as curves, and their recipes.

    The page is one file that needs no network: open it in a browser. Every run also writes it by itself, after
    validations and at its end; during training the page reloads itself. --evaluate adds how the models do on their
    test corpora; --device and --precision are for it.
    """
    folders = [expand_user(run) for run in runs]
    check_output(output)
    for flag, value in (("--device", device), ("--precision", precision)):
        if value != "auto" and not evaluate:
            raise UserError(f"{flag} is for --evaluate: add it, or leave out {flag}.")
    records = read_runs(folders)
    tests = _evaluate(folders, device, precision) if evaluate else None
    if as_json:
        write_result(json.dumps(report_data(records, tests), ensure_ascii=False, allow_nan=False), output)
        return
    output = output or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
    write_page(report_page(records, tests), output)


def _evaluate(runs: Sequence[Path], device: str, precision: str) -> list[list[EvaluatedCorpus]]:
    """Evaluate the model of each run."""
    from heedful.lab.evaluate_run import check_run, evaluate_run  # imports torch, which takes seconds

    for run in runs:
        check_run(run)
    return [evaluate_run(run, device, precision, progress_bar) for run in runs]
