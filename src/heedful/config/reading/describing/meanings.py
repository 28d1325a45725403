"""The meanings of keys and tables, as the reference and the JSON Schema have them."""

import inspect
import re

from heedful.config.reading.outline import MARKS, kind_of, mark_of
from heedful.config.section import Section, flowing, written_meaning


def meaning_of(section: type[Section], key: str) -> str:
    """Return the meaning of a key: paragraphs of one line each; an empty text where it has none."""
    if key in MARKS:
        return f"The {key} of this table, which decides its other keys."
    return written_meaning(section, key)


def brief_meaning(section: type[Section], key: str) -> str:
    """Return the first paragraph of a meaning."""
    return meaning_of(section, key).partition("\n")[0]


def table_meaning(section: type[Section]) -> str:
    """Return what a table is: the first paragraph of its class's docstring, with its paper in parentheses."""
    first = (inspect.getdoc(section) or "").partition("\n\n")[0]
    return flowing(re.sub(r"   +(\S.*)$", r" (\1)", first))


def kind_label(section: type[Section]) -> str:
    """Return the line that chooses a table's kind, such as `kind = "adam"`; an empty text where there is one kind."""
    mark = mark_of(section)
    return f'{mark} = "{kind_of(section)}"' if mark else ""
