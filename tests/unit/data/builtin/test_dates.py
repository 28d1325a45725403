"""The dates generator: every form tells its day, and no day is in two parts."""

import hashlib
import json
import re
from datetime import date, datetime, timedelta
from itertools import islice

import pytest
from tests.shared.refusals import refuses

from heedful.config.corpora.containers import Builtin
from heedful.config.reading.load import recipe_from_json
from heedful.data.builtin.dates import FIRST, LAST, SHORT_YEARS, date_pairs, part_of, years_said
from heedful.data.corpora.pairs import read_pairs
from heedful.doctor.corpora.data import check_data

PARTS = ("train", "valid", "test")
IN_DIGITS = (
    "%d %B %Y", "%B %d, %Y", "%b %d %Y", "%d of %B %Y", "the %d of %B, %Y", "%d %b %Y", "%d-%b-%y", "%b %d '%y",
    "%A, %B %d, %Y", "%a %d %b %Y", "%m/%d/%y", "%m/%d/%Y", "%d.%m.%Y", "%d.%m.%y",
)  # fmt: skip
DAYS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth",
    "ninth", "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
    "seventeenth", "eighteenth", "nineteenth", "twentieth", "twenty-first", "twenty-second", "twenty-third",
    "twenty-fourth", "twenty-fifth", "twenty-sixth", "twenty-seventh", "twenty-eighth", "twenty-ninth",
    "thirtieth", "thirty-first",
)  # fmt: skip
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august",
    "september", "october", "november", "december",
)  # fmt: skip
SAID = {words: year for year in range(1900, 2100) for words in years_said(year)}


def day_of(text: str) -> date:
    """Read a date in any form, by another way than it was written."""
    text = text.lower()
    spoken = [word for word in re.findall(r"[a-z-]+", text) if word in DAYS]
    if spoken:
        year = SAID[re.search(r"(?:nineteen|twenty|two) [a-z -]+$", text)[0]]  # type: ignore[index]
        month = next(word for word in re.findall("[a-z]+", text) if word in MONTHS)
        return date(year, MONTHS.index(month) + 1, DAYS.index(spoken[0]) + 1)
    for form in IN_DIGITS:
        try:
            found = datetime.strptime(re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", text), form).date()
        except ValueError:
            continue
        short = "%y" in form
        return found if not short or found.year in SHORT_YEARS else found.replace(year=found.year - 100)
    raise AssertionError(f"no form fits {text!r}")


@pytest.mark.parametrize("part", PARTS)
def test_every_form_tells_its_day(part: str) -> None:
    for text, iso in date_pairs(part, 500):
        assert day_of(text) == date.fromisoformat(iso), text


@pytest.mark.parametrize(
    ("year", "ways"),
    [
        (1900, ["nineteen hundred"]),
        (1905, ["nineteen oh five", "nineteen hundred and five", "nineteen hundred five"]),
        (1998, ["nineteen ninety-eight", "nineteen hundred and ninety-eight", "nineteen hundred ninety-eight"]),
        (2000, ["two thousand"]),
        (2010, ["twenty ten", "two thousand and ten", "two thousand ten"]),
        (2040, ["twenty forty", "two thousand and forty", "two thousand forty"]),
    ],
)
def test_a_year_is_said_in_the_usual_ways(year: int, ways: list[str]) -> None:
    assert years_said(year) == ways


def test_no_two_years_are_said_the_same_way() -> None:
    assert len(SAID) == sum(len(years_said(year)) for year in range(1900, 2100))


def test_every_day_is_in_one_part_and_a_twentieth_in_each_of_the_small_ones() -> None:
    days = [FIRST + timedelta(days=number) for number in range((LAST - FIRST).days + 1)]
    shares = [sum(part_of(day) == part for day in days) / len(days) for part in PARTS]
    assert sum(shares) == pytest.approx(1)
    assert shares[1:] == pytest.approx([0.05, 0.05], abs=0.005)
    for part in PARTS:
        assert all(part_of(date.fromisoformat(iso)) == part for _, iso in date_pairs(part, 300))


def test_the_parts_are_the_same_everywhere() -> None:
    rows = [list(date_pairs(part, 200)) for part in PARTS]
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    assert digest == "95cbd580c5d04a88a408f55fc6fc844b78c9e5284004070506cc66e6010a368f", (
        "a change of the dates needs a new version in GENERATORS"
    )


def test_a_longer_draw_begins_with_the_shorter_one_and_test_dates_are_all_different() -> None:
    longer = list(date_pairs("test", 2000))
    assert list(date_pairs("test", 40)) == list(islice(longer, 40))
    assert len({text for text, _ in longer}) == 2000


def test_a_recipe_reads_them_as_pairs() -> None:
    corpus = Builtin(builtin="dates", part="valid", count=5)
    assert list(read_pairs(corpus)) == list(date_pairs("valid", 5))
    assert corpus.title == "dates valid"


def test_an_unknown_part_is_refused() -> None:
    with refuses("dates has no part `dev`. Its parts are train, valid and test."):
        date_pairs("dev", 1)


def test_more_dates_than_there_are_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    days = [FIRST + timedelta(days=number) for number in range(60)]
    monkeypatch.setattr("heedful.data.builtin.dates.FIRST", days[0])
    monkeypatch.setattr("heedful.data.builtin.dates.LAST", days[-1])
    small = next(part_of(day) for day in days if part_of(day) != "train")
    with refuses(f"dates has no more than ... dates in its part `{small}`: lower `count`."):
        list(date_pairs(small, 10_000))


def test_the_checks_before_training_find_nothing_to_say_of_them() -> None:
    corpora = {"train": {"builtin": "dates", "count": 300}, "valid": {"builtin": "dates", "part": "valid", "count": 50}}
    recipe = recipe_from_json({"data": {split: [corpus] for split, corpus in corpora.items()}}, "here")
    assert check_data(recipe, lambda message: None).findings == ()
