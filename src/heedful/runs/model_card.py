"""The model card: what a model is, what it scored, how to use it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from torch import nn

from heedful.config.recipe import Recipe
from heedful.config.tasks import Task
from heedful.files import write_bytes
from heedful.models.bundle import CARD
from heedful.version import __version__


def write_card(
    folder: Path, recipe: Recipe, model: nn.Module, made: str, scores: Mapping[str, float], named: Path | None = None
) -> None:
    """Write the card of the bundle in a folder; `made` says how its weights came about.

    `named` is the folder's later name, where it is still being made.
    """
    named = named or folder
    lines = "".join(f"| {name} | {score:.4f} |\n" for name, score in scores.items())
    table = f"\n| validation | score |\n|---|---|\n{lines}" if scores else "\nIt was not validated.\n"
    parameters = sum(p.numel() for p in model.parameters())
    command, call = _USES[recipe.task](recipe, named)
    card = f"""# {named.name}

A {recipe.model.family} of {parameters:,} parameters, made with Heedful {__version__} on {datetime.now(UTC):%Y-%m-%d}:
{made}.
{table}
Use it:

    {command}

or in Python:

    import heedful
    model = heedful.load("{named}")
    model.{call}

The recipe is in `config.json`.
"""
    write_bytes(folder / CARD, card.encode())


# --- how to use it ----------------------------------------------------------------------------------------------------


def _translating(recipe: Recipe, folder: Path) -> tuple[str, str]:
    to = next((corpus.to for corpus in recipe.data.train if corpus.to), "")
    option, argument = (f" --to {to}", f', to="{to}"') if to else ("", "")
    return f"heedful translate {folder}{option} < text.txt", f'translate(["..."]{argument})'


def _classifying(recipe: Recipe, folder: Path) -> tuple[str, str]:
    name, argument = ("pairs.tsv", ', ["..."]') if recipe.data.paired else ("texts.txt", "")
    return f"heedful classify {folder} < {name}", f'classify(["..."]{argument})'


def _filling(recipe: Recipe, folder: Path) -> tuple[str, str]:
    return f'heedful fill {folder} "... [MASK] ..."', 'fill("... [MASK] ...")'


_USES: Final[Mapping[Task, Callable[[Recipe, Path], tuple[str, str]]]] = {  # on the command line, and in Python
    "translate": _translating,
    "classify": _classifying,
    "fill": _filling,
}
