"""Language models for other programs: texts that grow, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from heedful.base.options import Option
from heedful.tasks.generate.continuation_text import ContinuationText
from heedful.tasks.generate.continuing import Growth, whole_text
from heedful.tasks.generate.generation import GenerateOptions
from heedful.tasks.generate.model import TextGenerator
from heedful.tasks.shared.answering.jobs import Changes, Job, Result
from heedful.tasks.shared.answering.service import Input, given_options, offered
from heedful.tasks.shared.sequences.service import SearchService

_LEFT_OUT: Final = ("batch_tokens",)


class GenerateService(SearchService):
    """A language model that answers requests."""

    model: TextGenerator
    options: ClassVar[Mapping[str, Option]] = offered(GenerateOptions, *_LEFT_OUT)
    streams: ClassVar[bool] = True

    def job(self, inputs: Sequence[Input], options: Mapping[str, Any], *, watched: bool = False) -> "GenerateJob":
        """See `Service.job`."""
        return GenerateJob(self.model, [values["text"] for values in inputs], options, watched)


class GenerateJob(Job):
    """Prompts that are continued, each with one text or several."""

    def __init__(self, model: TextGenerator, prompts: Sequence[str], given: Mapping[str, Any], watched: bool) -> None:
        options: Any = given_options(given)
        self._tokenizer, self._watched = model.vocabularies["text"], watched
        self._work, self._samples, encoded = model.continuing(prompts, options, "text")
        self._encoded, self._prompts, self._growth = encoded, len(prompts), list[Growth]()
        self._next = 0
        self._words = ContinuationText(self._tokenizer, encoded[0], self._work.request.stop) if watched else None
        self._known, self._ended = 0, False
        self.tokens_read = sum(map(len, encoded))

    @property
    def size(self) -> int:
        """Number of texts that are under way at once for one prompt, times the prompts."""
        return self._prompts * self._samples

    def advance(self, room: int) -> bool:
        """See `Job.advance`."""
        for growth in self._growth:
            growth.advance()
        left = sum(growth.left for growth in self._growth)
        while self._next < self._prompts and (not left or left + self._samples <= room):
            texts = self._work.begin([self._encoded[self._next]], self._next)
            self._growth.append(Growth(self._work, texts, drafts=self._watched))
            left, self._next = left + self._growth[-1].left, self._next + 1
        if left or self._next < self._prompts:
            return False
        self.results = [self._result(growth) for growth in self._growth]
        return True

    def cancel(self) -> None:
        """See `Job.cancel`."""
        for growth in self._growth:
            growth.cancel()

    def changes(self) -> Changes | None:
        """Return what more is certain of the only text."""
        if self._words is None or not self._growth or self._ended:
            return None
        (growth,) = self._growth
        certain = self._work.request.settings.beam == 1 or not growth.left  # of a beam only the end is
        tokens = growth.tokens() if certain else ()
        more = self._words.add(tokens[self._known :])
        self._known = max(self._known, len(tokens))
        if not growth.left:
            more, self._ended = more + self._words.end(), True
        return {"type": "delta", "text": more} if more else None

    def _result(self, growth: Growth) -> Result:
        found = [
            {"text": whole_text(text, self._tokenizer), "ended": text.ended or "length", "tokens": len(text.tokens)}
            for text in growth.texts
        ]
        self.tokens_written += sum(len(text.tokens) for text in growth.texts)
        return {**found[0], **({"samples": found} if self._samples > 1 else {})}
