"""Finds problems in a corpus while reading it once.

Memory grows by 24 bytes per pair (two 64-bit hashes, two lengths), plus copies while arrays are concatenated and, in
`duplicates.py`, sorted: 93 bytes per pair at the peak, measured with 2 million. Of the text, a sample of at most 10,000
pairs is kept, and the first 20,000 pairs while the typical words of each side are learned.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final, Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from heedful.config.corpora import (
    AnyCorpus,
    BuiltinCorpus,
    CsvCorpus,
    CsvTexts,
    JsonlCorpus,
    JsonlTexts,
    PlainTexts,
    TextCorpus,
    TsvCorpus,
    TsvTexts,
)
from heedful.config.data import Data
from heedful.data.cache import Say
from heedful.data.corpora.pairs import Pair, is_blank, read_pairs
from heedful.data.text_form import TextForm
from heedful.lab.findings import FINDING_KINDS, Finding, FindingKind, Part
from heedful.lab.odd_characters import WIDTH, excerpt, find_odd_characters
from heedful.lab.swapped_sides import SideWords

Side = Literal["source", "target", "both"]
Hashes = NDArray[np.uint64]
Rows = NDArray[np.intp]

SHOWN: Final = 5  # line numbers per finding
OVERLONG: Final = 2000  # characters
_FAR_OFF: Final = 4.0  # times the median length ratio
_LONG_ENOUGH: Final = 60  # characters of the longer side; ratios of shorter pairs vary too much
_LEARN: Final = 20_000  # pairs from which the typical words of each side are learned
_SAMPLE: Final = 5_000  # minimum size of the sample in pairs, if the corpus is large enough
_EVERY: Final = 10  # digits are compared in one of this many pairs
_CHUNK: Final = 1 << 14
_TELL_EVERY: Final = 16  # chunks between two progress messages
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Sighting:
    """How often a kind of problem was seen on a side of a corpus, and its first rows."""

    kind: str
    side: Side
    count: int
    of: int  # pairs examined
    rows: tuple[int, ...] = ()  # the first few, from 0
    other: str = ""  # the part of the data it was compared with


@dataclass(frozen=True, eq=False)
class LintedCorpus:
    """A corpus that was checked: its problems, and the hashes for comparing it with others."""

    part: Part
    corpus: AnyCorpus
    sightings: tuple[Sighting, ...]
    source: Hashes  # one per pair; meaningless for blank pairs
    target: Hashes
    filled: NDArray[np.bool_]  # pairs with text on both sides
    sample: tuple[Pair, ...]  # pairs with text, evenly spread

    def __len__(self) -> int:
        return len(self.source)

    @property
    def name(self) -> str:
        """The name of the corpus in messages."""
        return self.corpus.title


def lint_corpus(part: Part, corpus: AnyCorpus, data: Data, progress: Say) -> LintedCorpus:
    """Read a corpus as training does, and check every line."""
    pairs = read_pairs(corpus, data.folder, TextForm.of(data))
    head = list(islice(pairs, _LEARN))
    checker = _PairChecker(SideWords.learn(pair for pair in head if not is_blank(pair)))
    chunks: list[tuple[Hashes, Hashes, NDArray[np.int32], NDArray[np.int32]]] = []
    everything = chain(head, pairs)
    while chunk := list(islice(everything, _CHUNK)):
        if chunks and len(chunks) % _TELL_EVERY == 0:
            progress(f"checking {corpus.title}: {checker.row:,} pairs so far")
        chunks.append(_measure(chunk))
        checker.check(chunk)
    source, target, source_length, target_length = (
        (np.concatenate(column) for column in zip(*chunks, strict=True)) if chunks else _measure([])
    )
    language = np.uint64(
        hash(corpus.to) & 0xFFFFFFFFFFFFFFFF
    )  # equal texts with different target languages are different sources
    lengths = [*_overlong("source", source_length), *_overlong("target", target_length)]
    return LintedCorpus(
        part,
        corpus,
        (*checker.sightings(), *_far_off(source_length, target_length), *lengths),
        source ^ language,
        target,
        (source_length > 0) & (target_length > 0),
        tuple(checker.sample),
    )


def make_findings(linted: LintedCorpus, sightings: Sequence[Sighting], data: Data) -> list[Finding]:
    """Turn sightings into findings with file, line numbers and an example, which is read from the corpus again."""
    wanted = {sighting.rows[0] for sighting in sightings if sighting.rows}
    quotes = _quoted(linted.corpus, data, wanted)
    return [_finding(linted, sighting, quotes) for sighting in sightings if sighting.count]


def first_rows(rows: Rows) -> tuple[int, ...]:
    """Return the rows that a finding shows."""
    return tuple(int(row) for row in rows[:SHOWN])


# --- checking -------------------------------------------------------------------------------------------------------


@dataclass
class _Seen:
    count: int = 0
    rows: list[int] = field(default_factory=list)


class _PairChecker:
    """Checks one pair after the other and counts the problems."""

    def __init__(self, words: SideWords) -> None:
        self.row, self.sample = 0, list[Pair]()
        self._words, self._stride, self._compared = words, 1, 0
        self._seen: dict[tuple[str, Side], _Seen] = {}

    def check(self, chunk: Sequence[Pair]) -> None:
        """Check the next pairs."""
        for pair in chunk:
            source, target = pair
            for kind in find_odd_characters(source):
                self._see(kind, "source")
            for kind in find_odd_characters(target):
                self._see(kind, "target")
            if is_blank(pair):
                self._see("empty", "both")
            else:
                self._check_both(source, target)
            self.row += 1

    def sightings(self) -> Iterator[Sighting]:
        """Yield the problems found so far."""
        for (kind, side), seen in self._seen.items():
            of = self._compared if kind == "digits" else self.row
            yield Sighting(kind, side, seen.count, of, tuple(seen.rows))

    def _check_both(self, source: str, target: str) -> None:
        if source.strip() == target.strip():
            self._see("identical", "both")
        elif self._words.looks_swapped(source, target):
            self._see("swapped", "both")
        if self.row % _EVERY == 0:
            self._compared += 1
            if _digits(source) != _digits(target):
                self._see("digits", "both")
        if self.row % self._stride == 0:
            self.sample.append((source, target))
            if len(self.sample) == 2 * _SAMPLE:  # drop every second pair, and sample half as often from now on
                self.sample, self._stride = self.sample[::2], 2 * self._stride

    def _see(self, kind: str, side: Side) -> None:
        seen = self._seen.setdefault((kind, side), _Seen())
        seen.count += 1
        if len(seen.rows) < SHOWN:
            seen.rows.append(self.row)


def _digits(text: str) -> list[int]:
    """Return the sorted digits of a text: separators and the order of numbers differ between languages."""
    return sorted(map(int, _DIGIT.findall(text)))


def _measure(chunk: Sequence[Pair]) -> tuple[Hashes, Hashes, NDArray[np.int32], NDArray[np.int32]]:
    """Compute the hashes and lengths of both sides.

    Python's hash has 64 bits: two of 4.5 million texts collide in one of two million runs.
    """
    sources = [source.strip() for source, _ in chunk]
    targets = [target.strip() for _, target in chunk]
    hashes = (np.fromiter(map(hash, texts), np.int64, len(chunk)).view(np.uint64) for texts in (sources, targets))
    lengths = (np.fromiter(map(len, texts), np.int32, len(chunk)) for texts in (sources, targets))
    return *hashes, *lengths  # type: ignore[return-value]  # two of each


def _overlong(side: Side, lengths: NDArray[np.int32]) -> Iterator[Sighting]:
    rows = np.flatnonzero(lengths > OVERLONG)
    if len(rows):
        yield Sighting("overlong", side, len(rows), len(lengths), first_rows(rows))


def _far_off(source: NDArray[np.int32], target: NDArray[np.int32]) -> Iterator[Sighting]:
    """Find pairs whose length ratio is far from the median of the corpus, which depends on the languages."""
    filled = np.flatnonzero((source > 0) & (target > 0))
    if not len(filled):
        return
    ratio = np.log(target[filled] / source[filled])
    far = np.abs(ratio - np.median(ratio)) > np.log(_FAR_OFF)
    rows = filled[far & (np.maximum(source[filled], target[filled]) >= _LONG_ENOUGH)]
    if len(rows):
        yield Sighting("ratio", "both", len(rows), len(source), first_rows(rows))


# --- reporting ------------------------------------------------------------------------------------------------------


def _quoted(corpus: AnyCorpus, data: Data, rows: set[int]) -> dict[int, Pair]:
    if not rows:
        return {}
    pairs = islice(read_pairs(corpus, data.folder, TextForm.of(data)), max(rows) + 1)
    return {row: pair for row, pair in enumerate(pairs) if row in rows}


def _finding(linted: LintedCorpus, sighting: Sighting, quotes: dict[int, Pair]) -> Finding:
    kind = _kind(sighting)
    share = sighting.count / sighting.of
    first = int(linted.corpus.lines.partition("-")[0] or 1)
    return Finding(
        kind.severity(share),
        sighting.kind,
        linted.part,
        f"{kind.what}: {sighting.count:,} of {sighting.of:,} ({_percent(share)})",
        kind.advice,
        linted.name,
        _file(linted.corpus, sighting.side),
        sighting.count,
        tuple(first + row for row in sighting.rows),
        _example(sighting, quotes[sighting.rows[0]]) if sighting.rows else "",
    )


def _percent(share: float) -> str:
    return "under 0.01%" if share < 0.0001 else f"{share:.2%}"


def _kind(sighting: Sighting) -> FindingKind:
    kind = FINDING_KINDS[sighting.kind]
    return replace(kind, what=kind.what.format(other=sighting.other), advice=kind.advice.format(other=sighting.other))


def _example(sighting: Sighting, pair: Pair) -> str:
    source, target = pair
    match sighting.side:
        case "source":
            return excerpt(source, sighting.kind)
        case "target":
            return excerpt(target, sighting.kind)
        case "both":
            half = (WIDTH - 3) // 2
            return f"{excerpt(source, width=half)} | {excerpt(target, width=half)}"


def _file(corpus: AnyCorpus, side: Side) -> str:
    """Return the file of a side; if one file holds both sides, with the name of the side."""
    of_side = "" if side == "both" else f" ({side})"
    match corpus:
        case TextCorpus():
            return {"source": corpus.source, "target": corpus.target}.get(side, f"{corpus.source}, {corpus.target}")
        case TsvCorpus():
            return f"{corpus.tsv}{of_side}"
        case CsvCorpus():
            return f"{corpus.csv}{of_side}"
        case JsonlCorpus():
            return f"{corpus.jsonl}{of_side}"
        case BuiltinCorpus():
            return f"{corpus.title}{of_side}"
        case TsvTexts() | CsvTexts() | JsonlTexts() | PlainTexts():
            return corpus.title
        case _:
            assert_never(corpus)
