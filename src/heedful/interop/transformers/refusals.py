"""What folders of `transformers` cannot hold: without torch."""

from collections.abc import Iterable

from heedful.config.recipe import Recipe
from heedful.interop.transformers.homes import module_of


def refusals(recipe: Recipe) -> Iterable[tuple[str, str]]:
    """Yield the keys whose values no model of `transformers` has, each with the reason."""
    found = module_of(recipe.model.family, "refusals")
    if found is None:
        return [("model.family", f"transformers has no model like {recipe.model.family}")]
    return found.refusals(recipe)
