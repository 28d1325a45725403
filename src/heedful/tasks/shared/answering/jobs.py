"""Jobs: requests of other programs, which move side by side, step by step, on the thread of their model.

done = job.advance(room)     it takes what was found, and asks for more
service.tick()               one step of everything that was asked for (`service.py`)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from re import sub
from typing import Any, Final

from heedful.base.errors import UserError
from heedful.tasks.shared.answering.streaming import Batcher, Work

Result = dict[str, Any]  # what JSON can hold
Changes = Mapping[str, Any]  # fields of an event of a stream
_NUMBERS: Final = count(1)  # of all items: those with consecutive numbers share a batch


class Job(ABC):
    """One request. All its methods but `details` are called by the thread of its model."""

    results: Sequence[Result] = ()  # one for each input, once it is done
    tokens_read = tokens_written = 0  # of all inputs and results, where the job counts them
    detailed = False  # whether `details` has something to add

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of sequences that it will ask for."""

    @abstractmethod
    def advance(self, room: int) -> bool:
        """Take what was found and ask for more, so that at most `room` sequences are under way; return if it is done.

        What is wrong with the request is raised as a UserError.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Stop what is under way."""

    def changes(self) -> Changes | None:
        """Return what is new for whoever watches, since the last call."""
        return None

    def details(self) -> None:
        """Add to the results what takes longer, and was asked for. It is called when the job is done, by any thread."""
        return


class PassJob(Job):
    """Inputs that a batcher answers, each with one forward pass."""

    def __init__(self, batcher: Batcher[Any, Any], items: Sequence[Any], finish: Callable[[Any], Result]) -> None:
        self._batcher, self._items, self._finish = batcher, items, finish
        self._works: list[Work[Any, Any]] | None = None
        self.found: list[Any] = []

    @property
    def size(self) -> int:
        """Number of inputs."""
        return len(self._items)

    def advance(self, room: int) -> bool:
        """See `Job.advance`. What one input has that cannot be answered refuses the request."""
        if self._works is None:
            self._works = [self._batcher.add(item, next(_NUMBERS)) for item in self._items]
        if not all(work.done for work in self._works):
            return False
        for place, work in enumerate(self._works, start=1):
            if work.error is not None:
                raise UserError(sub(r"\b(input|text)s?, line [\d,]+", f"input {place:,}", str(work.error)))
        self.found = [work.answers[0] for work in self._works]
        self.results = [self._finish(found) for found in self.found]
        return True

    def cancel(self) -> None:
        """See `Job.cancel`."""
        self._batcher.cancel(*(self._works or ()))
