"""Heedful: train, judge, explain and serve attention models from your own files.

    import heedful
    model = heedful.load("runs/m30k")
    model.translate(["Ein Hund rennt."])

Importing this loads no torch; the first use does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heedful.api import load, train

__version__ = "0.1.0"
__all__ = ["load", "train"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        import heedful.api

        return getattr(heedful.api, name)
    raise AttributeError(f"module 'heedful' has no attribute {name!r}")
