"""Compares two translation systems on the same sentences: which is better, how significantly, and where they differ.

A side is one system, or several training runs of one. Nothing is printed here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final, Literal

import numpy as np

from heedful.base.arguments import check_one_each
from heedful.base.errors import UserError, counted
from heedful.metrics.buckets import (
    FREQUENCIES,
    LENGTHS,
    Span,
    count_words,
    f1_by_frequency,
    span_index,
    words_by_frequency,
)
from heedful.metrics.edits import Reference, first_variant
from heedful.metrics.significance import SAMPLES, SEED, Bootstrap, Welch, bootstrap, randomisation, run_scores, welch
from heedful.metrics.summed_metrics import (
    Floats,
    MetricName,
    Scoring,
    SummedMetric,
    build_metric,
    metric_names,
    word_splitter,
)

LEVEL: Final = 0.05  # significance level of every test
DEFAULT_METRICS: Final = ("bleu", "chrf")

SideName = Literal["A", "B"]
Side = Sequence["System"] | Sequence[str]  # runs of a system, or the output lines of one


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


@dataclass(frozen=True)
class Sentences:
    """A test set: sources and references. Without sources, only existing translations can be compared."""

    name: str
    sources: tuple[str, ...] | None
    references: tuple[Reference, ...]
    to: str = ""  # target language, for multilingual models


@dataclass(frozen=True)
class ComparisonInput:
    """Translations that are ready to be compared, and how to score them."""

    systems: Mapping[str, System]  # by name
    sentences: Sentences  # with references in the form used for scoring
    bleu_tokenize: str = "13a"
    lowercase: bool = False
    frequencies: Frequencies | None = None  # in the training data, if it can be read
    one_word: bool = False  # whether an output is the phonemes of one word

    def compare(
        self,
        runs_a: Iterable[str],
        runs_b: Iterable[str],
        metrics: Sequence[str],
        samples: int,
        seed: int,
        examples: int,
    ) -> "Comparison":
        """Compare two sides, each given by the names of its runs."""
        return compare(
            [self.systems[name] for name in runs_a],
            [self.systems[name] for name in runs_b],
            self.sentences.references,
            self.sentences.sources,
            metrics=metrics,
            bleu_tokenize=self.bleu_tokenize,
            lowercase=self.lowercase,
            one_word=self.one_word,
            frequencies=self.frequencies,
            samples=samples,
            seed=seed,
            examples=examples,
        )


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
    """A group of sentences, or of words in the references."""

    span: Span
    size: int  # number of sentences or words
    scores: tuple[ScorePair, ...]


@dataclass(frozen=True)
class Example:
    """A sentence that one side translates better than the other."""

    line: int
    source: str | None
    reference: str
    a: tuple[str, ...]  # the translation of each run
    b: tuple[str, ...]
    score: ScorePair  # of this sentence


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison."""

    a: tuple[str, ...]  # names of the systems
    b: tuple[str, ...]
    sentences: int
    samples: int
    seed: int
    metrics: tuple[MetricComparison, ...]
    lengths: tuple[Bucket, ...]  # sentences by reference length in words
    words: tuple[Bucket, ...]  # words by frequency
    frequencies_of: str  # which text the words were counted in
    better_a: tuple[Example, ...]  # largest difference first
    better_b: tuple[Example, ...]
    unit: str = "sentence"  # what the tests draw: a sentence, a document, a text, a question or an image
    lengths_of: str = "reference"  # what the lengths are those of
    numbered: str = "line"  # what the numbers of the examples count


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
    a, b = _systems(a, "A"), _systems(b, "B")
    _check(a, b, references, sources)
    built = {
        name: build_metric(name, references, bleu_tokenize, lowercase, one_word) for name in (*names, _OF_SENTENCES)
    }
    tables = {name: _SentenceCounts.of(metric, a, b) for name, metric in built.items()}
    selected = [tables[name] for name in names]
    split = word_splitter(bleu_tokenize)
    words = [split(first_variant(reference)) for reference in references]
    frequencies = frequencies or Frequencies("the references", count_words(words))
    better_a, better_b = _examples(tables[_OF_SENTENCES], a, b, references, sources, examples)
    return Comparison(
        a=tuple(system.name for system in a),
        b=tuple(system.name for system in b),
        sentences=len(references),
        samples=samples,
        seed=seed,
        metrics=tuple(_compare_by(table, samples, seed) for table in selected),
        lengths=_by_length(selected, [len(sentence) for sentence in words]),
        words=_by_frequency(a, b, split, words, frequencies.counts),
        frequencies_of=frequencies.text,
        better_a=better_a,
        better_b=better_b,
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
    systems = [system for system in side if isinstance(system, System)]
    return [*systems, System(name, lines)] if lines else systems


def _check(
    a: Sequence[System],
    b: Sequence[System],
    references: Sequence[Reference],
    sources: Sequence[str] | None,
) -> None:
    if not (a and b):
        raise UserError(f"Side {'B' if a else 'A'} has no system: a side is one system, or several runs of one.")
    if len(references) < 2:
        there = "there is only 1 reference" if references else "there are no references"
        raise UserError(f"A comparison needs at least two sentences, but {there}.")
    check_lines([*a, *b], references)
    if sources is not None:
        check_one_each(len(sources), "source", len(references), "reference")


# --- scores -------------------------------------------------------------------------------------------------------

_OF_SENTENCES: Final[MetricName] = "chrf"  # the most informative metric for a single sentence
_ROUNDING: Final = 1e-6  # score differences below this are rounding errors


@dataclass(frozen=True, eq=False)
class _SentenceCounts:
    """What every sentence of every run adds to a metric: [runs, sentences, counts] per side."""

    metric: SummedMetric
    a: Floats
    b: Floats

    @classmethod
    def of(cls, metric: SummedMetric, a: Sequence[System], b: Sequence[System]) -> "_SentenceCounts":
        return cls(metric, *(np.stack([metric.counts(system.translations) for system in side]) for side in (a, b)))


def _compare_by(table: _SentenceCounts, samples: int, seed: int) -> MetricComparison:
    metric = table.metric
    named = (metric.name, metric.signature, metric.lower_is_better)
    return compare_counts(named, metric.scores, table.a, table.b, samples, seed)


def compare_counts(
    named: tuple[str, str, bool], scoring: Scoring, a: Floats, b: Floats, samples: int, seed: int
) -> MetricComparison:
    """Compare two sides by a score of summed counts [runs, items, counts].

    `named` is the metric's name, its signature, and whether lower is better.
    """
    metric, signature, lower_is_better = named
    of_a, of_b = (_side_score(run_scores(scoring, side)) for side in (a, b))
    return MetricComparison(
        metric=metric,
        signature=signature,
        lower_is_better=lower_is_better,
        a=of_a,
        b=of_b,
        difference=of_b.mean - of_a.mean,
        bootstrap=bootstrap(scoring, a, b, samples, seed),
        p_randomisation=randomisation(scoring, a, b, samples, seed),
        welch=welch(of_a.runs, of_b.runs),
    )


def _side_score(scores: Floats) -> SideScore:
    runs = tuple(float(score) for score in scores)
    return SideScore(runs, mean(runs), stdev(runs) if len(runs) > 1 else None)


# --- buckets ------------------------------------------------------------------------------------------------------


def _by_length(tables: Sequence[_SentenceCounts], lengths: Sequence[int]) -> tuple[Bucket, ...]:
    """Compute every metric over the sentences of each length; empty groups are left out."""
    indices = np.array([span_index(length, LENGTHS) for length in lengths])
    members = [np.flatnonzero(indices == number) for number in range(len(LENGTHS))]
    return tuple(
        Bucket(span, len(rows), tuple(_pair_of(table, rows) for table in tables))
        for span, rows in zip(LENGTHS, members, strict=True)
        if len(rows)
    )


def _pair_of(table: _SentenceCounts, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> ScorePair:
    a, b = (float(run_scores(table.metric.scores, side[:, rows]).mean()) for side in (table.a, table.b))
    return ScorePair(table.metric.name, a, b)


def _by_frequency(
    a: Sequence[System],
    b: Sequence[System],
    split: Callable[[str], list[str]],
    references: Sequence[Sequence[str]],
    counts: Mapping[str, int],
) -> tuple[Bucket, ...]:
    """Compute the F1 of the words of each frequency; frequencies without reference words are left out."""

    def mean_f1(side: Sequence[System]) -> Floats:
        runs = [[split(text) for text in system.translations] for system in side]
        return np.stack([f1_by_frequency(run, references, counts) for run in runs]).mean(axis=0)

    of_a, of_b = mean_f1(a), mean_f1(b)
    sizes = words_by_frequency(references, counts)
    return tuple(
        Bucket(span, size, (ScorePair("F1", float(f1_a), float(f1_b)),))
        for span, size, f1_a, f1_b in zip(FREQUENCIES, sizes, of_a, of_b, strict=True)
        if size
    )


# --- examples -----------------------------------------------------------------------------------------------------


def _examples(
    table: _SentenceCounts,
    a: Sequence[System],
    b: Sequence[System],
    references: Sequence[Reference],
    sources: Sequence[str] | None,
    number: int,
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return the sentences that A translates better, and those that B does, the largest difference first."""
    means_a, means_b = (table.metric.scores(side).mean(axis=0) for side in (table.a, table.b))

    def example(row: int) -> Example:
        source = None if sources is None else sources[row]
        of_a, of_b = (tuple(system.translations[row] for system in side) for side in (a, b))
        chrf = ScorePair(table.metric.name, float(means_a[row]), float(means_b[row]))
        return Example(row + 1, source, first_variant(references[row]), of_a, of_b, chrf)

    ahead_a, ahead_b = rows_ahead(means_b - means_a, number)
    return tuple(map(example, ahead_a)), tuple(map(example, ahead_b))


def rows_ahead(lead: Floats, number: int) -> tuple[list[int], list[int]]:
    """Return where A is better, and where B is, by the lead of B over A; the largest difference first."""
    ahead_b = [int(row) for row in np.argsort(-lead, kind="stable")[:number] if lead[row] > _ROUNDING]
    ahead_a = [int(row) for row in np.argsort(lead, kind="stable")[:number] if lead[row] < -_ROUNDING]
    return ahead_a, ahead_b
