"""What a lower layer is handed by an upper one that it may not import: the table of tasks, for reading recipes."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

_loaders: dict[str, Callable[[], Mapping[str, Any]]] = {}


def hand_down(name: str, load: Callable[[], Mapping[str, Any]]) -> None:
    """Say how a table is loaded when it is first asked for."""
    _loaders[name] = load


@cache
def handed_down(name: str) -> Mapping[str, Any]:
    """Return a table that was handed down."""
    return _loaders[name]()
