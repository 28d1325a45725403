"""A built-in corpus: dates as people say and write them, and as ISO 8601 writes them.

    the third of March, nineteen ninety-eight      1998-03-03
    Mar 3rd 1998                                   1998-03-03
    3/14/98                                        1998-03-14

Of numbers alone, those between slashes are month, day and year, and those between dots are day, month and year. Two
digits are a year from 1950 to 2049; others are from 1900 to 2099.

The parts are split by day: about one day in twenty is in "valid", and one in "test". A day in one part is not in
another, in whatever form.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from itertools import islice
from typing import Final

from heedful.base.errors import UserError
from heedful.data.builtin.choices import Choices, check_part, hash_of

FIRST: Final = date(1900, 1, 1)
LAST: Final = date(2099, 12, 31)
SHORT_YEARS: Final = range(1950, 2050)  # those that two digits are enough for

_HELD_OUT: Final[Mapping[int, str]] = {0: "test", 1: "valid"}  # by a day's hash modulo the number of shares
_SHARES: Final = 20
_PATIENCE: Final = 1000  # draws in a row that were there already

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMBERS: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS: Final = (
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth",
    "nineteenth", "twentieth",
)  # fmt: skip

# d and m are day and month in digits, dd and mm in two, yy and yyyy the year; nth is "3rd", ordinal "third", said the
# year in words; weekdays and months in words have a short form too.
_SPOKEN: Final = (
    "the {ordinal} of {month}, {said}",
    "the {ordinal} of {month} {said}",
    "{month} the {ordinal}, {said}",
    "{month} {ordinal}, {said}",
    "{weekday}, the {ordinal} of {month}, {said}",
    "the {ordinal} day of {month} in the year {said}",
)
_WRITTEN: Final = (
    "{d} {month} {yyyy}",
    "{month} {d}, {yyyy}",
    "{month} {nth}, {yyyy}",
    "{short_month} {nth} {yyyy}",
    "{nth} of {month} {yyyy}",
    "the {nth} of {month}, {yyyy}",
    "{d} {short_month} {yyyy}",
    "{d}-{short_month}-{yy}",
    "{short_month} {d} '{yy}",
    "{weekday}, {month} {d}, {yyyy}",
    "{short_weekday} {d} {short_month} {yyyy}",
)
_DIGITS: Final = (
    "{m}/{d}/{yy}",
    "{m}/{d}/{yyyy}",
    "{mm}/{dd}/{yyyy}",
    "{d}.{m}.{yyyy}",
    "{dd}.{mm}.{yy}",
    "{dd}.{mm}.{yyyy}",
)
_FORMS: Final = (_SPOKEN, _WRITTEN, _DIGITS)


def date_pairs(part: str, count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield `count` pairs of a date in any form and in ISO's: the same for the same arguments, everywhere.

    A longer draw begins with the shorter one. No form of a date comes twice in "valid" or "test"; in "train" one may.
    """
    check_part("dates", part)
    return islice(_pairs(part, seed), count)


def part_of(day: date) -> str:
    """Return the part of a day, by a hash that no platform or process changes."""
    return _HELD_OUT.get(hash_of(f"dates {day.isoformat()}") % _SHARES, "train")


def _pairs(part: str, seed: int) -> Iterator[tuple[str, str]]:
    draw = Choices(f"dates {part} {seed}")
    days = _days(part, FIRST, LAST)
    seen: set[str] = set()
    in_vain = 0
    while in_vain < _PATIENCE:
        day = days[draw.below(len(days))]
        text = _tell(day, draw)
        in_vain = in_vain + 1 if text in seen else 0
        if in_vain:
            continue
        if part != "train":
            seen.add(text)
        yield text, day.isoformat()
    raise UserError(f"dates has no more than {len(seen):,} dates in its part `{part}`: lower `count`.")


@cache
def _days(part: str, first: date, last: date) -> tuple[date, ...]:
    """Return the days of a part."""
    days = map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
    return tuple(day for day in days if part_of(day) == part)


def _tell(day: date, draw: Choices) -> str:
    """Write a day in one of its forms, now and then in small or in capital letters."""
    forms = [form for form in _FORMS[draw.below(len(_FORMS))] if "{yy}" not in form or day.year in SHORT_YEARS]
    month, weekday = _MONTHS[day.month - 1], _WEEKDAYS[day.weekday()]
    text = draw.one(forms).format(
        d=day.day,
        dd=f"{day.day:02}",
        nth=f"{day.day}{_ending(day.day)}",
        ordinal=_ordinal(day.day),
        m=day.month,
        mm=f"{day.month:02}",
        month=month,
        short_month=month[:3],
        weekday=weekday,
        short_weekday=weekday[:3],
        yy=f"{day.year % 100:02}",
        yyyy=day.year,
        said=draw.one(years_said(day.year)),
    )
    case = draw.below(6)
    return text.lower() if case < 2 else text.upper() if case == 2 else text


def years_said(year: int) -> list[str]:
    """Return the ways to say a year from 1900 to 2099."""
    century, rest = divmod(year, 100)
    hundreds = "nineteen hundred" if century == 19 else "two thousand"
    if rest == 0:
        return [hundreds]
    low = f"oh {_NUMBERS[rest]}" if rest < 10 else _number(rest)
    return [f"{_number(century)} {low}", f"{hundreds} and {_number(rest)}", f"{hundreds} {_number(rest)}"]


def _number(number: int) -> str:
    """Return a number below 100 in words."""
    tens, ones = divmod(number, 10)
    if number < len(_NUMBERS):
        return _NUMBERS[number]
    return f"{_TENS[tens]}-{_NUMBERS[ones]}" if ones else _TENS[tens]


def _ordinal(day: int) -> str:
    if day < len(_ORDINALS):
        return _ORDINALS[day]
    return "thirtieth" if day == 30 else f"{_TENS[day // 10]}-{_ORDINALS[day % 10]}"


def _ending(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
