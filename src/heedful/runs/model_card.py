"""The model card: what a model is, what it scored, how to use it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from torch import nn

from heedful.base.files import write_bytes
from heedful.config.reading.places import without_place
from heedful.config.recipe import Recipe
from heedful.models.bundle import CARD, CONFIG, base_of
from heedful.tasks.loading import find_task
from heedful.tasks.shared.task import Task
from heedful.version import __version__


def write_card(
    folder: Path,
    recipe: Recipe,
    model: nn.Module,
    made: str,
    scores: Mapping[str, float],
    named: Path | None = None,
    task: Task | None = None,
) -> None:
    """Write the card of the bundle in a folder; `made` says how its weights were made.

    `named` is the folder's final name, if the bundle is still being written; `task` is one from outside Heedful. Where
    the folder is on this machine is not written down: a card is read elsewhere.
    """
    named = Path(Path(named or folder).absolute().name)
    lines = "".join(f"| {name} | {score:.4f} |\n" for name, score in scores.items())
    table = f"\n| validation | score |\n|---|---|\n{lines}" if scores else "\nIt was not validated.\n"
    parameters = sum(p.numel() for p in model.parameters())
    adapts = (folder / CONFIG).exists() and base_of(folder) is not None
    command, call = find_task(recipe, task).usage(recipe, Path(f"BASE --adapter {named}") if adapts else named)
    loaded = f'"BASE", adapter="{named.name}"' if adapts else f'"{named.name}"'
    what = f"An adapter of a {recipe.model.family}" if adapts else f"A {recipe.model.family}"
    start = Path(without_place(recipe.train.start_from))
    basis = f" BASE is the folder of the model that it was trained on, {start.name}." if adapts else ""
    card = f"""# {named.name}

{what} of {parameters:,} parameters, made with Heedful {__version__} on {datetime.now(UTC):%Y-%m-%d}:
{made}.
{table}
Use it:

    {command}

or in Python:

    import heedful
    model = heedful.load({loaded})
    model.{call}

The recipe is in `config.json`.{basis}
"""
    write_bytes(folder / CARD, card.encode())
