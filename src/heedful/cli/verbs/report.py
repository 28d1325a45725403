"""`heedful report RUN...`: the curves, recipe and scores of runs on one page."""

import json
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli import messages
from heedful.cli.output import check_output, write_result
from heedful.files import expand_user
from heedful.pages.report.page import PAGE, report_data, report_page
from heedful.pages.report.record import read_runs


def command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Folders of runs; the curves of several are drawn together.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File of the page (default: RUN/report.html, or report.html for several runs); `-`: standard output.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write what the runs have recorded as one JSON object instead of a page.")
    ] = False,
) -> None:
    """Show how runs went: losses, scores, learning rate, gradients and speed as curves, and their recipes.

    The page is one file that needs no network: open it in a browser. Every run also writes it by itself, after
    validations and at its end; during training the page reloads itself.
    """
    folders = [expand_user(run) for run in runs]
    check_output(output)
    records = read_runs(folders)
    if as_json:
        write_result(json.dumps(report_data(records), ensure_ascii=False, allow_nan=False), output)
        return
    output = output or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
    write_result(report_page(records).rstrip(), output)
    if output != Path("-"):
        messages.note(f"{output} ({output.stat().st_size / 1000:,.0f} kB): open it in a browser.")
