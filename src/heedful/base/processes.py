"""Python processes that Heedful starts: none of them imports modules from the current folder.

Python puts the current folder first on the path of `python -m NAME`: a `filelock.py` in a folder of downloaded data
would be executed by a command that only reads this data.
"""

# ruff: noqa: PTH109, PTH120
# This file is imported before the path of a process is safe: only modules that every interpreter has loaded by then,
# so not pathlib.
import os
import sys


def run_module(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in a process of its own; `child_environment` goes with it."""
    return [sys.executable, "-P", "-m", module, *arguments]


def child_environment(package: str = "heedful") -> dict[str, str]:
    """Return the environment of such a process: it finds modules where this process does, but for the current folder.

    Only where that is the home of the `package` itself, as in a source tree, it stays on the path: at its end, so that
    it can hide no module that is installed.
    """
    here = os.path.realpath(os.getcwd())
    places = [place for place in sys.path if place and os.path.realpath(place) != here]
    if _home(package) == here:
        places.append(here)
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(places)}


def leave_current_folder() -> None:
    """Take the current folder off the path of this process if `python -m heedful` alone has put it there.

    Called before anything but this module is imported: a module of that folder could only be executed by being called
    `heedful` itself, which `python -P -m heedful` and the installed command `heedful` exclude too.
    """
    if sys.flags.safe_path or sys.argv[:1] != ["-m"] or not sys.path:
        return  # `-m` is all that the arguments hold until the module that was named is found
    words = zip(sys.orig_argv[1:], sys.orig_argv[2:], strict=False)
    named = [name for flag, name in words if flag[:1] == "-" and flag[-1] == "m"]
    here = os.path.realpath(os.getcwd())
    if not named or named[0].partition(".")[0] != "heedful" or os.path.realpath(sys.path[0]) != here:
        return
    first = sys.path.pop(0)
    if _home("heedful") == here:
        sys.path.append(first)


def _home(package: str) -> str | None:
    """Return the folder that a package was imported from; None if it was not imported."""
    places = list(getattr(sys.modules.get(package), "__path__", ()))
    return os.path.realpath(os.path.dirname(places[0])) if places else None
