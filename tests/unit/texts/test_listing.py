"""The lists of the texts are whole: names, commands that exist, verdicts with reasons, and the page."""

import re
import shlex
import tomllib
from itertools import groupby
from pathlib import Path
from typing import assert_never

import pytest
from scripts.write_texts import texts_page
from tests.shared.refusals import refuses

from heedful.cli.main import VERBS
from heedful.config.reading.shipped_recipes import shipped_recipes
from heedful.texts.checks.table import CHECKS
from heedful.texts.listing import VERDICTS, Item, Text, count_verdicts, find_item, read_texts

ROOT = Path(__file__).parents[3]
ITEMS = [item for text in read_texts() for item in text.items]


def test_every_item_has_a_name_of_its_own_and_a_verdict() -> None:
    assert len({item.id for item in ITEMS}) == len(ITEMS)
    assert {item.verdict for item in ITEMS} <= set(VERDICTS)
    assert sum(count_verdicts(read_texts()).values()) == len(ITEMS)
    assert len(read_texts()) == 5


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.id)
def test_an_item_has_one_command_or_a_reason(item: Item) -> None:
    assert [item.check is not None, item.arguments is not None, bool(item.reason)].count(True) == 1
    if item.verdict != "same":
        assert item.why or item.reason or item.found
    assert item.check is None or item.check in CHECKS
    for arguments in filter(None, (item.arguments, item.short)):
        verb, *rest = shlex.split(arguments)
        assert verb in VERBS
        if verb == "train":
            assert rest[0] in shipped_recipes()


# --- rules of the lists whose texts have been read to the end ---------------------------------------------------------

FINISHED = {"thesis", "notes", "tutorial", "seq2seq", "transformers"}
READ = [item for text in read_texts() if text.name in FINISHED for item in text.items]
every_read = pytest.mark.parametrize("item", READ, ids=lambda item: item.id)


@every_read
def test_an_item_says_where_it_is_in_the_text_and_what_it_is_in_one_line(item: Item) -> None:
    assert item.section
    assert len(item.what) <= 120
    assert not item.what.endswith(".")


@every_read
def test_a_verdict_has_what_it_needs(item: Item) -> None:
    match item.verdict:
        case "same":
            assert bool(item.says) == bool(item.found)  # a claim, and what was measured
        case "corrected":
            assert item.why  # what is printed, and what it should be
        case "measured otherwise":
            assert item.says
            assert item.found
        case "not run":
            assert item.why or item.reason
        case _:
            assert_never(item.verdict)


@every_read
def test_what_was_found_names_the_file_that_records_it_or_is_computed(item: Item) -> None:
    places = re.findall(r"(?:benchmarks|docs|recipes|studies)/[\w./-]*\w", f"{item.found} {item.why}")
    assert all((ROOT / place).is_file() for place in places)
    if item.found and item.check is None:
        assert places


@pytest.mark.parametrize("text", [text for text in read_texts() if text.name in FINISHED], ids=lambda text: text.name)
def test_items_stand_in_the_order_of_the_text(text: Text) -> None:
    sections = [section for section, _ in groupby(item.section for item in text.items)]
    assert len(sections) == len(set(sections))


@every_read
def test_recipes_and_studies_that_an_item_names_are_there(item: Item) -> None:
    told = f"{item.found} {item.why}"
    assert set(re.findall(r"recipe `([\w-]+)`", told)) <= set(shipped_recipes())
    assert all((ROOT / f"studies/{name}.toml").is_file() for name in re.findall(r"study `([\w-]+)`", told))
    if item.arguments and item.arguments.startswith("study "):
        assert (ROOT / f"studies/{item.arguments.split()[1]}.toml").is_file()


def test_numbered_equations_of_the_thesis_are_all_there() -> None:
    listed = {item.id for item in ITEMS}
    assert {f"thesis-2.{number}" for number in range(1, 33)} <= listed
    figures = {f"thesis-figure-2.{number}" for number in range(1, 17) if number != 2}
    assert figures | {f"thesis-figure-2.2{letter}" for letter in "abcd"} <= listed
    assert len([one for one in listed if re.match(r"thesis-table-2.1-(?!note|parameters)", one)]) == 11
    assert {f"transformers-{number}" for number in range(1, 9)} <= listed


def test_an_item_that_is_not_there_is_refused() -> None:
    with refuses("`thesis-2.99` is not an item of the texts. Did you mean `thesis-2.9`? `heedful texts` lists all..."):
        find_item("thesis-2.99")


def test_the_page_is_current_run_make_texts_where_it_is_not() -> None:
    assert (ROOT / "docs/texts.md").read_text(encoding="utf-8") == texts_page()


def test_lists_have_no_keys_that_nobody_reads() -> None:
    known = {"id", "what", "verdict", "section", "says", "found", "why", "check", "command", "short", "reason"}
    for path in sorted((ROOT / "src/heedful/texts/lists").glob("*.toml")):
        assert all(item.keys() <= known for item in tomllib.loads(path.read_text(encoding="utf-8"))["item"])
