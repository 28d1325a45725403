"""Recipes from TOML and JSON, and back. All errors of a recipe are reported at once, before torch is imported."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final

from pydantic import ValidationError

from heedful.base.errors import UserError, UserErrors, suggestion, user_faults
from heedful.config.reading.complaints import complaints
from heedful.config.reading.draft import (
    Draft,
    Overrides,
    Table,
    draft_of,
    overrides_of,
    plain_values,
    with_overrides,
)
from heedful.config.reading.shipped_recipes import find_recipe, shipped_recipes
from heedful.config.reading.toml import read_recipe_file, toml_document
from heedful.config.recipe import Recipe
from heedful.config.task_rules import Better, TaskRules
from heedful.config.tasks import TASKS, find_rules

RecipeSource = Recipe | Mapping[str, Any] | str | PathLike[str]
USUAL_FAMILY: Final = "transformer"  # of a recipe without [model]


def load_recipe(
    source: RecipeSource,
    overrides: Overrides = (),
    rules: TaskRules | None = None,
    corpora: Mapping[str, object] | None = None,
) -> Recipe:
    """Read a recipe from a file, a shipped recipe by its name, or a recipe from the values of a dictionary.

    `overrides` are texts such as "model.layers=3", or values by dotted keys: {"model.layers": 3}. `rules` are those of
    a task from outside Heedful. `corpora` replace those of the recipe: tables by the keys of [data].
    """
    draft, lines = _overridden(source, overrides)
    if corpora:
        given = {f"data.{split}": table for split, table in corpora.items()}
        draft, _ = with_overrides(draft, [*draft.overrides, *overrides_of(given)[0]])
    own = source.given_rules if isinstance(source, Recipe) and rules is None else rules
    recipe = _checked(draft, lines, own)
    if isinstance(source, Recipe):
        recipe.hold_out(source.held_out)
    return recipe


def find_recipe_rules(source: RecipeSource, overrides: Overrides = (), rules: TaskRules | None = None) -> TaskRules:
    """Return the rules of a recipe's task without checking the recipe, which may lack its data."""
    given = source.given_rules if isinstance(source, Recipe) and rules is None else rules
    return _rules_of(_overridden(source, overrides)[0].values, given)


def _rules_of(values: Mapping[str, Any], rules: TaskRules | None) -> TaskRules:
    model = values.get("model")
    family = model.get("family") if isinstance(model, Mapping) else None
    try:
        return find_rules(values.get("task"), str(family or USUAL_FAMILY), rules)
    except (ValueError, KeyError):
        return next(iter(TASKS.values()))  # the recipe is refused when it is checked


def _overridden(source: RecipeSource, overrides: Overrides) -> tuple[Draft, list[str]]:
    """Return a recipe before it is checked, and a line for each override that cannot be applied."""
    parsed, unread = overrides_of(overrides)
    if isinstance(source, Recipe):
        draft = draft_of("the recipe", source.model_dump(mode="json", exclude_unset=True))
    else:
        if isinstance(source, Mapping):
            path, label, values = Path("recipe"), "the recipe", plain_values(source)
        elif isinstance(source, str | PathLike):
            path = find_recipe(fspath(source))
            label, values = str(path), read_recipe_file(path)
        else:
            what = f"The recipe is {shortened(source)}, but must be a path, a dictionary or a `heedful.Recipe`."
            raise UserError(what)
        draft = draft_of(label, values, _base_of(path, values.pop("extends"), label) if "extends" in values else None)
    draft, unapplied = with_overrides(draft, parsed)
    return draft, [*unread, *unapplied]


def recipe_to_json(recipe: Recipe) -> dict[str, Any]:
    """Return a resolved recipe as JSON values, for a bundle's config.json."""
    return recipe.model_dump(mode="json")


def recipe_from_json(
    value: object, where: str, rules: TaskRules | None = None, metrics: Mapping[str, Better] | None = None
) -> Recipe:
    """Check the values of a config.json; `where` names the file in errors, `rules` are as in `load_recipe`.

    `metrics` are those of a program besides Heedful's, which the recipe may name.
    """
    if not isinstance(value, dict):
        raise UserError(f"{where}: must hold a recipe, but is not a JSON object.")
    known = _rules_of(value, rules).with_metrics(metrics) if metrics else rules
    return _checked(draft_of(where, value), rules=known)


def recipe_to_toml(recipe: Recipe) -> str:
    """Write a resolved recipe as a TOML file that loads as the same recipe."""
    return toml_document(recipe.model_dump())


def flat(value: object, path: str = "") -> dict[str, object]:
    """Flatten JSON values to dotted paths: {"model.layers": 6, "data.train.0.source": "train.en", ...}."""
    match value:
        case dict():
            items = value.items()
        case list() | tuple():
            items = enumerate(value)  # type: ignore[assignment]
        case _:
            return {path: value}
    return {k: v for key, part in items for k, v in flat(part, f"{path}.{key}" if path else str(key)).items()}


def _checked(draft: Draft, lines: Sequence[str] = (), rules: TaskRules | None = None) -> Recipe:
    try:
        recipe = Recipe.model_validate(draft.values, context=None if rules is None else {"rules": rules})
    except ValidationError as error:
        raise UserErrors([*lines, *complaints(draft, error)]) from None
    if lines:
        raise UserErrors(lines)
    return recipe


def _base_of(path: Path, extends: object, label: str) -> tuple[str, Table]:
    """Read the recipe that another one extends: a file next to it, or a shipped recipe."""
    if not isinstance(extends, str):
        raise UserError(f"{label}: `extends` must be a text in quotes: a file next to this one, or a shipped recipe.")
    sibling, shipped = path.parent / extends, shipped_recipes()
    with user_faults(sibling):
        base = sibling if sibling.is_file() else shipped.get(extends)
    if base is None:
        what = f"`extends` names `{extends}`, which is neither a file in {path.parent} nor a shipped recipe"
        raise UserError(f"{label}: {what}.{suggestion(extends, list(shipped))}")
    values = read_recipe_file(base)
    if "extends" in values:
        raise UserError(f"{label}: `extends` names {base}, which extends another recipe: only one level is possible.")
    return str(base), values
