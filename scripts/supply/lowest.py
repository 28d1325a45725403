"""Prints the lowest versions that pyproject.toml allows, as constraints for pip: `make test-lowest`.

    python -m scripts.supply.lowest [NAME=VERSION ...]        # other versions of some, where an index lacks the lowest

Tools of development keep the versions of constraints.txt: nobody who installs Heedful gets them.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def lowest_versions() -> dict[str, str]:
    """Return the lower bounds of all dependencies and of those of the extras `track` and `hf`, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return dict(map(_lower_bound, [*project["dependencies"], *extras["track"], *extras["hf"]]))


def _lower_bound(line: str) -> tuple[str, str]:
    requirement = Requirement(line)
    bounds = [part.version for part in requirement.specifier if part.operator == ">="]
    if len(bounds) != 1:
        raise SystemExit(f"pyproject.toml: {line!r} must have one lower bound, `>=`.")
    return canonicalize_name(requirement.name), bounds[0]


def constraints(others: Iterable[str] = ()) -> str:
    """Return a constraints file: the lowest versions, then the tools of constraints.txt."""
    lowest = lowest_versions() | dict(other.split("=", 1) for other in others)
    tools = [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if (found := re.match(r"[\w.-]+", line)) and canonicalize_name(found[0]) not in lowest
    ]
    return "".join(f"{line}\n" for line in [*(f"{name}=={version}" for name, version in lowest.items()), *tools])


if __name__ == "__main__":
    print(constraints(sys.argv[1:]), end="")
