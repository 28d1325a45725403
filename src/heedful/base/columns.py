"""Texts in lines and columns, for files and terminals."""

import re
from collections.abc import Sequence


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
