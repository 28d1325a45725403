"""Builds a release: sdist and wheel, each twice with equal bytes, tried in an environment of their own.

    python -m scripts.supply.release [FOLDER] [--steps N]       # dist/, and the demo as it ships

The wheel is installed into a bare environment, where its demo trains, translates and draws its page. A release is what
was tried: nothing is left in the folder if a build differs from the other, or if the demo fails.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(folder: Path) -> dict[str, Path]:
    """Return the sdist and the wheel by their names, built into a folder."""
    command = [sys.executable, "-P", "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {path.name: path for path in sorted(folder.iterdir())}


def differing(first: dict[str, Path], second: dict[str, Path]) -> list[str]:
    """Return the names of files that one of two builds lacks, or whose bytes are not equal."""
    equal = {name for name in first.keys() & second.keys() if first[name].read_bytes() == second[name].read_bytes()}
    return sorted(first.keys() ^ second.keys() | first.keys() - equal)


def try_demo(wheel: Path, folder: Path, arguments: Sequence[str]) -> None:
    """Run the demo from a wheel, in a new environment that has nothing else, outside of the source tree."""
    venv.create(folder / "environment", with_pip=True)
    binaries = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    install = [str(binaries / "python"), "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    subprocess.run([binaries / "heedful", "demo", "--out", folder / "demo", *arguments], cwd=folder, check=True)


def main() -> None:
    """Build, compare and try a release; say what was made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("dist"))
    parser.add_argument("--steps", help="updates of the demo (default: as it ships)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        first, second = build(work / "1"), build(work / "2")
        if different := differing(first, second):
            raise SystemExit(f"Two builds are not equal: {', '.join(different)}. Nothing was released.")
        (wheel,) = (path for name, path in first.items() if name.endswith(".whl"))
        try_demo(wheel, work, [] if options.steps is None else ["--set", f"train.steps={options.steps}"])
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, path in first.items():
            shutil.copy(path, options.folder / name)
            print(f"{sha256(path.read_bytes()).hexdigest()}  {options.folder / name}")


if __name__ == "__main__":
    main()
