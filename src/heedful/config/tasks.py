"""The rules of all tasks by name. The half of each task that needs torch is in `heedful.tasks`."""

from collections.abc import Mapping
from typing import Final

from heedful.config.rules.answer import ANSWER
from heedful.config.rules.answer_images import ANSWER_IMAGES
from heedful.config.rules.caption import CAPTION
from heedful.config.rules.classify import CLASSIFY
from heedful.config.rules.classify_images import CLASSIFY_IMAGES
from heedful.config.rules.fill import FILL
from heedful.config.rules.generate import GENERATE
from heedful.config.rules.parse import PARSE
from heedful.config.rules.tag import TAG
from heedful.config.rules.task_rules import TaskRules
from heedful.config.rules.translate import TRANSLATE
from heedful.errors import UserError

TASKS: Final[Mapping[str, TaskRules]] = {
    rules.name: rules
    for rules in (
        TRANSLATE,
        PARSE,
        CLASSIFY,
        CLASSIFY_IMAGES,
        CAPTION,
        TAG,
        FILL,
        GENERATE,
        ANSWER,
        ANSWER_IMAGES,
    )
}
_USUAL: Final[Mapping[str, TaskRules]] = {  # the usual task of each family: the first that it can learn
    family: rules for rules in reversed([*TASKS.values()]) for family in rules.families
}


def find_rules(task: str | None, family: str, given: TaskRules | None) -> TaskRules:
    """Return the rules of a recipe's task: the task it names, or the usual one of its family.

    `given` are the rules of a task that is not in the table, passed by the caller who trains or loads a model.
    """
    if given is not None:
        if task not in (None, given.name):
            raise ValueError(f'`task` is "{task}", but the task that was passed is "{given.name}"')
        return given
    if task is None:
        return _USUAL[family]
    if task not in TASKS:
        raise ValueError(
            f'`task` is "{task}", which is not a task of Heedful: use one of {", ".join(TASKS)}; a task of your own is '
            "passed in Python, by `task=...`"
        )
    return TASKS[task]


def from_outside(rules: TaskRules) -> TaskRules | None:
    """Return the rules if they are those of a task outside the table; None otherwise."""
    return None if TASKS.get(rules.name) is rules else rules


def refuse_evaluation_option(name: str, shown: str, rules: TaskRules, model: str) -> None:
    """Refuse an option that the evaluation of a model's task does not have; `shown` is how the caller spells it."""
    owner = next((other for other in TASKS.values() if name in other.evaluation_options), None)
    fits = rules.searches if owner is None else name in rules.evaluation_options
    if not fits:
        users = (owner or TRANSLATE).learner.removeprefix("a ")
        raise UserError(f"{shown} is for {users}s, which {model} is not: leave it out.")
