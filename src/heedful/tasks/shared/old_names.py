"""Names that Python callers used before images were called images; they work with a warning for one version."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from heedful.base.arguments import warn_of_old_name
from heedful.config.corpora.old_names import OLD_KEYS

Kind = TypeVar("Kind", bound=type)


def takes_old_names(kind: Kind) -> Kind:
    """Let the public methods of a class be called by their old names, and with the old names of their arguments."""
    for name, function in list(vars(kind).items()):
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if not {*OLD_KEYS.values()}.isdisjoint(inspect.signature(function).parameters):
            setattr(kind, name, _with_old_keywords(function))
    kind.__getattr__ = _attribute  # type: ignore[attr-defined]  # help() and the reference do not list it
    return kind


def _with_old_keywords(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        for old in OLD_KEYS.keys() & keywords.keys():
            warn_of_old_name(old, OLD_KEYS[old])
            keywords[OLD_KEYS[old]] = keywords.pop(old)
        return function(*arguments, **keywords)

    return called


def _attribute(self: object, name: str) -> Any:
    current = name.replace("picture", "image")
    if current == name or not hasattr(type(self), current):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    warn_of_old_name(name, current)
    return getattr(self, current)
