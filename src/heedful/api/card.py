"""The model card: what a model is, what it scored, how to use it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from torch import nn

from heedful.config.schema import Recipe
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
    to = next((f" --to {corpus.to}" for corpus in recipe.data.train if corpus.to), "")
    language = to and f', to="{to.split()[-1]}"'
    card = f"""# {named.name}

A {recipe.model.family} of {parameters:,} parameters, made with Heedful {__version__} on {datetime.now(UTC):%Y-%m-%d}:
{made}.
{table}
Use it:

    heedful translate {named}{to} < text.txt

or in Python:

    import heedful
    model = heedful.load("{named}")
    model.translate(["..."]{language})

The recipe is in `config.json`.
"""
    write_bytes(folder / CARD, card.encode())
