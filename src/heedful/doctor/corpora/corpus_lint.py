"""Finds problems in a corpus while reading it once, whatever the task.

Memory grows by 24 bytes per row (two 64-bit hashes, two lengths), plus copies while arrays are concatenated and, in
`duplicates.py`, sorted: 93 bytes per row at the peak, measured with 2 million pairs. Of the text, a sample of at most
10,000 rows is kept, and the first 20,000 rows while the typical words of each side are learned.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from heedful.config.corpora.containers import AnyCorpus
from heedful.config.data import Data
from heedful.data.cache import Say
from heedful.data.corpora.pairs import Pair
from heedful.doctor.corpora.aligned_sides import SideWords, blocks, find_shift
from heedful.doctor.corpora.rows import Labels, Row, RowForm, form_of, read_rows, split_labels
from heedful.doctor.corpora.text_faults import WIDTH, excerpt, find_header, find_odd_characters
from heedful.doctor.findings import Finding, Part, Severity

Hashes = NDArray[np.uint64]
Lengths = NDArray[np.int32]
Rows = NDArray[np.intp]

SHOWN: Final = 5  # line numbers per finding
BOTH: Final = "both"  # a side: all texts of a row
_FAR_OFF: Final = 4.0  # times the median length ratio
_LONG_ENOUGH: Final = 60  # characters of the longer side; ratios of shorter pairs vary too much
_LEARN: Final = 20_000  # rows from which the typical words of each side are learned
_SAMPLE: Final = 5_000  # minimum size of the sample in rows, if the corpus is large enough
_EVERY: Final = 10  # digits are compared in one of this many pairs
_CHUNK: Final = 1 << 14
_TELL_EVERY: Final = 16  # chunks between two progress messages
_BLOCKS: Final = 6  # compared with their neighbours in the first chunk, to find shifted lines
_LATER_BLOCKS: Final = 2  # in each chunk after it
_WORD: Final = 12  # characters of a short word
_OUTLYING: Final = 20.0  # times the distance between the quartiles
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Sighting:
    """How often a kind of problem was seen on a side of a corpus, and its first rows."""

    kind: str
    side: str
    count: int
    of: int  # rows examined
    rows: tuple[int, ...] = ()  # the first few, from 0
    other: str = ""  # the part of the data it was compared with


@dataclass(frozen=True, eq=False)
class LintedCorpus:
    """A corpus that was checked: its problems, and the hashes for comparing it with others."""

    part: Part
    corpus: AnyCorpus
    form: RowForm
    sightings: tuple[Sighting, ...]
    findings: tuple[Finding, ...]  # about the corpus as a whole
    source: Hashes  # of each row's first text; meaningless for blank rows
    target: Hashes
    length: Lengths  # of each row's first text, in characters
    filled: NDArray[np.bool_]  # rows that can be compared with others
    sample: tuple[Pair, ...]  # rows with text, evenly spread
    labels: Counter[str]  # number of rows with each label
    label_lines: Mapping[str, int]  # the first line with each label
    numbers: NDArray[np.float64]  # of the rows with text, where these have numbers
    whole: bool  # False if only the first rows were read

    def __len__(self) -> int:
        return len(self.source)

    @property
    def name(self) -> str:
        """The name of the corpus in messages."""
        return self.corpus.title

    def finding(self, severity: Severity, kind: str, what: str, advice: str, **more: Any) -> Finding:
        """Make a finding about the whole corpus, with its name and its files."""
        return Finding(severity, kind, self.part, what, advice, self.name, ", ".join(self.corpus.files()), **more)


def lint_corpus(
    part: Part,
    corpus: AnyCorpus,
    data: Data,
    progress: Say,
    labels: Labels = None,
    most: int | None = None,
    running: bool = False,
) -> LintedCorpus:
    """Read a corpus as training does, and check every line, or the first `most` ones."""
    form, read = form_of(corpus, labels, running), read_rows(corpus, data, labels)
    rows = read if most is None else islice(read, most)
    head = list(islice(rows, _LEARN))
    words = (
        SideWords.learn((row.first, row.second) for row in head if not _is_blank(row, form)) if form.paired else None
    )
    checker = _RowChecker(form, words, labels, data.max_length)
    chunks: list[tuple[Hashes, Hashes, Lengths, Lengths]] = []
    everything = chain(head, rows)
    while chunk := list(islice(everything, _CHUNK)):
        if chunks and len(chunks) % _TELL_EVERY == 0:
            progress(f"checking {corpus.title}: {checker.row:,} {form.unit} so far")
        chunks.append(_measure(chunk))
        checker.check(chunk)
    first, second, first_length, second_length = (
        (np.concatenate(column) for column in zip(*chunks, strict=True)) if chunks else _measure([])
    )
    language = np.uint64(
        hash(corpus.to) & 0xFFFFFFFFFFFFFFFF
    )  # equal texts with different target languages are different sources
    sightings = [*checker.sightings(), *(_far_off(first_length, second_length) if form.paired else ())]
    for side, lengths in zip(form.sides, (first_length, second_length), strict=False):
        rows_of_side = np.flatnonzero(lengths > form.overlong)
        if len(rows_of_side):
            sightings.append(Sighting("overlong", side, len(rows_of_side), len(lengths), first_rows(rows_of_side)))
    shifted = [] if checker.shift is None else [_shifted(part, corpus, *checker.shift)]
    return LintedCorpus(
        part,
        corpus,
        form,
        tuple(sightings),
        (*find_header(part, corpus, head, form, checker.labels), *shifted),
        first ^ language,
        second,
        first_length,
        (first_length >= form.shortest) & ((second_length > 0) | (len(form.sides) == 1)),
        tuple(checker.sample),
        checker.labels,
        checker.label_lines,
        np.array(checker.numbers),
        next(read, None) is None,
    )


def make_findings(
    linted: LintedCorpus, sightings: Sequence[Sighting], data: Data, labels: Labels = None
) -> list[Finding]:
    """Turn sightings into findings with file, line numbers and an example, which is read from the corpus again."""
    told = [sighting for sighting in sightings if sighting.count and sighting.kind in linted.form.kinds]
    wanted = {row for sighting in told for row in sighting.rows}
    read = islice(read_rows(linted.corpus, data, labels), max(wanted) + 1) if wanted else ()
    quotes = {number: row for number, row in enumerate(read) if number in wanted}
    findings = (_finding(linted, sighting, quotes) for sighting in told)
    return [finding for finding in findings if finding is not None]


def first_rows(rows: Rows) -> tuple[int, ...]:
    """Return the rows that a finding shows."""
    return tuple(int(row) for row in rows[:SHOWN])


# --- checking -------------------------------------------------------------------------------------------------------


@dataclass
class _Seen:
    count: int = 0
    rows: list[int] = field(default_factory=list)


class _RowChecker:
    """Checks one row after the other and counts the problems."""

    def __init__(self, form: RowForm, words: SideWords | None, labels: Labels, max_length: int) -> None:
        self.row, self.sample = 0, list[Pair]()
        self.labels = Counter[str]()
        self.label_lines: dict[str, int] = {}
        self.numbers, self._numbered_rows = array("d"), array("q")
        self.shift: tuple[int, int] | None = None  # a line in the shifted part, and by how many lines
        self._form, self._words, self._of_text, self._longest = form, words, labels, max_length
        self._stride, self._compared = 1, 0
        self._seen: dict[tuple[str, str], _Seen] = {}

    def check(self, chunk: Sequence[Row]) -> None:
        """Check the next rows."""
        if self._form.paired and self.shift is None:
            self._find_shift(chunk)
        sides = self._form.sides
        for row in chunk:
            for side, text in zip(sides, row[:2], strict=False):
                for kind in find_odd_characters(text):
                    self._see(kind, side)
            if _is_blank(row, self._form):
                self._see("empty", BOTH)
            else:
                self._check_text(row)
            self.row += 1

    def sightings(self) -> Iterator[Sighting]:
        """Yield the problems found so far."""
        for (kind, side), seen in self._seen.items():
            of = self._compared if kind == "digits" else self.row
            yield Sighting(kind, side, seen.count, of, tuple(seen.rows))
        rows = np.array(self._numbered_rows, np.intp)[far_from_all(np.array(self.numbers))]
        if len(rows):
            yield Sighting("outlier", "number", len(rows), self.row, first_rows(rows))

    def _check_text(self, row: Row) -> None:
        if self._words is not None:
            self._check_both(row.first, row.second, self._words)
        elif self._form.labelled:
            for label in split_labels(row.second, self._of_text):
                self.labels[label] += 1
                self.label_lines.setdefault(label, row.line)
        elif self._form.numbered:
            self.numbers.append(float(row.second))
            self._numbered_rows.append(self.row)
        if (self._form.labelled or self._form.numbered) and row.first.count(" ") >= self._longest:
            self._see("cut", "text")
        if self.row % self._stride == 0:
            self.sample.append((row.first, row.second))
            if len(self.sample) == 2 * _SAMPLE:  # drop every second row, and sample half as often from now on
                self.sample, self._stride = self.sample[::2], 2 * self._stride

    def _check_both(self, source: str, target: str, words: SideWords) -> None:
        if source.strip() == target.strip():
            if any(character.isalpha() for character in source) and (len(source) > _WORD or " " in source.strip()):
                self._see("identical", BOTH)
        elif words.looks_swapped(source, target):
            self._see("swapped", BOTH)
        if self.row % _EVERY == 0:
            self._compared += 1
            if _digits(source) != _digits(target):
                self._see("digits", BOTH)

    def _find_shift(self, chunk: Sequence[Row]) -> None:
        for block in blocks(chunk, _LATER_BLOCKS if self.row else _BLOCKS):
            if offset := find_shift(block):
                self.shift = block[0].line, offset
                return

    def _see(self, kind: str, side: str) -> None:
        seen = self._seen.setdefault((kind, side), _Seen())
        seen.count += 1
        if len(seen.rows) < SHOWN:
            seen.rows.append(self.row)


def far_from_all(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which numbers are many times the distance between the quartiles away from both quartiles."""
    low, high = np.quantile(numbers, (0.25, 0.75)) if len(numbers) else (0.0, 0.0)
    reach = _OUTLYING * (high - low)
    return ((numbers < low - reach) | (numbers > high + reach)) & (reach > 0)


