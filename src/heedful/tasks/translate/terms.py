"""Fixed translations of terms: read from a file, and found in source texts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from heedful.base.errors import UserError
from heedful.data.corpora.formats.lines import locate, read_lines
from heedful.decode.constraints.words.boundaries import at_boundary


def read_terms(path: str | Path) -> dict[str, str]:
    """Read a file with a source term, a tab and its translation on each line; blank lines are left out."""
    terms: dict[str, str] = {}
    lines: dict[str, int] = {}
    file = replace(locate(str(path)), hint="")  # which names `data.folder`: it does not apply to terms
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip():
            continue
        columns = [one_space(column) for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            fault = "has an empty column" if len(columns) == 2 else f"has {len(columns):,} columns"
            fault = "has 1 column" if len(columns) == 1 else fault
            raise UserError(f"{path}, line {number:,} {fault}, but must be a term, a tab and its translation.")
        source, target = columns
        if terms.setdefault(source, target) != target:
            raise UserError(
                f"{path}, line {number:,}: `{source}` is to be `{target}`, but line {lines[source]:,} says "
                f"`{terms[source]}`: leave one of them out."
            )
        lines.setdefault(source, number)
    if not terms:
        raise UserError(f"{path} has no terms: write a term, a tab and its translation on each line.")
    return terms


class Terms:
    """Terms with their translations, by the form in which source texts have them."""

    def __init__(self, terms: Mapping[str, str], form: Callable[[str], str]) -> None:
        self._targets: dict[str, str] = {}
        for source, target in terms.items():
            formed = one_space(form(source))
            if self._targets.setdefault(formed, target) != target:
                raise UserError(
                    f"`{source}` is to be `{target}`, but the model does not distinguish it from a term that is to be "
                    f"`{self._targets[formed]}`: leave one of them out."
                )
        self._sizes = sorted({len(source) for source in self._targets})

    def find(self, text: str) -> list[str]:
        """Return the translations of the terms in a text, in its order; the longest terms first take their places."""
        if not self._targets:
            return []
        text = one_space(text)
        edges = [place for place in range(len(text) + 1) if at_boundary(text, place)]
        found = [
            (size, begin)
            for begin in edges
            for size in self._sizes
            if text[begin : begin + size] in self._targets
            and begin + size <= len(text)
            and at_boundary(text, begin + size)
        ]
        taken: set[int] = set()
        kept = []
        for size, begin in sorted(found, key=lambda one: (-one[0], one[1])):
            places = range(begin, begin + size)
            if taken.isdisjoint(places):
                taken.update(places)
                kept.append((begin, text[begin : begin + size]))
        return [self._targets[term] for _, term in sorted(kept)]


def one_space(text: str) -> str:
    """Return a text with single spaces between its words."""
    return " ".join(text.split())
