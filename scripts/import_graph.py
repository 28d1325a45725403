"""Reads which file of a source tree imports which, from the syntax alone: nothing is imported, nothing is run.

All imports count: those inside functions, and those behind TYPE_CHECKING, which bind the reader of a file as much as
any other.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, order=True)
class Import:
    """One file that imports another, both by their dotted names."""

    importer: str
    imported: str
    type_checking: bool


def modules(source: Path, package: str) -> dict[str, Path]:
    """The files of a package by their dotted names; a folder's name stands for its `__init__.py`."""
    return {_dotted(path.relative_to(source)): path for path in sorted((source / package).rglob("*.py"))}


@cache
def read_imports(source: Path, package: str) -> Sequence[Import]:
    """Every import of one file of the package by another, once each, in order."""
    files = modules(source, package)
    found = {
        Import(name, imported, type_checking)
        for name, path in files.items()
        for imported, type_checking in _imports_of(path, files)
        if imported != name
    }
    return sorted(found)


def circles(arrows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The groups of nodes that reach each other along the arrows (Tarjan 1972), each sorted."""
    following: dict[str, list[str]] = {}
    for start, end in arrows:
        following.setdefault(start, []).append(end)
        following.setdefault(end, [])
    return sorted(sorted(group) for group in _components(following) if len(group) > 1)


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports_of(path: Path, files: Mapping[str, Path]) -> Iterator[tuple[str, bool]]:
    for node, type_checking in _import_nodes(ast.parse(path.read_text(encoding="utf-8")), False):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:  # `from package import file` names a file, `from file import name` a name in one
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in files else str(node.module) for name in within]
        for name in names:
            if name in files:
                yield name, type_checking


def _import_nodes(node: ast.AST, type_checking: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, type_checking
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        type_checking = True
    for child in ast.iter_child_nodes(node):
        yield from _import_nodes(child, type_checking)


def _components(following: Mapping[str, list[str]]) -> Iterator[list[str]]:
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_nodes: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        number[node] = lowest[node] = len(number)
        open_nodes.append(node)
        for other in following[node]:
            if other not in number:
                yield from visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in open_nodes:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            first = open_nodes.index(node)
            yield open_nodes[first:]
            del open_nodes[first:]

    for node in following:
        if node not in number:
            yield from visit(node)
