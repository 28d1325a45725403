"""The command that runs: the words that were typed, its verb, and the options that the user gave."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Command:
    """A command line, as far as it is known by now."""

    words: tuple[str, ...] = ()
    verb: str = ""
    options: Mapping[str, object] = field(default_factory=dict)  # by flag; those with their defaults are left out


_CURRENT: ContextVar[Command] = ContextVar("command", default=Command())  # noqa: B039 - frozen


def current() -> Command:
    """Return the command that runs."""
    return _CURRENT.get()


@contextmanager
def running(**known: Any) -> Iterator[None]:
    """Say inside the block what is known of the command that runs."""
    before = _CURRENT.set(replace(_CURRENT.get(), **known))
    try:
        yield
    finally:
        _CURRENT.reset(before)
