"""The table of tasks: the rules of each, without torch, and the home of its other half, imported on first use."""

from collections.abc import Mapping
from typing import Final

from heedful.config.task_rules import TaskRules
from heedful.tasks.answer.rules import ANSWER
from heedful.tasks.caption.rules import CAPTION
from heedful.tasks.classify.rules import ANSWER_IMAGES, CLASSIFY, CLASSIFY_IMAGES
from heedful.tasks.fill.rules import FILL
from heedful.tasks.generate.rules import GENERATE
from heedful.tasks.parse.rules import PARSE
from heedful.tasks.regress.rules import REGRESS, REGRESS_IMAGES
from heedful.tasks.tag.rules import TAG
from heedful.tasks.translate.rules import TRANSLATE

TASKS: Final[tuple[tuple[TaskRules, str], ...]] = (  # the first task that a family can learn is its usual one
    (TRANSLATE, "heedful.tasks.translate.task:TranslateTask"),
    (PARSE, "heedful.tasks.parse.task:ParseTask"),
    (CLASSIFY, "heedful.tasks.classify.task:ClassifyTask"),
    (CLASSIFY_IMAGES, "heedful.tasks.classify.task:ClassifyImagesTask"),
    (CAPTION, "heedful.tasks.caption.task:CaptionTask"),
    (REGRESS, "heedful.tasks.regress.task:RegressTask"),
    (REGRESS_IMAGES, "heedful.tasks.regress.task:RegressImagesTask"),
    (TAG, "heedful.tasks.tag.task:TagTask"),
    (FILL, "heedful.tasks.fill.task:FillTask"),
    (GENERATE, "heedful.tasks.generate.task:GenerateTask"),
    (ANSWER, "heedful.tasks.answer.task:AnswerTask"),
    (ANSWER_IMAGES, "heedful.tasks.classify.task:AnswerImagesTask"),
)
RULES: Final[Mapping[str, TaskRules]] = {rules.name: rules for rules, _ in TASKS}
HOMES: Final[Mapping[str, str]] = {rules.name: home for rules, home in TASKS}
