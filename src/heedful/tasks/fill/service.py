"""Masked language models for other programs."""

from collections.abc import Mapping
from typing import Any, ClassVar

from heedful.base.options import Option
from heedful.tasks.fill.answers import answers_of
from heedful.tasks.shared.answering.answers import Answers
from heedful.tasks.shared.answering.service import PassService


class FillService(PassService):
    """A masked language model that answers requests."""

    options: ClassVar[Mapping[str, Option]] = {
        "top": Option("Number of tokens: the most likely ones for each mask.", 5, least=1, most=100, kind=int)
    }

    def answers(self, options: Mapping[str, Any]) -> Answers[Any]:
        """See `PassService.answers`."""
        model: Any = self.model
        return answers_of(model, options.get("top", 5))