def _is_blank(row: Row, form: RowForm) -> bool:
    return not row.first.strip() or (form.paired and not row.second.strip())


def _digits(text: str) -> list[int]:
    """Return the sorted digits of a text: separators and the order of numbers differ between languages."""
    return sorted(map(int, _DIGIT.findall(text)))


def _measure(chunk: Sequence[Row]) -> tuple[Hashes, Hashes, Lengths, Lengths]:
    """Compute the hashes and lengths of both sides.

    Python's hash has 64 bits: two of 4.5 million texts collide in one of two million runs.
    """
    firsts = [row.first.strip() for row in chunk]
    seconds = [row.second.strip() for row in chunk]
    hashes = (np.fromiter(map(hash, texts), np.int64, len(chunk)).view(np.uint64) for texts in (firsts, seconds))
    lengths = (np.fromiter(map(len, texts), np.int32, len(chunk)) for texts in (firsts, seconds))
    return *hashes, *lengths  # type: ignore[return-value]  # two of each


def _far_off(source: Lengths, target: Lengths) -> Iterator[Sighting]:
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


def _finding(linted: LintedCorpus, sighting: Sighting, quotes: dict[int, Row]) -> Finding | None:
    kind, share = linted.form.kinds[sighting.kind], sighting.count / sighting.of
    severity = kind.severity(share)
    if severity is None:
        return None
    return Finding(
        severity,
        sighting.kind,
        linted.part,
        f"{kind.what.format(other=sighting.other)}: {sighting.count:,} of {sighting.of:,} "
        f"({'under 0.01%' if share < 0.0001 else f'{share:.2%}'})",
        kind.advice.format(other=sighting.other),
        linted.name,
        _file(linted.corpus, linted.form, sighting.side),
        sighting.count,
        tuple(line for row in sighting.rows if (line := quotes[row].line)),
        _example(linted.form, sighting, quotes[sighting.rows[0]]) if sighting.rows else "",
        sighting.of,
        kind.keys,
    )


