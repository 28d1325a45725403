"""Texts in lines and columns, for files and terminals."""

import re
from collections.abc import Sequence
from typing import Final

# Characters that a terminal obeys instead of showing them: control characters but for line breaks and tabs, marks that
# change the direction of text, and separators of lines and paragraphs. Lone surrogates cannot be written at all.
_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Escape what would act on a terminal, as Python spells it: `\\x1b` for an escape character."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def printable_line(text: str) -> str:
    """Escape a text that has one line, its line breaks too."""
    return printable(text).replace("\n", "\\n")


def one_line(text: str) -> str:
    """Replace line breaks, which a model can write too, by spaces."""
    return re.sub(r"[\r\n]+", " ", text)


def one_column(text: str) -> str:
    """Replace line breaks and tabs, which separate columns, by spaces."""
    return one_line(text).replace("\t", " ")


def in_digits(number: float, digits: int) -> str:
    """Write a number rounded to so many digits, below 10^15 without an exponent: 1234570, not 1.23457e+06."""
    return f"{float(f'{number:.{digits}g}'):.15g}"


def align_columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Align rows in columns, two spaces apart: the first `left` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
