"""Tells values that a recipe sets from those that Heedful chose, about which there is nothing to criticise."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, cast

from heedful.config.recipe import Recipe
from heedful.config.section import Section
from heedful.doctor.findings import Finding

_LOSSES: Final = ("cut", "dropped", "long_sentences")  # what a default loses of the data is worth a note


def is_set(recipe: Recipe, key: str) -> bool:
    """Whether a recipe itself sets a key, or a key of that table; defaults that follow its run do not count."""
    followed = () if recipe.followed is None else recipe.followed.keys
    if any(key == chosen or key.startswith(f"{chosen}.") for chosen in followed):
        return False
    table, value = cast("Any", None), cast("Any", recipe)
    for part in key.split("."):
        if part not in getattr(value, "model_fields_set", ()):
            return False
        table, value = value, getattr(value, part)
    if not isinstance(value, Section):
        return True
    # A table of which only keys were chosen looks as if the recipe set it, with its usual kind.
    usual = type(table).model_fields[part].get_default(call_default_factory=True)
    same = {name for name in ("kind", "family") if getattr(value, name, "") == getattr(usual, name, None)}
    inside = any(chosen.startswith(f"{key}.") for chosen in followed)
    return any(is_set(recipe, f"{key}.{name}") for name in value.model_fields_set - (same if inside else set()))


def without_chosen(recipe: Recipe, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings, but not those about keys of which the recipe sets none: a default that is wrong is our mistake.

    What such a default loses of the data stays a note.
    """
    for finding in findings:
        if not finding.keys or any(is_set(recipe, key) for key in finding.keys):
            yield finding
        elif finding.kind in _LOSSES:
            yield replace(finding, severity="note")
