"""Refusals as tables: what must be refused, and in which words.

The full text of a message is in one test, so that to reword a message is one edit there. Other tests that meet the same
message abbreviate it: `like("`gpu` is not a device: ...")`. tests/architecture/test_messages.py checks that.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from heedful.base.errors import UserError


class like(str):  # noqa: N801 - it is used like pytest.approx
    """A text that equals every text in which `...` is replaced by other text of one line."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        pattern = ".*".join(re.escape(part) for part in self.split("..."))
        return isinstance(other, str) and re.fullmatch(pattern, other) is not None

    __hash__ = str.__hash__


@contextmanager
def refuses(message: str, error: type[BaseException] = UserError) -> Iterator[None]:
    """Expect an error with this message; `...` in it is any text of one line."""
    with pytest.raises(error) as caught:
        yield
    assert str(caught.value) == like(message)


@dataclass(frozen=True)
class Refusal:
    """A row of a table: something that must be refused, in words, and the message; `...` in it is any text.

    `act` is called with what `check` is given, such as a model or a folder.
    """

    what: str
    act: Callable[..., object]
    message: str
    error: type[BaseException] = field(default=UserError, kw_only=True)

    def __str__(self) -> str:
        return self.what

    def check(self, *given: Any) -> None:
        """Act, and expect the refusal."""
        with refuses(self.message, self.error):
            self.act(*given)


def each(refusals: list[Refusal]) -> pytest.MarkDecorator:
    """Run a test for each row of a table, as its argument `refusal`; the words of a row are the name of its test."""
    return pytest.mark.parametrize("refusal", refusals, ids=str)
