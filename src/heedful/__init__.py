"""Heedful: train, judge, explain and serve attention models from your own files.

    import heedful
    model = heedful.load("runs/m30k")
    model.translate(["Ein Hund rennt."])

Importing this loads no torch; the first use does.
"""

from typing import TYPE_CHECKING, Any

from heedful.version import __version__

if TYPE_CHECKING:
    from heedful.api import load, train

__all__ = ["__version__", "load", "train"]


def __getattr__(name: str) -> Any:
    if name in ("load", "train"):
        import heedful.api

        return getattr(heedful.api, name)
    raise AttributeError(f"module 'heedful' has no attribute {name!r}")
