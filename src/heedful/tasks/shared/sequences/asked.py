"""What a task asks of an engine: queries of some inputs, and how the answers follow from what is found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from heedful.decode.engine import Engine
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.search import ProgressCallback
from heedful.decode.settings import SearchSettings

Answer = TypeVar("Answer")
Found = list[list[Hypothesis]]  # the targets of each query, best first


@dataclass(frozen=True)
class Asked(Generic[Answer]):
    """Queries, and what becomes of what is found for them: answers, or further queries."""

    queries: Sequence[Query]
    settings: SearchSettings
    batch_tokens: int
    then: Callable[[Found], "Sequence[Answer] | Asked[Answer]"]
    sure: int | None = None  # number of queries that need no further ones, if not all


class Reported:
    """How many of the inputs of one call are finished, as far as its caller was told."""

    def __init__(self, progress: ProgressCallback, inputs: int) -> None:
        self._progress, self._left = progress, inputs

    def __call__(self, ready: int) -> None:
        """Report inputs that were just finished."""
        self._left -= ready
        if ready:
            self._progress(ready)

    def of(self, asked: Asked[Answer]) -> ProgressCallback:
        """Return what reports queries: only as many as need no further ones."""
        left = len(asked.queries) if asked.sure is None else asked.sure

        def report(ready: int) -> None:
            nonlocal left
            told = min(ready, left)
            left -= told
            self(told)

        return report

    def end(self) -> None:
        """Report the inputs that are left: those without queries, and those with further ones."""
        self(self._left)


def answer(engine: Engine, asked: Asked[Answer], inputs: int, progress: ProgressCallback) -> Sequence[Answer]:
    """Return the answers to some inputs; `progress` is called with the number of those finished since the last call."""
    reported = Reported(progress, inputs)
    while True:
        found = engine.run(asked.queries, asked.settings, asked.batch_tokens, reported.of(asked))
        after = asked.then(found)
        if not isinstance(after, Asked):
            reported.end()
            return after
        asked = after
