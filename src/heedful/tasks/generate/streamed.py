"""A text that is shown while it grows."""

from collections.abc import Callable, Iterator

from heedful.tasks.generate.continuing import GrowingText
from heedful.tasks.generate.generation import Generation


class GenerationStream(Iterator[str]):
    """Yields parts of a text as soon as they are certain; afterwards `generation` has all that is known of it."""

    def __init__(self, parts: Iterator[tuple[str, GrowingText]], finish: Callable[[GrowingText], Generation]) -> None:
        self._parts, self._finish = parts, finish
        self._text: GrowingText | None = None
        self._generation: Generation | None = None

    def __iter__(self) -> "GenerationStream":
        return self

    def __next__(self) -> str:
        """Return the next part, which is never empty."""
        for part, text in self._parts:
            self._text = text
            if part:
                return part
        raise StopIteration

    @property
    def slid(self) -> bool:
        """Whether the window has slid so far."""
        return self._text is not None and self._text.slid

    @property
    def generation(self) -> Generation:
        """The whole text with its tokens and their log probabilities; waits for its end."""
        for _ in self:
            pass
        if self._generation is None:
            assert self._text is not None, "every text has a last part"
            self._generation = self._finish(self._text)
        return self._generation
