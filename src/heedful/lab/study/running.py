"""Runs a study: its cells side by side, each in a process of its own; what is ready is not run again.

    FOLDER/study.json, study.csv, study.html    the results, written anew after each cell
    FOLDER/cells/NAME-SEED/                     what a cell's process is to do, its run, what it measured, and its log
    FOLDER/timing.txt                           log of the process that timed an update of each cell

A study that was killed goes on where it was when it is started again: cells that are ready are kept, and those that
were training resume from their last checkpoints, bit-identical to an uninterrupted run.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from heedful.base.cores import usable_cores
from heedful.base.devices import choose_device
from heedful.base.errors import UserError, by_caller, counted
from heedful.base.files import damaged, read_bytes, read_json, write_bytes
from heedful.base.processes import run_module
from heedful.doctor.estimates.memory import measure_memory
from heedful.lab.study.cell import FOUND, CellJob, begin_cell, found_in
from heedful.lab.study.definition import Study, StudyCell, first_difference
from heedful.lab.study.page import study_page
from heedful.lab.study.side_by_side import Task, run_side_by_side
from heedful.lab.study.summary import results_json, summarise, to_csv
from heedful.lab.study.timing import TIMED
from heedful.tasks.loading import find_task

RESULTS: Final = "study.json"
TABLE: Final = "study.csv"
PAGE: Final = "study.html"
CELLS: Final = "cells"
LOG: Final = "log.txt"
TIMING_LOG: Final = "timing.txt"
GIB: Final = 1 << 30
TEMPORARY: Final = 1.5  # a step's memory, temporary tensors included, as a multiple of what it keeps
OF_PROCESS: Final = {"cuda": 1.5 * GIB, "cpu": 1.0 * GIB}  # what a process takes besides that
_NEVER: Final = 10.0 * 365 * 24 * 3600  # a study has no time limit of its own

Ready = Callable[[Task, str | None], None]
Launch = Callable[[Sequence[Task], Ready], None]  # runs tasks, and calls its second argument when each has ended
Say = Callable[[str], None]


@dataclass
class StudyRun:
    """A study in its folder."""

    study: Study
    folder: Path
    say: Say = lambda line: None
    failed: dict[str, dict[int, str]] = field(default_factory=dict)

    def run(self, launch: Launch) -> dict[str, Any]:
        """Train and measure every cell that is not ready; return the results."""
        waiting, total = self.waiting(), len(self.study.cells) * len(self.study.seeds)
        if len(waiting) < total:
            self.say(f"{total - len(waiting)} of {total} runs are ready in {self.folder}")
        tasks, by_name = [], {}
        for cell, seed in waiting:
            folder, name = self.cell_folder(cell, seed), f"{cell.name}, seed {seed}"
            begin_cell(folder, self.job(cell, seed))
            tasks.append(Task(name, run_module("heedful.lab.study.cell", str(folder)), folder / LOG))
            by_name[name] = cell, seed
        self.write(tested=False)  # from here on, the folder is known to be this study's
        ended = total - len(waiting)

        def ready(task: Task, failure: str | None) -> None:
            nonlocal ended
            ended += 1
            cell, seed = by_name[task.name]
            found = self.found(cell, seed) or {"scores": {}, "metric": None}
            score = found["scores"].get(found["metric"])
            outcome = failure or ("ready" if score is None else f"{found['labels'][found['metric']]} {score:.2f}")
            if failure is not None:
                self.failed.setdefault(cell.name, {})[seed] = failure
            self.say(f"{ended} of {total}: {task.name}: {outcome}")
            self.write(tested=False)

        launch(tasks, ready)
        return self.write()

    def time(self, launch: Launch) -> dict[str, Any]:
        """Time an update of every cell that is trained and not timed yet, one after the other; return the results."""
        folders, log = self.untimed(), self.folder / TIMING_LOG
        if folders:
            self.say(f"timing an update of {counted(len(folders), 'cell')}, alone")
            devices = ",".join(self.study.table.timed)
            command = run_module("heedful.lab.study.timing", devices, *map(str, folders))
            task = Task("timing", command, log)
            launch([task], lambda task, failure: self.say(f"timing: {failure}") if failure else None)
        return self.write()

    def untimed(self) -> list[Path]:
        """Return the folders of the cells, by their first seeds, of which an update is to be timed."""
        first = self.study.seeds[0]
        return [
            self.cell_folder(cell, first)
            for cell in self.study.cells
            if self.study.table.timed and self.found(cell, first) and self.timed(cell) is None
        ]

    def timed(self, cell: StudyCell) -> dict[str, Any] | None:
        """Return how long an update of a cell takes on each device; None before it is known."""
        first = self.study.seeds[0]
        known = found_in(self.cell_folder(cell, first), self.job(cell, first), TIMED)
        return None if known is None else known["devices"]

    def waiting(self) -> list[tuple[StudyCell, int]]:
        """Return the cells and seeds that are not ready; refuse the folder of another study."""
        refuse_other_study(self.folder, self.study)
        pairs = [(cell, seed) for cell in self.study.cells for seed in self.study.seeds]
        return [(cell, seed) for cell, seed in pairs if self.found(cell, seed) is None]

    def write(self, tested: bool = True) -> dict[str, Any]:
        """Write and return the results of what is ready; the tests against the base take a while."""
        measured = {
            cell.name: {seed: found for seed in self.study.seeds if (found := self.found(cell, seed)) is not None}
            for cell in self.study.cells
        }
        with damaged(self.folder / CELLS, f"remove the {FOUND} of its folders: what is trained is not trained again"):
            results = summarise(self.study, measured, self.failed, tested)
            for described, cell in zip(results["cells"], self.study.cells, strict=True):
                described.update({"timed": self.timed(cell)} if self.study.table.timed else {})
            written = {
                TABLE: to_csv(results).encode(),
                PAGE: study_page(results).encode(),
                RESULTS: results_json(results),
            }
        for name, data in written.items():
            write_bytes(self.folder / name, data)
        return results

    def found(self, cell: StudyCell, seed: int) -> dict[str, Any] | None:
        """Return what was measured of a cell with a seed; None before that."""
        return found_in(self.cell_folder(cell, seed), self.job(cell, seed))

    def job(self, cell: StudyCell, seed: int) -> CellJob:
        """Return what the process of a cell is to do."""
        table = self.study.table
        settings = (*cell.settings, f"train.seed={seed}")
        first = seed == self.study.seeds[0]
        return CellJob(
            cell.recipe, settings, table.metric, table.sentence if first else "", table.instruments and first
        )

    def cell_folder(self, cell: StudyCell, seed: int) -> Path:
        """Return the folder of a cell with a seed."""
        return self.folder / CELLS / f"{cell.slug}-{seed}"


def run_cells(jobs: int) -> Launch:
    """Return a launcher of processes, of which this many run at a time and share the cores."""
    threads = str(max(1, usable_cores() // jobs))

    def launch(tasks: Sequence[Task], ready: Ready) -> None:
        run_side_by_side(tasks, jobs, _NEVER, ready, {"OMP_NUM_THREADS": threads})

    return launch


def rewrite_page(study: Study, folder: Path) -> dict[str, Any]:
    """Write the page of a folder's results anew, with the words of the study's file as they are now."""
    path = folder / RESULTS
    if not path.exists():
        raise UserError(f"{folder} holds no study: run it first, without {by_caller('--page', '`page`')}.")
    refuse_other_study(folder, study)
    known = read_json(path)
    assert isinstance(known, dict)
    results = {**known, "study": study.table.model_dump(mode="json"), "overrides": list(study.overrides)}
    with _reading_results(path):
        written, page = results_json(results), study_page(results).encode()
    write_bytes(path, written)
    write_bytes(folder / PAGE, page)
    return results


def _reading_results(path: Path) -> AbstractContextManager[None]:
    without = by_caller("without --page", "without `page`")
    return damaged(path, f"remove it, and run the study again {without}: what is ready is not trained again")


def refuse_other_study(folder: Path, study: Study) -> None:
    """Refuse a folder with the results of another study, or of the same one with other recipes."""
    path, another = folder / RESULTS, by_caller("--out", "folder")
    if not path.exists():
        if (folder / "config.json").exists():
            raise UserError(f"{folder} holds a model, not a study: choose another {another}.")
        return
    known = read_json(path)
    if not isinstance(known, Mapping) or "cells" not in known:
        raise UserError(f"{path} is not the file of a study: choose another {another}.")
    if known.get("name") != study.name:
        raise UserError(
            f"{folder} holds the study `{known.get('name')}`, not `{study.name}`: choose another {another}."
        )
    with _reading_results(path):
        for cell in known["cells"]:
            now = study.keys.get(cell["name"])
            key = None if now is None else first_difference(cell["keys"], now)
            if now is not None and key is not None:
                raise UserError(
                    f"{folder} holds this study with other recipes: `{key}` of the cell `{cell['name']}` was "
                    f"{cell['keys'].get(key)!r} and is {now.get(key)!r} now: choose another {another}."
                )


# --- memory ---------------------------------------------------------------------------------------------------------


def cells_at_once(study: Study, say: Say = lambda line: None) -> int:
    """Return how many cells fit on the device at once; refuse a study of which one cell alone does not fit.

    At most one cell per core runs: a process keeps a core busy, on a GPU too.
    """
    device = choose_device(study.cells[0].load(study.seeds[0]).train.device)
    say(f"measuring the memory of {len(study.cells)} cells")
    needed: dict[str, float] = {}
    for cell in study.cells:
        try:
            needed[cell.name] = memory_of(cell, study.seeds[0], device)
        except UserError as error:  # its data is read here
            raise UserError(f"{study.name}, cell `{cell.name}`: {error}") from None
    name = max(needed, key=lambda name: needed[name])
    free = free_memory(device)
    if free is None:
        return 1
    if needed[name] > free:
        raise UserError(
            f"{study.name}: the cell `{name}` needs about {needed[name] / GIB:.1f} GiB of memory, but {device.type} "
            f"has {free / GIB:.1f} GiB free: lower `data.batch_tokens`, or make its model smaller."
        )
    return max(1, min(usable_cores(), int(free // needed[name])))


def memory_of(cell: StudyCell, seed: int, device: torch.device) -> float:
    """Return about how many bytes the process of a cell needs on the device."""
    recipe = cell.load(seed)
    task = find_task(recipe)
    prepared = task.prepare(recipe, None, lambda line: None)
    memory = measure_memory(
        recipe,
        prepared.vocabularies,
        task.objective(recipe, prepared),
        task.feed(recipe, prepared),
        torch.device("cpu"),
        torch.bfloat16 if device.type == "cuda" else torch.float32,
    )
    return TEMPORARY * (memory.total or 0) + OF_PROCESS[device.type]


def free_memory(device: torch.device) -> int | None:
    """Return how many bytes are free on a device; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = read_bytes(Path("/proc/meminfo")).decode().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    except (UserError, StopIteration, ValueError):
        return None
