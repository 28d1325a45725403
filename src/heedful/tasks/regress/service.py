"""Regressors of texts and images for other programs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from heedful.tasks.regress.answers import Number, answers_of
from heedful.tasks.shared.answering.answers import Answers
from heedful.tasks.shared.answering.service import PassService


class RegressService(PassService):
    """A regressor that answers requests."""

    def answers(self, options: Mapping[str, Any]) -> Answers[Any]:
        """See `PassService.answers`."""
        return replace(answers_of(self.model), fields=_fields)


def _fields(number: Number) -> Mapping[str, Any]:
    return {"value": number.value, **({"cut": True} if number.cut else {})}
