"""Every value of every key of [model] that a recipe may set alone works with the defaults of little data."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_args, get_origin

import pytest

from heedful.base.errors import UserError
from heedful.config.reading.describing.entries import KeyEntry, all_entries
from heedful.config.reading.load import load_recipe
from heedful.config.reading.outline import MARKS
from heedful.defaults.apply import decide
from heedful.defaults.facts import CorpusFacts

PAIRS: Final[dict[str, object]] = {"source": "a", "target": "b"}
CORPORA: Final[Mapping[str, list[dict[str, object]]]] = {  # by family
    "transformer": [PAIRS],
    "recurrent": [PAIRS],
    "mixed": [PAIRS],
    "classifier": [{"tsv": "a", "text": 1, "label": 2}, {"tsv": "a", "text": 1, "label": 2, "second": 3}],
    "regressor": [{"tsv": "a", "text": 1, "number": 2}, {"tsv": "a", "text": 1, "number": 2, "second": 3}],
    "tagger": [{"conll": "a"}],
    "bert": [{"text": "a"}],
    "language": [{"text": "a"}],
    "reader": [{"jsonl": "a", "question": "q"}],
    "image_classifier": [{"images": "a"}],
    "image_regressor": [{"jsonl": "a", "image": "i", "number": "n"}],
    "captioner": [{"jsonl": "a", "image": "i", "caption": "c"}],
    "image_answerer": [{"jsonl": "a", "image": "i", "question": "q"}],
}
FACTS: Final = (
    CorpusFacts(500, 30_000, 4, 5_000),
    CorpusFacts(60, 600, 2, 0),
)  # with and without spaces
OFTEN: Final = ("model.join", "model.pool", "model.tie", "model.labels", "model.head_hidden", "model.preset")
ENTRIES: Final = [entry for entry in all_entries() if entry.path.startswith("model.") and entry.key not in MARKS]


def choices(annotation: object) -> Iterator[object]:
    """Yield the values of literals, and of what is true or false."""
    if annotation is bool:
        yield from (True, False)
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from choices(part)


def over(base: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: over(base[key], new[key]) for key in base.keys() & new.keys() if isinstance(base[key], dict)}
    return {**base, **new, **both}


def recipes(entry: KeyEntry) -> Iterator[dict[str, Any]]:
    """Yield recipes that set one key, with what chooses its table."""
    chosen = tomllib.loads("\n".join(line for line in entry.within if " = " in line))
    beside = tomllib.loads("\n".join(entry.example_table))
    values = [tomllib.loads(f"value = {entry.example}")["value"], *choices(entry.field.annotation)]
    for number, value in enumerate(values):
        if value not in values[:number]:
            table: dict[str, Any] = {entry.key: value}
            for key in reversed(entry.table.split(".")):
                table = {key: table}
            tables = over(over(chosen, beside), table)
            for corpus in CORPORA[tables["model"]["family"]]:
                yield {**tables, "data": {"train": corpus, "valid": corpus}}


def check(entry: KeyEntry) -> int:
    checked = 0
    for recipe in recipes(entry):
        try:
            said = load_recipe(recipe)
        except UserError:
            continue  # what does not go together without defaults either
        for facts in FACTS:
            load_recipe(said, decide(said, facts))
            checked += 1
    return checked


@pytest.mark.parametrize("path", OFTEN)
def test_a_key_that_is_set_alone_works_with_the_defaults_of_little_data(path: str) -> None:
    assert sum(check(entry) for entry in ENTRIES if entry.path == path) > 0


@pytest.mark.wide
@pytest.mark.parametrize("path", sorted({entry.path for entry in ENTRIES} - {*OFTEN}))
def test_every_key_that_is_set_alone_works_with_the_defaults_of_little_data(path: str) -> None:
    for entry in ENTRIES:
        if entry.path == path:
            check(entry)
