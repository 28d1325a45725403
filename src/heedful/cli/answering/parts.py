"""Inputs in parts: the inputs of a part are answered together, and no others with them.

A matrix product rounds in an order that depends on its size, so that the last digits of a score depend on the inputs
that are answered together. Every command answers the same inputs together, whether it answers all of them or, in a
batch job, some parts: what several workers write, joined, is what one would have written, byte for byte.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from heedful.base.errors import UserError
from heedful.cli.answering.inputs import Source
from heedful.data.corpora.formats.lines import Passed
from heedful.tasks.shared.answering.answers import Given

SIZE = 10_000  # inputs of a part: seconds to minutes of work, which is what a kill costs


class Section(NamedTuple):
    """Inputs of one source that are answered together."""

    source: Source
    before: int  # number of inputs before them, in all sources
    inputs: Iterator[Given]


class Reader:
    """The inputs of a source, read forward; `at` counts those that were read or passed over."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._open()

    def _open(self) -> None:
        self.at, self._passed = 0, Passed()
        self._next: Given | None = None
        self._inputs = iter(self._source.inputs(self._passed))

    def has_more(self) -> bool:
        """Whether there are more inputs."""
        self._next = self._next or next(self._inputs, None)
        return self._next is not None

    def until(self, end: int) -> Iterator[Given]:
        """Yield the inputs up to a number."""
        while self.at < end and self.has_more():
            given, self._next = self._next, None
            assert given is not None
            self.at += 1
            yield given

    def between(self, start: int, end: int) -> Iterator[Given]:
        """Yield all inputs from one number to another, which were counted before."""
        if start < self.at:
            self._open()
        self.at = self._passed.lines = start
        yield from self.until(end)
        if self.at < end:
            name = self._source.name
            raise UserError(f"{name} has {self.at:,} inputs, but had more before: leave it as it is while it is read.")


def in_parts(sources: Sequence[Source]) -> Iterator[Section]:
    """Yield all inputs, in order."""
    before = 0
    for source in sources:
        reader = Reader(source)
        while reader.has_more():
            first = before + reader.at
            yield Section(source, first, reader.until(first - first % SIZE + SIZE - before))
        before += reader.at


class Parts:
    """Inputs whose number is known, of which any part can be read; least is read if parts are asked for in order."""

    def __init__(self, sources: Sequence[Source], counts: Sequence[int], size: int) -> None:
        self._sources, self._counts, self._size = sources, counts, size
        self._readers = dict[int, Reader]()

    def count(self, part: int) -> int:
        """Return the number of inputs of a part."""
        return min((part + 1) * self._size, sum(self._counts)) - part * self._size

    def sections(self, part: int) -> Iterator[Section]:
        """Yield the inputs of a part."""
        start, end, before = part * self._size, (part + 1) * self._size, 0
        for index, (source, count) in enumerate(zip(self._sources, self._counts, strict=True)):
            first, last = max(start, before), min(end, before + count)
            if first < last:
                reader = self._readers.setdefault(index, Reader(source))
                yield Section(source, first, reader.between(first - before, last - before))
            before += count
