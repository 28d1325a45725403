"""Taggers for other programs."""

from collections.abc import Mapping
from typing import Any

from heedful.tasks.shared.answering.answers import Answers
from heedful.tasks.shared.answering.service import PassService
from heedful.tasks.tag.answers import answers_of


class TagService(PassService):
    """A tagger that answers requests."""

    def answers(self, options: Mapping[str, Any]) -> Answers[Any]:
        """See `PassService.answers`."""
        model: Any = self.model
        return answers_of(model)
