"""Times an update of each cell of a study alone, after all runs: side by side, runs slow each other down.

`python -m heedful.lab.study.timing DEVICES FOLDER ...` trains the cells of these folders, one after the other, for some
updates on each of the devices, and writes FOLDER/timed.json.
"""

import sys
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from rich.console import Console

from heedful.base.columns import printable
from heedful.base.errors import HeedfulError, on_command_line
from heedful.base.files import write_json
from heedful.config.reading.load import load_recipe
from heedful.lab.study.cell import job_of
from heedful.metrics.recorded_results import machine
from heedful.runs.dry_run import time_updates

TIMED: Final = "timed.json"
# Stretches, and updates in each: on a GPU an update takes milliseconds, on a CPU up to seconds.
_STRETCHES: Final = {"cuda": (8, 25), "cpu": (4, 2)}


def time_cell(folder: Path, devices: list[str], console: Console | None = None) -> None:
    """Time the cell of a folder on those of the devices that there are."""
    job, found = job_of(folder), dict[str, Any]()
    for device in devices:
        if device == "cuda" and not torch.cuda.is_available():
            continue
        recipe = load_recipe(job.recipe, [*job.settings, f'train.device="{device}"'])
        seconds = time_updates(recipe, *_STRETCHES[device], console)
        found[device] = {"ms": 1e3 * median(seconds), "low": 1e3 * min(seconds), "high": 1e3 * max(seconds)}
    write_json(folder / TIMED, {"job": job.to_json(), "machine": machine(), "devices": found})


def main(arguments: list[str]) -> int:
    """Time the cells of all folders given after the devices; return the exit code of the first that fails."""
    devices, *folders = arguments
    failed = 0
    for folder in folders:
        try:
            with on_command_line():
                time_cell(Path(folder), devices.split(","))
        except HeedfulError as error:
            print(printable(str(error)).partition("\n")[0], file=sys.stderr)
            failed = failed or error.exit_code
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