def _shifted(part: Part, corpus: AnyCorpus, line: int, offset: int) -> Finding:
    lines = "line" if abs(offset) == 1 else "lines"
    return Finding(
        "problem",
        "shifted",
        part,
        f"the sides are shifted: each source line fits the target {abs(offset)} {lines} "
        f"{'below' if offset > 0 else 'above'} it",
        f"One side has {abs(offset)} {lines} more or less before this line: remove or add what differs.",
        corpus.title,
        ", ".join(corpus.files()) or corpus.title,
        lines=(line,),
    )


def _example(form: RowForm, sighting: Sighting, row: Row) -> str:
    if sighting.side != BOTH:
        return excerpt(row[form.sides.index(sighting.side)], sighting.kind)  # type: ignore[arg-type]  # a text
    if len(form.sides) == 1:
        return excerpt(row.first)
    half = (WIDTH - 3) // 2
    return f"{excerpt(row.first, width=half)} | {excerpt(row.second, width=half)}"


def _file(corpus: AnyCorpus, form: RowForm, side: str) -> str:
    """Return the file of a side; if one file holds both sides, with the name of the side."""
    files = corpus.files() or (corpus.title,)
    if side == BOTH or len(form.sides) == 1:
        return ", ".join(files)
    return files[form.sides.index(side)] if len(files) == len(form.sides) else f"{files[0]} ({side})"
