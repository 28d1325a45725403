"""Compares two systems by scores per item: which is better, how significantly, and where they differ.

An item is what the tests draw: a sentence, a document, a text, a question or an image. It adds counts to a score, such
as the n-grams of BLEU or the brackets of its tree. A side is one system, or several training runs of one. Nothing is
printed here, and torch is not needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from statistics import mean, stdev
from typing import Final, Literal, NamedTuple

import numpy as np

from heedful.base.arguments import check_one_each
from heedful.base.errors import UserError, counted
from heedful.metrics.buckets import (
    FREQUENCIES,
    Span,
    count_words,
    f1_by_frequency,
    rows_by_length,
    words_by_frequency,
)
from heedful.metrics.edits import Floats, Reference, first_variant
from heedful.metrics.scores import ItemScore, ItemScores
from heedful.metrics.significance import SAMPLES, SEED, Bootstrap, Welch, bootstrap, randomisation, run_scores, welch
from heedful.metrics.summed_metrics import TextScoring, metric_names, text_scorer, word_splitter

LEVEL: Final = 0.05  # significance level of every test
DEFAULT_METRICS: Final = ("bleu", "chrf")
_ROUNDING: Final = 1e-6  # score differences below this are rounding errors

SideName = Literal["A", "B"]
Side = Sequence["System"] | Sequence[str]  # runs of a system, or the output lines of one


# --- results ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SideScore:
    """A side's scores in one metric."""

    runs: tuple[float, ...]
    mean: float
    deviation: float | None  # standard deviation over the runs; None with a single run


@dataclass(frozen=True)
class MetricComparison:
    """Both sides in one metric. The difference is the mean of B's runs minus the mean of A's."""

    metric: str
    signature: str
    lower_is_better: bool
    a: SideScore
    b: SideScore
    difference: float
    bootstrap: Bootstrap
    p_randomisation: float
    welch: Welch | None  # if both sides have several runs

    @property
    def better(self) -> SideName | None:
        """The significantly better side: every p-value is below 0.05, and the interval excludes zero."""
        tests = [self.bootstrap.p, self.p_randomisation, *([self.welch.p] if self.welch else [])]
        if max(tests) >= LEVEL or self.bootstrap.low <= 0 <= self.bootstrap.high:
            return None
        return "B" if (self.difference > 0) != self.lower_is_better else "A"


@dataclass(frozen=True)
class ScorePair:
    """One score of both sides, averaged over their runs."""

    metric: str
    a: float
    b: float


@dataclass(frozen=True)
class Bucket:
    """A group of items, or of words in the references."""

    span: Span
    size: int  # number of items or words
    scores: tuple[ScorePair, ...]


@dataclass(frozen=True)
class Example:
    """An item on which one side is better than the other."""

    line: int
    source: str | None
    reference: str
    a: tuple[str, ...]  # the output of each run
    b: tuple[str, ...]
    score: ScorePair  # of this item


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison."""

    a: tuple[str, ...]  # names of the systems
    b: tuple[str, ...]
    sentences: int  # number of items
    samples: int
    seed: int
    metrics: tuple[MetricComparison, ...]
    lengths: tuple[Bucket, ...]  # items by length in words
    words: tuple[Bucket, ...]  # words by frequency
    frequencies_of: str  # which text the words were counted in
    better_a: tuple[Example, ...]  # largest difference first
    better_b: tuple[Example, ...]
    unit: str = "sentence"  # what the tests draw: a sentence, a document, a text, a question or an image
    lengths_of: str = "reference"  # what the lengths are those of
    numbered: str = "line"  # what the numbers of the examples count


# --- items --------------------------------------------------------------------------------------------------------


class ScoredRun(NamedTuple):
    """A run of a system, and what it adds to the scores with each item of the test set."""

    name: str
    items: ItemScores


def compare_items(
    a: Sequence[ScoredRun],
    b: Sequence[ScoredRun],
    metrics: Sequence[str],
    *,
    shown_by: str,
    samples: int = SAMPLES,
    seed: int = SEED,
    examples: int = 5,
) -> Comparison:
    """Compare two sides whose runs have the same items; examples are those that differ most by the score `shown_by`."""
    first = a[0].items
    counts = {name: _count(name, a, b) for name in dict.fromkeys((*metrics, shown_by))}
    score, of_a, of_b = counts[shown_by]
    means_a, means_b = (score.of_sums(side).mean(axis=0) for side in (of_a, of_b))
    lead = (means_a - means_b) if score.lower_is_better else (means_b - means_a)

    def example(row: int) -> Example:
        given, true, _ = first.shown[row]
        outputs_a, outputs_b = (tuple(run.items.shown[row][2] for run in side) for side in (a, b))
        pair = ScorePair(score.label, float(means_a[row]), float(means_b[row]))
        return Example(row + 1, given, true, outputs_a, outputs_b, pair)

    def largest(lead: Floats) -> tuple[Example, ...]:
        rows = np.argsort(-lead, kind="stable")[: examples if first.shown else 0].tolist()
        return tuple(example(row) for row in rows if lead[row] > _ROUNDING)

    return Comparison(
        a=tuple(run.name for run in a),
        b=tuple(run.name for run in b),
        sentences=len(first.items),
        samples=samples,
        seed=seed,
        metrics=tuple(compare_counts(*counts[name], samples, seed) for name in metrics),
        lengths=tuple(
            Bucket(span, len(rows), tuple(_pair(*counts[name], rows) for name in metrics))
            for span, rows in rows_by_length(first.lengths)
        ),
        words=(),
        frequencies_of="",
        better_a=largest(-lead),
        better_b=largest(lead),
        unit=first.unit,
        lengths_of=first.lengths_of,
        numbered=first.numbered or first.unit,
    )


def compare_counts(score: ItemScore, a: Floats, b: Floats, samples: int, seed: int) -> MetricComparison:
    """Compare two sides by a score, given the counts of their items [runs, items, counts]."""
    of_a, of_b = (
        SideScore(runs, mean(runs), stdev(runs) if len(runs) > 1 else None)
        for runs in (tuple(map(float, run_scores(score.of_sums, side))) for side in (a, b))
    )
    return MetricComparison(
        metric=score.label,
        signature=score.signature,
        lower_is_better=score.lower_is_better,
        a=of_a,
        b=of_b,
        difference=of_b.mean - of_a.mean,
        bootstrap=bootstrap(score.of_sums, a, b, samples, seed),
        p_randomisation=randomisation(score.of_sums, a, b, samples, seed),
        welch=welch(of_a.runs, of_b.runs),
    )


def _count(name: str, a: Sequence[ScoredRun], b: Sequence[ScoredRun]) -> tuple[ItemScore, Floats, Floats]:
    """Return a score, and the counts of each side's items [runs, items, counts]."""
    sides = [[next(one for one in run.items.scores if one.name == name) for run in side] for side in (a, b)]
    of_a, of_b = (np.stack([score.counts() for score in side]) for side in sides)
    return sides[0][0], of_a, of_b


