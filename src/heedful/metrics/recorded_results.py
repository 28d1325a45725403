"""Recorded results: figures with the command, the machine and the versions that produced them.

benchmarks/results/NAME.json   {"name", "command", "date", "machine", "versions", "seeds", "figures": {key: number}}
"""

import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import torch

from heedful.base.errors import UserError
from heedful.base.files import read_json, write_json
from heedful.version import __version__

RESULTS: Final = Path("benchmarks/results")
_VERSIONED: Final = ("torch", "tokenizers", "sacrebleu")


def record(
    name: str,
    figures: Mapping[str, float],
    *,
    command: str,
    seeds: Sequence[int] = (),
    folder: Path = RESULTS,
    merge: bool = False,
) -> Path:
    """Write `folder`/NAME.json and return its path. With `merge`, figures already recorded there are kept."""
    path = result_file(name, folder)
    unusable = [key for key, figure in figures.items() if not math.isfinite(figure)]
    if unusable:
        key = unusable[0]
        raise UserError(f"`{key}` is {figures[key]}, which cannot be recorded: a figure must be a finite number.")
    recorded = read_json(path) if merge and path.exists() else {"figures": {}}
    old = recorded.get("figures") if isinstance(recorded, dict) else None
    if not isinstance(old, dict):
        raise UserError(f"{path} has no `figures` to add to: delete it, or record under another name.")
    result = {
        "name": name,
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "versions": {
            "python": platform.python_version(),
            "heedful": __version__,
            **{package: version(package) for package in _VERSIONED},
        },
        "seeds": list(seeds),
        "figures": {**old, **figures},
    }
    write_json(path, result)
    return path


def result_file(name: str, folder: Path = RESULTS) -> Path:
    """Return the path of a result, or refuse an invalid name before any long work starts."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(f"`{name}` cannot name a result: use letters, digits, `.`, `-` and `_`.")
    return folder / f"{name}.json"


def machine() -> dict[str, str | int]:
    """Describe this machine: CPU, cores, system and GPUs."""
    gpus = torch.cuda.device_count()
    described: dict[str, str | int] = {"cpu": cpu_name(), "cores": os.cpu_count() or 0, "system": platform.platform()}
    return described | ({"gpu": torch.cuda.get_device_name(0), "gpus": gpus} if gpus else {})


def cpu_name() -> str:
    """Return the name of the processor, which Linux keeps in /proc/cpuinfo."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
