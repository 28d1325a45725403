"""Run folders: what they hold, and what a run printed."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

from rich.console import Console
from safetensors.numpy import load_file

from heedful.config.recipe import Recipe

Make = Callable[..., Recipe]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def silent() -> Console:
    return Console(file=StringIO(), width=200)


def same_bits(expected: Path, found: Path) -> None:
    tensors = load_file(expected), load_file(found)
    assert tensors[0].keys() == tensors[1].keys()
    assert all(tensors[0][name].tobytes() == tensors[1][name].tobytes() for name in tensors[0])


def told(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined]


def kept(run: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*"))
