"""Loading of a trained model of any task from its folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.models.bundle import read_description
from heedful.tasks.protocol import Task
from heedful.tasks.shared.placement import Placement
from heedful.tasks.table import find_task


def load(
    path: str | Path,
    device: str = "auto",
    precision: str = "auto",
    ensemble: Sequence[str | Path] = (),
    task: Task | None = None,
) -> Any:
    """Load a model that `heedful train` wrote: a `Translator`, a `TextClassifier` or a `MaskFiller`.

    `device` is "auto" (a GPU where there is one), "cpu", "cuda" or "cuda:1"; `precision` is "float32", "bfloat16" or
    "auto": bfloat16 on a GPU, float32 elsewhere. `ensemble` are translators that decode together with the first.
    `task` is for a model that was trained with a task of your own: `heedful.train(..., task=task)`.
    """
    folder = Path(path)
    recipe, _ = read_description(folder, None if task is None else task.rules)
    if ensemble and not recipe.rules.searches:
        raise UserError(f"{path} does not translate, and only translators make an ensemble: leave out `ensemble`.")
    placement = Placement.of(device, precision)
    return find_task(recipe, task).load(folder, placement, [Path(other) for other in ensemble])
