"""`heedful evaluate` as a user calls it, and what it prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from heedful.cli.main import run
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.models.bundle import Bundle

Capture = pytest.CaptureFixture[str]


def evaluate(*arguments: str | Path) -> int:
    return run(["evaluate", "--device", "cpu", *map(str, arguments)])


def shown(capsys: Capture, *arguments: str | Path) -> Any:
    assert evaluate(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: Capture, *arguments: str | Path) -> str:
    assert evaluate(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("heedful: error: ")
    assert printed.err.count("\n") == 1
    return printed.err.removeprefix("heedful: error: ").rstrip("\n")


def changed(bundle: Bundle[Any], path: tuple[str, str], value: object) -> Bundle[Any]:
    """A bundle whose recipe has another value of a key."""
    described = recipe_to_json(bundle.recipe)
    described[path[0]][path[1]] = value
    return Bundle(recipe_from_json(described, "changed"), bundle.vocabularies, bundle.model)
