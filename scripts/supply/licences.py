"""Checks the licences of all installed packages against the list below.

    python -m scripts.supply.licences

Exit code 1, with one line per package, where a licence is not in the list.
"""

import re
import sys
from importlib.metadata import distributions
from typing import Final

from scripts.supply.packages import licence

# Licences that allow use, change and distribution with a program under MIT. MPL-2.0 asks for the sources of the files
# that are under it, which nobody changes here.
ALLOWED: Final = frozenset(
    (
        "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
        "CNRI-Python", "HPND", "ISC", "MIT", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib",
    )
)  # fmt: skip
# Packages under other licences, by the start of their names, and why they may be installed.
EXCEPTIONS: Final = {
    "nvidia-": "libraries of CUDA, which torch's package for GPUs asks for; they come from NVIDIA, never from us",
}


def is_allowed(expression: str) -> bool:
    """Whether an expression of SPDX can be met by licences of the list."""
    return all(
        any(name.strip(" ()") in ALLOWED for name in re.split(r"\s+OR\s+", part))
        for part in re.split(r"\s+AND\s+", expression)
    )


def main() -> int:
    """Print what is not in the list, and how many packages were looked at."""
    packages = sorted(distributions(), key=lambda package: package.name.lower())
    refused = [
        f"{package.name} {package.version}: {licence(package)} is not in ALLOWED of scripts/supply/licences.py."
        for package in packages
        if not is_allowed(licence(package)) and not package.name.lower().startswith(tuple(EXCEPTIONS))
    ]
    print(*refused, sep="\n", end="\n" if refused else "")
    print(f"licences: {len(packages)} packages, {len(refused)} under a licence that is not in the list")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
