"""Installed packages: which of them Heedful needs, and under which licences they come."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What packages write that do not use identifiers of SPDX (PEP 639); the longest part that fits counts.
_WORDS: Final[Mapping[str, str]] = {
    "apache 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd 2-clause": "BSD-2-Clause",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "3-clause bsd": "BSD-3-Clause",
    "bsd": "BSD-3-Clause",
    "isc": "ISC",
    "mit": "MIT",
    "mozilla public license 2.0": "MPL-2.0",
    "mpl-2.0 and mit": "MPL-2.0 AND MIT",
    "nvidia proprietary": "LicenseRef-NVIDIA-Proprietary",
    "python software foundation": "PSF-2.0",
}


@dataclass(frozen=True)
class Needed:
    """A package that Heedful needs, itself or through others."""

    found: Distribution
    optional: bool  # only with an extra


def needed_packages(root: str = "heedful", extras: Iterable[str] = ("track", "hf")) -> list[Needed]:
    """Return the installed packages that `root` needs, by name; `root` itself is not among them."""
    always = set(_closure(root, ("",)))
    named = sorted({*always, *_closure(root, ("", *extras))} - {canonicalize_name(root)})
    return [Needed(distribution(name), name not in always) for name in named]


def _closure(root: str, extras: tuple[str, ...]) -> Iterator[str]:
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [(canonicalize_name(root), extras)]
    while waiting:
        name, wanted = waiting.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:  # of another system, or of an extra that is not installed
            continue
        yield name
        for requirement in map(Requirement, found.requires or ()):
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in wanted):
                key = (canonicalize_name(requirement.name), ("", *sorted(requirement.extras)))
                if key not in seen:
                    seen.add(key)
                    waiting.append(key)


def licence(package: Distribution) -> str:
    """Return the licence as an expression of SPDX; what the package says itself where it is none that is known."""
    about: Mapping[str, Any] = package.metadata.json
    if expression := about.get("license_expression"):
        return expression
    lines = [line for line in about.get("classifier", ()) if line.startswith("License ::")]
    classifiers = [line.rpartition("::")[2].strip() for line in lines]
    text = (about.get("license") or "").strip().partition("\n")[0]
    for words in (text, *classifiers):
        fitting = [word for word in _WORDS if re.search(rf"\b{re.escape(word)}\b", words.lower())]
        if fitting:
            return _WORDS[max(fitting, key=len)]
    return text or ", ".join(classifiers) or "none stated"
