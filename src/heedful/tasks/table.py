"""All tasks of Heedful by name: each has a folder here, and a row in `config.tasks`."""

from collections.abc import Mapping
from typing import Final

from heedful.config.recipe import Recipe
from heedful.tasks.answer.task import AnswerTask
from heedful.tasks.classify.task import ClassifyTask
from heedful.tasks.fill.task import FillTask
from heedful.tasks.generate.task import GenerateTask
from heedful.tasks.images.answer.task import AnswerImagesTask
from heedful.tasks.images.caption.task import CaptionTask
from heedful.tasks.images.classify.task import ClassifyImagesTask
from heedful.tasks.parse.task import ParseTask
from heedful.tasks.protocol import Task
from heedful.tasks.tag.task import TagTask
from heedful.tasks.translate.task import TranslateTask

_ALL: Final[tuple[Task, ...]] = (
    TranslateTask(),
    ParseTask(),
    ClassifyTask(),
    ClassifyImagesTask(),
    CaptionTask(),
    TagTask(),
    FillTask(),
    GenerateTask(),
    AnswerTask(),
    AnswerImagesTask(),
)
TASKS: Final[Mapping[str, Task]] = {task.rules.name: task for task in _ALL}


def find_task(recipe: Recipe, given: Task | None = None) -> Task:
    """Return the task of a recipe: the given one, or the one in the table."""
    return TASKS[recipe.rules.name] if given is None else given