def _pair(score: ItemScore, a: Floats, b: Floats, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> ScorePair:
    return ScorePair(score.label, *(float(run_scores(score.of_sums, side[:, rows]).mean()) for side in (a, b)))


# --- translations -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class System:
    """A system's translations of the test sentences."""

    name: str
    translations: tuple[str, ...]


@dataclass(frozen=True)
class Frequencies:
    """Word counts, and a description of the text they were counted in."""

    text: str
    counts: Mapping[str, int]


def compare(
    a: Side,
    b: Side,
    references: Sequence[Reference],
    sources: Sequence[str] | None = None,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    bleu_tokenize: str = "13a",
    lowercase: bool = False,
    one_word: bool = False,
    frequencies: Frequencies | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
    examples: int = 5,
) -> Comparison:
    """Compare two sides with one or more runs each; a side of plain lines is one run, named A or B.

    A reference may be a tuple of variants. `lowercase` ignores case in scoring; `one_word` says that an output is the
    phonemes of one word, so that WER is the share of wrong outputs. `frequencies` are counts of words as
    `word_splitter(bleu_tokenize)` splits them, preferably in the training data; by default they are counted in the
    references. `sources` are only shown in the examples.
    """
    names = metric_names(metrics)
    systems_a, systems_b = _systems(a, "A"), _systems(b, "B")
    if len(references) < 2:
        there = "there is only 1 reference" if references else "there are no references"
        raise UserError(f"A comparison needs at least two sentences, but {there}.")
    check_lines([*systems_a, *systems_b], references)
    if sources is not None:
        check_one_each(len(sources), "source", len(references), "reference")
    scoring = TextScoring(bleu_tokenize, lowercase, one_word)
    score = text_scorer("sentence", sources or [""] * len(references), references, names, scoring)
    expected = [first_variant(reference) for reference in references]

    def scored(system: System) -> ScoredRun:
        texts = zip(sources or repeat(None), expected, system.translations, strict=False)
        return ScoredRun(system.name, replace(score(system.translations), shown=list(texts), numbered="line"))

    runs_a, runs_b = (list(map(scored, systems)) for systems in (systems_a, systems_b))
    # chrF is the most informative metric for a single sentence.
    found = compare_items(runs_a, runs_b, names, shown_by="chrf", samples=samples, seed=seed, examples=examples)
    split = word_splitter(bleu_tokenize)
    words = [split(text) for text in expected]
    frequencies = frequencies or Frequencies("the references", count_words(words))
    f1_a, f1_b = (
        np.mean(
            [f1_by_frequency(list(map(split, one.translations)), words, frequencies.counts) for one in side], axis=0
        )
        for side in (systems_a, systems_b)
    )
    buckets = zip(FREQUENCIES, words_by_frequency(words, frequencies.counts), f1_a, f1_b, strict=True)
    return replace(
        found,
        words=tuple(
            Bucket(span, size, (ScorePair("F1", float(of_a), float(of_b)),))
            for span, size, of_a, of_b in buckets
            if size
        ),
        frequencies_of=frequencies.text,
    )


def check_lines(systems: Sequence[System], references: Sequence[Reference]) -> None:
    """Refuse systems that do not have exactly one line per reference."""
    for system in systems:
        if len(system.translations) != len(references):
            raise UserError(
                f"{system.name} has {counted(len(system.translations), 'line')} but there are {len(references):,} "
                "references: line n must translate sentence n."
            )


def _systems(side: Side, name: SideName) -> Sequence[System]:
    lines = tuple(line for line in side if isinstance(line, str))
    systems = [*(system for system in side if isinstance(system, System)), *([System(name, lines)] if lines else [])]
    if not systems:
        raise UserError(f"Side {name} has no system: a side is one system, or several runs of one.")
    return systems
