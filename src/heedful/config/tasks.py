"""The rules of all tasks by name, as the table of tasks hands them down: they live with their tasks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from heedful.base.errors import UserError
from heedful.base.handed_down import handed_down
from heedful.config.task_rules import TaskRules


class _HandedDown(Mapping[str, TaskRules]):
    """Rules by name, in the order of the table; reading it imports the tasks' rules, and no torch."""

    def __getitem__(self, name: str) -> TaskRules:
        rules: TaskRules = handed_down("tasks")[name]
        return rules

    def __iter__(self) -> Iterator[str]:
        return iter(handed_down("tasks"))

    def __len__(self) -> int:
        return len(handed_down("tasks"))


TASKS: Final = _HandedDown()


@cache
def usual_task(family: str) -> TaskRules:
    """Return the rules of the task that a family is usually trained for: the first that it can learn."""
    return {name: rules for rules in reversed([*TASKS.values()]) for name in rules.families}[family]


def find_rules(task: str | None, family: str, given: TaskRules | None) -> TaskRules:
    """Return the rules of a recipe's task: the task it names, or the usual one of its family.

    `given` are the rules of a task that is not in the table, passed by the caller who trains or loads a model.
    """
    if given is not None:
        if task not in (None, given.name):
            raise ValueError(f'`task` is "{task}", but the task that was passed is "{given.name}"')
        return given
    if task is None:
        return usual_task(family)
    if task not in TASKS:
        raise ValueError(
            f'`task` is "{task}", which is not a task of Heedful: use one of {", ".join(TASKS)}; a task of your own is '
            "passed in Python, by `task=...`"
        )
    return TASKS[task]


def from_outside(rules: TaskRules) -> TaskRules | None:
    """Return the rules if they are those of a task outside the table; None otherwise."""
    return None if TASKS.get(rules.name) is rules else rules


def choose_metrics(names: Sequence[str], rules: TaskRules, model: str) -> tuple[str, ...]:
    """Return which scores to show of a task whose evaluation computes all of them; refuse names that it has not."""
    for name in names:
        if name not in rules.scores:
            raise UserError(
                f"`{name}` is not a metric of {model}, a model that {rules.does}: use one of {', '.join(rules.scores)}."
            )
    return tuple(names)


def refuse_evaluation_option(name: str, shown: str, rules: TaskRules, model: str) -> None:
    """Refuse an option that the evaluation of a model's task does not have; `shown` is how the caller spells it."""
    owner = next((other for other in TASKS.values() if name in other.evaluation_options), None)
    fits = rules.searches if owner is None else name in rules.evaluation_options
    if not fits:
        users = (owner or next(iter(TASKS.values()))).learner.removeprefix("a ")
        raise UserError(f"{shown} is for {users}s, which {model} is not: leave it out.")
