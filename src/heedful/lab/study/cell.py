"""One cell of a study with one seed, trained and measured in a process of its own.

`python -m heedful.lab.study.cell FOLDER` reads FOLDER/cell.json, trains into FOLDER/run, or resumes there, and writes
FOLDER/found.json. A process that loses the one that started it saves a checkpoint and ends.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from heedful.base.errors import HeedfulError, on_command_line
from heedful.base.files import read_json, remove_folder, write_bytes, write_json
from heedful.config.reading.load import load_recipe
from heedful.lab.study.measuring import measure
from heedful.metrics.recorded_results import machine
from heedful.runs.run import CHECKPOINTS
from heedful.runs.training_run import recipe_of_run, train
from heedful.training.checkpoints import last_checkpoint

SPECIFICATION: Final = "cell.json"
FOUND: Final = "found.json"
RUN: Final = "run"
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True)
class CellJob:
    """What a cell's process needs to know."""

    recipe: str
    settings: tuple[str, ...]  # with the seed
    metric: str | None
    sentence: str = ""
    instruments: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "settings": list(self.settings)}


def begin_cell(folder: Path, job: CellJob) -> None:
    """Write down what a cell's process is to do."""
    write_json(folder / SPECIFICATION, job.to_json())


def found_in(folder: Path, job: CellJob) -> dict[str, Any] | None:
    """Return what was measured in a cell's folder; None before that, or if something else was measured."""
    path = folder / FOUND
    if not path.exists():
        return None
    known = read_json(path)
    same = isinstance(known, dict) and _measured(known.get("job", {})) == _measured(job.to_json())
    return dict(known) if isinstance(known, dict) and same else None


def run_cell(folder: Path, console: Console | None = None) -> None:
    """Train and measure the cell of a folder."""
    known: Any = read_json(folder / SPECIFICATION)
    job, run = CellJob(**{**known, "settings": tuple(known["settings"])}), folder / RUN
    recipe = load_recipe(job.recipe, job.settings)
    if run.exists() and last_checkpoint(run / CHECKPOINTS) is None:
        remove_folder(run)  # killed before its first checkpoint
    train(recipe_of_run(run, recipe, resume=True), run, resume=True, console=console)
    measured = measure(run, job.metric, job.sentence, job.instruments)
    found = {"job": job.to_json(), "machine": machine(), **measured}
    write_bytes(folder / FOUND, json.dumps(found, ensure_ascii=False, allow_nan=False).encode())


def _measured(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job without the folder of its data, which may differ from machine to machine."""
    settings = [text for text in job.get("settings", ()) if not text.startswith("data.folder=")]
    return {**job, "settings": settings}


def main(arguments: list[str]) -> int:
    """Run the cell of a folder; return the exit code, after one line about what went wrong."""
    parent = os.getppid()

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)  # as by hand: the run saves a checkpoint

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        with on_command_line():
            run_cell(Path(arguments[0]))
    except HeedfulError as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
