"""Gives a recipe the defaults that follow its run: counts its corpora, asks the rules, and checks the result."""

from contextlib import suppress
from itertools import islice
from typing import Any, Final

from heedful.base.errors import HeedfulError
from heedful.config.corpora.texts import RowTexts
from heedful.config.reading.defaults import LITTLE, RULES, CorpusFacts, counts_rows, decide, is_set
from heedful.config.reading.load import load_recipe
from heedful.config.reading.toml import shown
from heedful.config.recipe import FollowedDefaults, Recipe
from heedful.config.section import Section
from heedful.data.corpora.pairs import read_pairs
from heedful.data.corpora.texts import read_texts

_COUNTED: Final = 5 * LITTLE  # rows: more are not read
_NOUNS: Final = {"classify": "texts", "translate": "pairs"}


def with_followed_defaults(recipe: Recipe) -> Recipe:
    """Return the recipe with the defaults that follow its run, and which these are; unreadable data changes nothing."""
    facts, noun = None, _NOUNS.get(recipe.rules.name)
    if noun is not None and counts_rows(recipe):
        facts = count_rows(recipe)
        if facts is None:
            return recipe  # training says what is wrong with the data
    decided = decide(recipe, facts)
    if not decided:
        return recipe
    changed = load_recipe(recipe, decided)
    changed.follow(FollowedDefaults(tuple(decided), "" if facts is None else f"{facts.words} {noun}"))
    return changed


def with_values_of(recipe: Recipe, run: Recipe) -> Recipe:
    """Return the recipe of a run that is resumed: keys that follow a run have the values that it began with."""
    if recipe.train.start_from:
        return recipe
    values = {rule.key: _value(run, rule.key) for rule in RULES if not is_set(recipe, rule.key)}
    taken = {key: value for key, value in values.items() if value is not None}
    if recipe.train.schedule.kind == run.train.schedule.kind and "schedule" in recipe.train.model_fields_set:
        own = recipe.train.schedule.model_fields_set
        taken |= {
            f"train.schedule.{key}": getattr(run.train.schedule, key)
            for key in ("warmup", "factor")
            if key not in own and hasattr(run.train.schedule, key)
        }
    if recipe.train.epochs is not None or run.train.epochs is not None:
        taken.pop("train.steps", None)
    return load_recipe(recipe, taken) if taken else recipe


def count_rows(recipe: Recipe) -> CorpusFacts | None:
    """Count the texts or pairs of the training corpora, and the classes; None if they cannot be read."""
    several = getattr(recipe.model, "labels", "one") == "several"
    rows = characters = spaces = 0
    classes: set[str] = set()
    with suppress(HeedfulError, OSError, ValueError, TypeError):
        for corpus in recipe.data.train:
            left = _COUNTED - rows
            if isinstance(corpus, RowTexts):
                for text in islice(read_texts(corpus, recipe.data.folder, several=several), left):
                    rows, characters = rows + 1, characters + len(text.text)
                    spaces += text.text.count(" ")
                    classes.update(text.labels)
            else:
                for source, _ in islice(read_pairs(corpus, recipe.data.folder), left):
                    rows, characters = rows + 1, characters + len(source)
        return CorpusFacts(rows, characters, len(classes), spaces, more=rows >= _COUNTED) if rows else None
    return None


def told(recipe: Recipe) -> str | None:
    """Return a line about the defaults that follow the run; None if there are none."""
    followed = recipe.followed
    if followed is None:
        return None
    values = ", ".join(f"{key} = {shown(_value(recipe, key, whole=False))}" for key in followed.keys)
    return f"defaults for {followed.corpus or 'this run'}: {values}"


def _value(recipe: Recipe, key: str, whole: bool = True) -> Any:
    """Return the value of a key as recipes write it, `whole` with the defaults of a table; None without such a key."""
    found: Any = recipe
    for part in key.split("."):
        found = getattr(found, part) if part in getattr(type(found), "model_fields", ()) else None
    if isinstance(found, Section):
        return found.model_dump(mode="json", exclude_none=True, exclude_unset=not whole)
    return found
