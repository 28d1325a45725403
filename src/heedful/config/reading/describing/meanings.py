"""The meaning of a key: the string below its declaration, read from the source when it is needed."""

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from itertools import pairwise

from heedful.config.reading.outline import MARKS, kind_of, mark_of
from heedful.config.section import Section


def meaning_of(section: type[Section], key: str) -> str:
    """Return the meaning of a key: paragraphs of one line each; an empty text where it has none.

    A key that a class inherits, or declares again with another default, has the meaning of the class it comes from.
    """
    if key in MARKS:
        return f"The {key} of this table, which decides its other keys."
    for base in section.__mro__:
        meaning = _meanings(base.__module__).get((base.__name__, key))
        if meaning:
            return meaning
    return ""


def brief_meaning(section: type[Section], key: str) -> str:
    """Return the first paragraph of a meaning."""
    return meaning_of(section, key).partition("\n")[0]


def table_meaning(section: type[Section]) -> str:
    """Return what a table is: the first paragraph of its class's docstring, with its paper in parentheses."""
    first = (inspect.getdoc(section) or "").partition("\n\n")[0]
    return _flowing(re.sub(r"   +(\S.*)$", r" (\1)", first))


def kind_label(section: type[Section]) -> str:
    """Return the line that chooses a table's kind, such as `kind = "adam"`; an empty text where there is one kind."""
    mark = mark_of(section)
    return f'{mark} = "{kind_of(section)}"' if mark else ""


@cache
def _meanings(module: str) -> dict[tuple[str, str], str]:
    """Return the strings below the declarations of a module's classes, by class and name."""
    try:
        tree = ast.parse(inspect.getsource(import_module(module)))
    except (OSError, TypeError):  # installed without its source
        return {}
    found = {}
    for table in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for declared, text in pairwise(table.body):
            match declared, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(meaning))),
                ):
                    found[table.name, name] = _flowing(inspect.cleandoc(meaning))
    return found


def _flowing(text: str) -> str:
    """Put each paragraph on one line."""
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
