"""Heedful: train, evaluate and use attention models on your own files.

    import heedful
    model = heedful.load("runs/m30k")
    model.translate(["Ein Hund rennt."])
    heedful.load("runs/imdb").classify("A wonderful film.")

Importing this package does not import torch; the first use does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from heedful.cores import limit_spinning
from heedful.version import __version__

if TYPE_CHECKING:
    from heedful.decode.settings import Sampling
    from heedful.runs.averaging import average
    from heedful.runs.training_run import train
    from heedful.tasks.loading import load

limit_spinning()  # before anything imports torch, whose threads would otherwise spin while they wait

__all__ = ["Sampling", "__version__", "average", "load", "train"]
_HOMES = {
    "Sampling": "heedful.decode.settings",
    "average": "heedful.runs.averaging",
    "load": "heedful.tasks.loading",
    "train": "heedful.runs.training_run",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        # All at once, so that no name stays bound to a subpackage of the same name that an import brings along.
        globals().update({public: getattr(import_module(home), public) for public, home in _HOMES.items()})
        return globals()[name]
    raise AttributeError(f"module 'heedful' has no attribute {name!r}")
