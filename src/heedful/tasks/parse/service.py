"""Parsers for other programs."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from heedful.base.options import Option
from heedful.tasks.parse.answers import answers_of
from heedful.tasks.parse.model import Parse, Parser
from heedful.tasks.parse.parse import ParseOptions
from heedful.tasks.shared.answering.jobs import Result
from heedful.tasks.shared.answering.service import Input, given_options, offered
from heedful.tasks.shared.sequences.service import SearchJob, SearchService

_LEFT_OUT: Final = ("batch_tokens", "sampling")


class ParseService(SearchService):
    """A parser that answers requests."""

    model: Parser
    options: ClassVar[Mapping[str, Option]] = {
        **offered(ParseOptions, *_LEFT_OUT),
        "n_best": Option("Number of trees.", 1, least=1, most=100, kind=int),
    }

    def job(self, inputs: Sequence[Input], options: Mapping[str, Any], *, watched: bool = False) -> "ParseJob":
        """See `Service.job`."""
        return ParseJob(self, [values["text"] for values in inputs], options)


class ParseJob(SearchJob[list[Parse]]):
    """Sentences that are parsed."""

    def __init__(self, service: ParseService, texts: Sequence[str], given: Mapping[str, Any]) -> None:
        options: Any = given_options(given)
        n_best = options.pop("n_best", None)
        asking = service.asking(n_best or 1, options, "text")
        self._fields = answers_of(service.model, n_best=n_best).fields
        super().__init__(service.engine, lambda unit: asking([texts[unit]], 1), len(texts))

    def finished(self) -> Sequence[Result]:
        """See `SearchJob.finished`."""
        return [dict(self._fields(self.answers[unit])) for unit in range(self.size)]
