"""Readers, which answer questions about texts, for other programs."""

from collections.abc import Mapping
from typing import Any, ClassVar

from heedful.base.options import Option, options_of
from heedful.tasks.answer.answer import Choice, ChoiceOptions
from heedful.tasks.answer.answers import answers_of
from heedful.tasks.shared.answering.answers import Answers
from heedful.tasks.shared.answering.service import PassService


class AnswerService(PassService):
    """A reader that answers requests."""

    options: ClassVar[Mapping[str, Option]] = {
        **options_of(ChoiceOptions),
        "n_best": Option("Number of answers.", 1, least=1, most=100, kind=int),
    }

    def answers(self, options: Mapping[str, Any]) -> Answers[Any]:
        """See `PassService.answers`."""
        model: Any = self.model
        return answers_of(model, Choice(**options))
