"""Texts in lines and columns: what a file or a terminal can hold of whatever a model writes."""

import re
from collections.abc import Sequence


def one_line(text: str) -> str:
    """Keep a text on its line: a model can write line breaks too."""
    return re.sub(r"[\r\n]+", " ", text)


def one_column(text: str) -> str:
    """Keep a text on its line and in its column, where columns are separated by tabs."""
    return one_line(text).replace("\t", " ")


def align_columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lay out rows in columns two spaces apart: the first `left` columns hold names, the others numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
