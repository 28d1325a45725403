"""The config of a model's folder, read without torch: what a command needs to know before it loads the model."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from heedful.base.errors import UserError, by_caller, machine_faults
from heedful.base.files import read_json, sha256_of_file
from heedful.config.reading.load import recipe_from_json
from heedful.config.reading.places import put_places_back
from heedful.config.recipe import Recipe
from heedful.config.task_rules import Better, TaskRules
from heedful.version import __version__

FORMAT: Final = 1
CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
SHORTLIST: Final = "shortlist.safetensors"
ADAPTER: Final = "adapter.safetensors"  # in place of WEIGHTS, in the folder of an adapter
_SHA256: Final = 64  # hexadecimal digits
_LONGEST_HEADER: Final = 100_000_000  # bytes, as in safetensors itself


def read_recipe(folder: Path, rules: TaskRules | None = None) -> Recipe:
    """Read a bundle's recipe."""
    config = read_config(folder)
    put_places_back(folder, config["recipe"])
    return recipe_from_json(config["recipe"], str(folder / CONFIG), rules, _metrics(config, folder))


def read_config(folder: Path) -> dict[str, Any]:
    """Read the config of a bundle, and check that it is one of this format."""
    if not (folder / CONFIG).exists():
        what = "holds no config.json" if folder.is_dir() else "is not a folder"
        raise UserError(f"{folder} {what}: a model is a folder that `heedful train` wrote.")
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or "recipe" not in config:
        foreign = isinstance(config, dict) and "model_type" in config
        way_out = " A model of `transformers` becomes one by `heedful import`." if foreign else ""
        raise UserError(f"{folder / CONFIG} is not a Heedful model's config: `recipe` is missing.{way_out}")
    if config.get("format") != FORMAT:
        raise UserError(
            f"{folder / CONFIG} has format {config.get('format')}, but this Heedful ({__version__}) reads "
            f"format {FORMAT}: install the version that wrote it ({config.get('heedful', 'unknown')})."
        )
    return config


def _metrics(config: Mapping[str, object], folder: Path) -> dict[str, Better]:
    """Return the metrics of the program that trained the model: whether higher or lower values are better."""
    metrics = config.get("metrics", {})
    if not isinstance(metrics, dict) or not all(better in ("higher", "lower") for better in metrics.values()):
        raise UserError(
            f'{folder / CONFIG}: `metrics` must say "higher" or "lower" for each name: restore it from a copy of the '
            "model."
        )
    return metrics


def base_of(folder: Path) -> str | None:
    """Return the sha256 that the weights of an adapter's base state; None for a folder that holds a whole model."""
    return None if (adapter := read_config(folder).get("adapter")) is None else _base(adapter, folder)


def _base(adapter: object, folder: Path) -> str:
    base = adapter.get("base") if isinstance(adapter, dict) else None
    if not isinstance(base, str) or len(base) != _SHA256:
        raise UserError(
            f"{folder / CONFIG}: `adapter.base` must be the sha256 of the weights that are adapted: restore it from a "
            "copy of the adapter."
        )
    return base


def other_task(folder: Path, recipe: Recipe) -> UserError:
    """What to say of a model that does something else than is asked of it."""
    kind = recipe.rules.model
    call = f'heedful.{kind}.load("{folder}")' if kind else "heedful.load(..., task=...)"
    way_out = by_caller(f"use `heedful {recipe.rules.verb}`", f"load it with `{call}`")
    return UserError(f"{folder} is a model that {recipe.rules.does}: {way_out}.")


def model_hashes(folder: Path) -> dict[str, str]:
    """Return the sha256 of each file of a bundle that decides what the model answers.

    That of the weights is the one that they state, which is checked whenever they are loaded: gigabytes need not be
    read. The config states those of the tokenizers.
    """
    files = (folder / name for name in (CONFIG, WEIGHTS, ADAPTER, SHORTLIST))
    return {path.name: stated_hash(path) or sha256_of_file(path) for path in files if path.exists()}


def stated_hash(path: Path) -> str | None:
    """Return the sha256 that weights state; None for any other file, and if they state none."""
    if path.name not in (WEIGHTS, ADAPTER):
        return None
    with machine_faults(path), path.open("rb") as file, suppress(ValueError, KeyError, TypeError, AttributeError):
        size = int.from_bytes(file.read(8), "little")
        stated = json.loads(file.read(min(size, _LONGEST_HEADER)))["__metadata__"]["sha256"]
        return stated if isinstance(stated, str) else None
    return None
