"""Classifiers of texts and images, and models that answer questions about images, for other programs."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from heedful.base.options import Option
from heedful.tasks.classify.answers import answers_of, image_answers_of
from heedful.tasks.shared.answering.answers import Answers
from heedful.tasks.shared.answering.service import PassService

_MOST: Final = 100


class ClassifyService(PassService):
    """A classifier that answers requests."""

    def answers(self, options: Mapping[str, Any]) -> Answers[Any]:
        """See `PassService.answers`."""
        return answers_of(self.model)


class AnswerImagesService(PassService):
    """A model that answers requests with questions about images."""

    options: ClassVar[Mapping[str, Option]] = {"n_best": Option("Number of answers.", 1, least=1, most=_MOST, kind=int)}

    def answers(self, options: Mapping[str, Any]) -> Answers[Any]:
        """See `PassService.answers`."""
        model: Any = self.model
        return image_answers_of(model, options.get("n_best", 1))
