"""Gives a recipe the defaults that follow its run: counts its corpora, reads the rules, and checks the result.

A recipe that sets `train.schedule`, or that takes a model as its start or teacher, is left as it is, but for a warm-up
that would outlast the run.
"""

from collections.abc import Mapping
from typing import Any, Final

from heedful.config.reading.load import load_recipe
from heedful.config.reading.toml import shown
from heedful.config.recipe import FollowedDefaults, Recipe
from heedful.config.section import Section
from heedful.defaults.every_run import EVERY_RUN, has_usual_warmup, shorter_warmup
from heedful.defaults.facts import LITTLE, CorpusFacts, count
from heedful.defaults.images import IMAGES
from heedful.defaults.pairs import PAIRS
from heedful.defaults.questions import QUESTIONS
from heedful.defaults.rules import Case, TaskDefaults
from heedful.defaults.running_text import RUNNING_TEXT
from heedful.defaults.split import with_held_out_rows, with_split_of
from heedful.defaults.tagged import TAGGED
from heedful.defaults.texts import TEXTS
from heedful.defaults.trees import TREES

BY_TASK: Final[Mapping[str, TaskDefaults[Any]]] = {
    "answer": QUESTIONS,
    "classify": TEXTS,
    "fill": RUNNING_TEXT,
    "generate": RUNNING_TEXT,
    "parse": TREES,
    "regress": TEXTS,
    "tag": TAGGED,
    "translate": PAIRS,
}  # all tasks that read images have the rules of IMAGES
ALL_KEYS: Final = tuple(
    dict.fromkeys(
        rule.key for rules in (*(task.rules for task in (*BY_TASK.values(), IMAGES)), EVERY_RUN) for rule in rules
    )
)
_UNKNOWN: Final = CorpusFacts(LITTLE, 0, more=True)


def with_followed_defaults(recipe: Recipe) -> Recipe:
    """Return the recipe with the defaults that follow its run, and which these are; unreadable data changes nothing."""
    recipe = with_held_out_rows(recipe)
    facts, task = None, _task_defaults(recipe)
    if task is not None and (_is_open(recipe) or (has_usual_warmup(recipe) and recipe.train.epochs is not None)):
        facts = count(task.rows(recipe))
        if facts is None:
            return recipe  # training says what is wrong with the data
    decided = decide(recipe, facts)
    if not decided:
        return recipe
    changed = load_recipe(recipe, decided)
    corpus = "" if facts is None or task is None else facts.words(task.noun)
    changed.follow(FollowedDefaults(tuple(decided), corpus))
    return changed


def decide(recipe: Recipe, facts: CorpusFacts | None) -> Mapping[str, Any]:
    """Return the values of the keys that follow the run; without facts, of those that do not depend on the corpus."""
    task = None if facts is None else _task_defaults(recipe)
    case = (Case if task is None else task.case)(recipe, facts or _UNKNOWN)
    if not _is_open(recipe):
        return shorter_warmup(case)
    for rule in (*(() if task is None else task.rules), *EVERY_RUN):
        if rule.key not in case.decided and not case.sets(rule.key) and rule.when(case):
            case.decided[rule.key] = rule.value(case)
    return case.decided


def with_values_of(recipe: Recipe, run: Recipe) -> Recipe:
    """Return the recipe of a run that is resumed: keys that follow a run have the values that it began with."""
    recipe = with_split_of(recipe, run)
    if recipe.train.start_from:
        return recipe
    said = Case(recipe, _UNKNOWN)
    values = {key: _value(run, key) for key in ALL_KEYS if not said.sets(key)}
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


def describe_defaults(recipe: Recipe) -> str | None:
    """Return the line that training prints about the defaults that follow the run; None if there are none."""
    followed = recipe.followed
    if followed is None:
        return None
    values = ", ".join(f"{key} = {shown(_value(recipe, key, whole=False))}" for key in followed.keys)
    return f"defaults for {followed.corpus or 'this run'}: {values}"


def _task_defaults(recipe: Recipe) -> TaskDefaults[Any] | None:
    """Return the defaults of the recipe's task, if there are any for its model."""
    reads_images = any("image" in form.needed for form in recipe.rules.roles)
    task = IMAGES if reads_images else BY_TASK.get(recipe.rules.name)
    return task if task is not None and isinstance(recipe.model, task.models) else None


def _is_open(recipe: Recipe) -> bool:
    train = recipe.train
    return not train.start_from and train.distill is None and "schedule" not in train.model_fields_set


def _value(recipe: Recipe, key: str, whole: bool = True) -> Any:
    """Return the value of a key as recipes write it, `whole` with the defaults of a table; None without such a key."""
    found: Any = recipe
    for part in key.split("."):
        found = getattr(found, part) if part in getattr(type(found), "model_fields", ()) else None
    if isinstance(found, Section):
        return found.model_dump(mode="json", exclude_none=True, exclude_unset=not whole)
    return found
