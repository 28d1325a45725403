"""Captioners for other programs."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from heedful.base.options import Option
from heedful.data.corpora.images import LabelledImage
from heedful.tasks.caption.caption import Caption, CaptionOptions
from heedful.tasks.caption.model import Captioner
from heedful.tasks.shared.answering.answers import read_image
from heedful.tasks.shared.answering.jobs import Result
from heedful.tasks.shared.answering.service import Input, given_options, offered
from heedful.tasks.shared.sequences.service import SearchJob, SearchService

_LEFT_OUT: Final = ("batch_tokens", "sampling", "aligned")


class CaptionService(SearchService):
    """A captioner that answers requests."""

    model: Captioner
    options: ClassVar[Mapping[str, Option]] = {
        **offered(CaptionOptions, *_LEFT_OUT),
        "alternatives": Option("Number of other captions.", 0, least=0, most=10, kind=int),
    }

    @property
    def roles(self) -> tuple[str, ...]:
        """See `Service.roles`."""
        return ("image",)

    def job(self, inputs: Sequence[Input], options: Mapping[str, Any], *, watched: bool = False) -> "CaptionJob":
        """See `Service.job`."""
        images = [read_image(values, f"image {number}") for number, values in enumerate(inputs, start=1)]
        return CaptionJob(self, images, options)


class CaptionJob(SearchJob[list[Caption]]):
    """Images that are described."""

    def __init__(self, service: CaptionService, images: Sequence[LabelledImage], given: Mapping[str, Any]) -> None:
        options: Any = given_options(given)
        self._wanted = options.pop("alternatives", 0)
        if self._wanted and "beam" not in options:
            options["beam"] = max(service.model.recipe.decode.beam, self._wanted + 1)
        asking = service.asking(self._wanted + 1, options, "images")
        super().__init__(service.engine, lambda unit: asking([images[unit]], unit + 1), len(images))

    def finished(self) -> Sequence[Result]:
        """See `SearchJob.finished`."""
        return [self._result(self.answers[unit]) for unit in range(self.size)]

    def _result(self, found: Sequence[Caption]) -> Result:
        best, *others = found
        result: Result = {"text": best.text, "score": best.score, "complete": best.complete}
        if self._wanted:
            result["alternatives"] = [{"text": other.text, "score": other.score} for other in others]
        return result
