"""docs/reference says what the schema, the command line and the package are today."""

import re
import tomllib

import pytest
from scripts.write_reference import PAGES, current
from tests.docs.blocks import ROOT

import heedful
from heedful.cli.main import VERBS
from heedful.config.reading.describing.entries import all_entries
from heedful.config.reading.outline import MARKS


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_current(page: str) -> None:
    is_current = (ROOT / page).read_text(encoding="utf-8") == current(page)
    assert is_current, f"{page} is not current: run `make reference`"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}


def test_every_key_is_in_the_page_of_recipes(pages: dict[str, str]) -> None:
    text = pages["docs/reference/recipe.md"].replace("`[data] train, valid, test`", "`[data.train]`")
    tables = {
        part[2:].partition("]")[0]: part for part in re.split(r"^##+ ", text, flags=re.M) if part.startswith("`[")
    }
    for entry in all_entries():
        table = re.sub(r"^data\.(valid|test)", "data.train", entry.table)
        if table and entry.key not in MARKS and entry.tasks:
            linked = re.findall(r"Its keys are those of `\[(.*?)\]`", tables[table])
            assert any(f"\n| `{entry.key}` |" in tables[each] for each in (table, *linked)), entry


def test_every_command_is_in_the_page_of_commands(pages: dict[str, str]) -> None:
    assert {f"heedful {verb}" for verb in VERBS} <= set(
        re.findall(r"^## (.*)$", pages["docs/reference/commands.md"], re.M)
    )
    assert "| `--set` `A.B=C` |" in pages["docs/reference/commands.md"]


def test_every_public_name_is_in_the_page_of_python(pages: dict[str, str]) -> None:
    names = {f"heedful.{name}" for name in heedful.__all__ if not name.startswith("__")}
    assert names == set(re.findall(r"^## (.*)$", pages["docs/reference/python.md"], re.M))


def test_the_examples_in_the_page_of_recipes_are_toml(pages: dict[str, str]) -> None:
    lines = re.findall(r"`((?:train|optimizer) = [^`]+)`", pages["docs/reference/recipe.md"])
    assert [tomllib.loads(line) for line in lines if "=" in line]
