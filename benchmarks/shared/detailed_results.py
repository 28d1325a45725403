"""Recorded results with more than figures: with tables, and the names of what failed. All can be added to.

benchmarks/results/NAME.json   what `metrics.recorded_results` writes, and {"details": {...}, "failed": {part: why}}
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from heedful.base.files import read_json, write_json
from heedful.metrics.recorded_results import record, result_file


@dataclass(frozen=True)
class Detailed:
    """What a benchmark found."""

    figures: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)  # everything that is not a single figure, by name
    failed: Mapping[str, str] = field(default_factory=dict)  # parts, and why


def recorded(name: str, folder: Path) -> Detailed:
    """What stands in a result's file; nothing where there is none."""
    path = result_file(name, folder)
    if not path.exists():
        return Detailed()
    found = read_json(path)
    assert isinstance(found, dict)
    return Detailed(*(found.get(part, {}) for part in ("figures", "details", "failed")))


def save(name: str, found: Detailed, folder: Path, seeds: Sequence[int] = ()) -> Path:
    """Write a result's file anew and return its path."""
    path = record(name, found.figures, command=command_line(), seeds=seeds, folder=folder)
    written = read_json(path)
    assert isinstance(written, dict)
    write_json(path, written | {"details": dict(found.details), "failed": dict(found.failed)})
    return path


_FOLDERS: Final = ("--data", "--files", "--wikitext", "--model", "--texts")  # options whose values are local paths
_FILES: Final = ("--sources", "--references")  # and of files
_PLACES: Final = ("--runs", "--results", "--models")  # which say nothing of the work


def command_line() -> str:
    """What was typed, as far as it concerns the work: not where somebody's folders are."""
    typed: list[str] = []
    given = iter(sys.argv[1:])
    for word in given:
        if word in _PLACES:
            next(given, None)
            continue
        typed.append(word)
        if word in (*_FOLDERS, *_FILES) and next(given, None) is not None:
            typed.append("FOLDER" if word in _FOLDERS else "FILE")
    program = Path(sys.argv[0])
    return shlex.join(["python", "-m", f"benchmarks.{program.parent.name}.{program.stem}", *typed])
