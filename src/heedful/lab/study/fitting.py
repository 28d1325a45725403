"""How many cells of a study fit on a device at once, by the memory of a training step of the largest."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch

from heedful.base.cores import usable_cores
from heedful.base.devices import choose_device
from heedful.base.errors import UserError
from heedful.base.files import read_bytes
from heedful.doctor.estimates.memory import Memory, measure_memory
from heedful.lab.study.definition import Study, StudyCell
from heedful.tasks.table import find_task

GIB: Final = 1 << 30
TEMPORARY: Final = 1.5  # a step's memory, temporary tensors included, as a multiple of what it keeps
OF_PROCESS: Final = {"cuda": 1.5 * GIB, "cpu": 1.0 * GIB}  # what a process takes besides that


def cells_at_once(study: Study, say: Callable[[str], None] = lambda line: None) -> int:
    """Return how many cells fit on the device at once; refuse a study of which one cell alone does not fit.

    At most one cell per core runs: a process keeps a core busy, on a GPU too.
    """
    recipe = study.cells[0].load(study.seeds[0])
    device = choose_device(recipe.train.device)
    say(f"measuring the memory of {len(study.cells)} cells")
    needed = {cell.name: _memory_of_named(cell, study, device) for cell in study.cells}
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


def _memory_of_named(cell: StudyCell, study: Study, device: torch.device) -> float:
    """Return `memory_of`, which reads the data of a cell; a mistake in it is reported with the name of the cell."""
    try:
        return memory_of(cell, study.seeds[0], device)
    except UserError as error:
        raise UserError(f"{study.name}, cell `{cell.name}`: {error}") from None


def memory_of(cell: StudyCell, seed: int, device: torch.device) -> float:
    """Return about how many bytes the process of a cell needs on the device."""
    recipe = cell.load(seed)
    task = find_task(recipe)
    prepared = task.prepare(recipe, None, lambda line: None)
    precision = torch.bfloat16 if device.type == "cuda" else torch.float32
    memory: Memory = measure_memory(
        recipe,
        prepared.vocabularies,
        task.objective(recipe, prepared),
        task.feed(recipe, prepared),
        torch.device("cpu"),
        precision,
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
