"""Recipes of each family with a corpus that it learns from, and the one complaint about a wrong one."""

from pathlib import Path

import pytest

from heedful.base.errors import UserError
from heedful.config.reading.load import load_recipe
from heedful.config.recipe import Recipe

PAIR = '{ source = "a.en", target = "a.de" }'
LABELLED = '{ tsv = "a.tsv", text = 2, label = 1 }'
TWO_TEXTS = '{ jsonl = "a.jsonl", text = "one", second = "two", label = "same" }'
RUNNING = '{ text = "a.txt" }'
FAMILIES = {"transformer": PAIR, "classifier": LABELLED, "bert": RUNNING}  # each with what it learns from


def load(family: str, train: str, *, data: str = "", model: str = "", rest: str = "", top: str = "") -> Recipe:
    text = f'{top}\n[data]\ntrain = {train}\n{data}\n[model]\nfamily = "{family}"\n{model}\n{rest}\n'
    Path("my.toml").write_text(text, encoding="utf-8")
    return load_recipe("my.toml")


def complaint(family: str, train: str, *, data: str = "", model: str = "", rest: str = "", top: str = "") -> str:
    """The only line, without the file that stands before it."""
    with pytest.raises(UserError) as caught:
        load(family, train, data=data, model=model, rest=rest, top=top)
    line = str(caught.value)
    assert line.startswith("my.toml: ")
    assert "\n" not in line
    return line.removeprefix("my.toml: ")
