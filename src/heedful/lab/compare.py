"""Two translators on the same sentences: which is better, whether that is more than chance, and where they differ.

A side is one system, or several training runs of one. Nothing is printed here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Final, Literal, get_args

import numpy as np

from heedful.errors import UserError, suggestion
from heedful.metrics.buckets import (
    FREQUENCIES,
    LENGTHS,
    Span,
    count_words,
    f1_by_frequency,
    span_index,
    words_by_frequency,
)
from heedful.metrics.significance import SAMPLES, SEED, Bootstrap, Welch, bootstrap, randomisation, run_scores, welch
from heedful.metrics.summed_metrics import Floats, MetricName, SummedMetric, build_metric, word_splitter

LEVEL: Final = 0.05  # of every test
METRICS: Final[tuple[MetricName, ...]] = get_args(MetricName)
DEFAULT_METRICS: Final = ("bleu", "chrf")

SideName = Literal["A", "B"]
Side = Sequence["System"] | Sequence[str]  # runs of a system, or the lines that one wrote


@dataclass(frozen=True)
class System:
    """What a translator made of the sentences."""

    name: str
    translations: tuple[str, ...]


@dataclass(frozen=True)
class Frequencies:
    """How often words are in a text, and which text that is."""

    text: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Sentences:
    """What is translated, and the references; without sources only finished translations can be compared."""

    name: str
    sources: tuple[str, ...] | None
    references: tuple[str, ...]
    to: str = ""  # the target language, for models of several


@dataclass(frozen=True)
class ComparisonInput:
    """Systems that are ready to be compared, and how to score them."""

    systems: Mapping[str, System]  # by name
    sentences: Sentences  # their references in the form that they are scored in
    bleu_tokenize: str = "13a"
    lowercase: bool = False
    frequencies: Frequencies | None = None  # of the training data, where it can be read


@dataclass(frozen=True)
class SideScore:
    """A side's scores by one metric."""

    runs: tuple[float, ...]
    mean: float
    deviation: float | None  # between the runs; one has none


@dataclass(frozen=True)
class MetricComparison:
    """Both sides by one metric. The difference is the mean of B's runs less the mean of A's."""

    metric: str
    signature: str
    lower_is_better: bool
    a: SideScore
    b: SideScore
    difference: float
    bootstrap: Bootstrap
    p_randomisation: float
    welch: Welch | None  # where both sides have several runs

    @property
    def better(self) -> SideName | None:
        """The side that is better beyond doubt: every test is below 0.05, and the interval leaves zero out."""
        tests = [self.bootstrap.p, self.p_randomisation, *([self.welch.p] if self.welch else [])]
        if max(tests) >= LEVEL or self.bootstrap.low <= 0 <= self.bootstrap.high:
            return None
        return "B" if (self.difference > 0) != self.lower_is_better else "A"


@dataclass(frozen=True)
class ScorePair:
    """One figure of both sides, means over their runs."""

    metric: str
    a: float
    b: float


@dataclass(frozen=True)
class Bucket:
    """A part of the sentences or of the reference's words."""

    span: Span
    size: int  # sentences, or words of the references
    scores: tuple[ScorePair, ...]


@dataclass(frozen=True)
class Example:
    """A sentence that the sides translate unequally well."""

    line: int
    source: str | None
    reference: str
    a: tuple[str, ...]  # the translation of each run
    b: tuple[str, ...]
    chrf: ScorePair  # of this sentence


@dataclass(frozen=True)
class Comparison:
    """All that was found."""

    a: tuple[str, ...]  # names of the systems
    b: tuple[str, ...]
    sentences: int
    samples: int
    seed: int
    metrics: tuple[MetricComparison, ...]
    lengths: tuple[Bucket, ...]  # sentences by words of the reference
    words: tuple[Bucket, ...]  # words by frequency
    frequencies_of: str  # the text in which the words were counted
    better_a: tuple[Example, ...]  # the clearest first
    better_b: tuple[Example, ...]


def compare(
    a: Side,
    b: Side,
    references: Sequence[str],
    sources: Sequence[str] | None = None,
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    bleu_tokenize: str = "13a",
    lowercase: bool = False,
    frequencies: Frequencies | None = None,
    samples: int = SAMPLES,
    seed: int = SEED,
    examples: int = 5,
) -> Comparison:
    """Compare two sides of one or several runs each; a side of plain lines is one run, named A or B.

    `lowercase` scores without case. `frequencies` counts words as `word_splitter(bleu_tokenize)` cuts them, best in the
    training data; without it they are counted in the references. `sources` are for the examples alone.
    """
    names = metric_names(metrics)
    a, b = _systems(a, "A"), _systems(b, "B")
    _check(a, b, references, sources)
    measures = {name: build_metric(name, references, bleu_tokenize, lowercase) for name in (*names, _OF_SENTENCES)}
    tables = {name: _SentenceCounts.of(of_name, a, b) for name, of_name in measures.items()}
    chosen = [tables[name] for name in names]
    cut = word_splitter(bleu_tokenize)
    words = [cut(reference) for reference in references]
    counted = frequencies or Frequencies("the references", count_words(words))
    better_a, better_b = _examples(tables[_OF_SENTENCES], a, b, references, sources, examples)
    return Comparison(
        a=tuple(system.name for system in a),
        b=tuple(system.name for system in b),
        sentences=len(references),
        samples=samples,
        seed=seed,
        metrics=tuple(_compare_by(table, samples, seed) for table in chosen),
        lengths=_by_length(chosen, [len(sentence) for sentence in words]),
        words=_by_frequency(a, b, cut, words, counted.counts),
        frequencies_of=counted.text,
        better_a=better_a,
        better_b=better_b,
    )


def metric_names(names: Sequence[str]) -> tuple[MetricName, ...]:
    """The names of metrics, each once and checked."""
    for name in names:
        if name not in METRICS:
            raise UserError(f"`{name}` is not a metric.{suggestion(name, METRICS)}")
    if not names:
        raise UserError(f"There is no metric to compare by: name some of {', '.join(METRICS)}.")
    return tuple(known for name in dict.fromkeys(names) for known in METRICS if known == name)


def check_lines(systems: Sequence[System], references: Sequence[str]) -> None:
    """Refuse systems that did not translate the sentences of the references, one line each."""
    for system in systems:
        if len(system.translations) != len(references):
            raise UserError(
                f"{system.name} has {len(system.translations):,} lines but there are {len(references):,} references: "
                "line n must translate sentence n."
            )


def _systems(side: Side, name: SideName) -> Sequence[System]:
    lines = tuple(line for line in side if isinstance(line, str))
    systems = [system for system in side if isinstance(system, System)]
    return [*systems, System(name, lines)] if lines else systems


def _check(
    a: Sequence[System],
    b: Sequence[System],
    references: Sequence[str],
    sources: Sequence[str] | None,
) -> None:
    if not (a and b):
        raise UserError(f"Side {'B' if a else 'A'} has no system: a side is one system, or several runs of one.")
    if len(references) < 2:
        raise UserError(f"A comparison needs two sentences at least, but the references have {len(references)}.")
    check_lines([*a, *b], references)
    if sources is not None and len(sources) != len(references):
        raise UserError(f"There are {len(sources):,} sources but {len(references):,} references: each needs one.")


# --- scores -------------------------------------------------------------------------------------------------------

_OF_SENTENCES: Final[MetricName] = "chrf"  # the metric that means most for a single sentence
_ROUNDING: Final = 1e-6  # of a score


@dataclass(frozen=True, eq=False)
class _SentenceCounts:
    """What every sentence of every run adds to a metric: [runs, sentences, counts] a side."""

    measure: SummedMetric
    a: Floats
    b: Floats

    @classmethod
    def of(cls, metric: SummedMetric, a: Sequence[System], b: Sequence[System]) -> "_SentenceCounts":
        return cls(metric, *(np.stack([metric.counts(system.translations) for system in side]) for side in (a, b)))


def _compare_by(table: _SentenceCounts, samples: int, seed: int) -> MetricComparison:
    scoring = table.measure.scores
    a, b = (_side_score(run_scores(scoring, side)) for side in (table.a, table.b))
    return MetricComparison(
        metric=table.measure.name,
        signature=table.measure.signature,
        lower_is_better=table.measure.lower_is_better,
        a=a,
        b=b,
        difference=b.mean - a.mean,
        bootstrap=bootstrap(scoring, table.a, table.b, samples, seed),
        p_randomisation=randomisation(scoring, table.a, table.b, samples, seed),
        welch=welch(a.runs, b.runs),
    )


def _side_score(scores: Floats) -> SideScore:
    runs = tuple(float(score) for score in scores)
    return SideScore(runs, mean(runs), stdev(runs) if len(runs) > 1 else None)


# --- buckets ------------------------------------------------------------------------------------------------------


def _by_length(tables: Sequence[_SentenceCounts], lengths: Sequence[int]) -> tuple[Bucket, ...]:
    """Every metric over the sentences of each length; lengths without a sentence are left out."""
    places = np.array([span_index(length, LENGTHS) for length in lengths])
    members = [np.flatnonzero(places == number) for number in range(len(LENGTHS))]
    return tuple(
        Bucket(span, len(rows), tuple(_pair_of(table, rows) for table in tables))
        for span, rows in zip(LENGTHS, members, strict=True)
        if len(rows)
    )


def _pair_of(table: _SentenceCounts, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> ScorePair:
    a, b = (float(run_scores(table.measure.scores, side[:, rows]).mean()) for side in (table.a, table.b))
    return ScorePair(table.measure.name, a, b)


def _by_frequency(
    a: Sequence[System],
    b: Sequence[System],
    cut: Callable[[str], list[str]],
    references: Sequence[Sequence[str]],
    counts: Mapping[str, int],
) -> tuple[Bucket, ...]:
    """The F1 of the words of each frequency; frequencies without a word in the references are left out."""

    def mean_f1(side: Sequence[System]) -> Floats:
        runs = [[cut(text) for text in system.translations] for system in side]
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
    references: Sequence[str],
    sources: Sequence[str] | None,
    number: int,
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """The sentences that A, and those that B translates better, the greatest difference first."""
    means_a, means_b = (table.measure.scores(side).mean(axis=0) for side in (table.a, table.b))

    def example(row: int) -> Example:
        source = None if sources is None else sources[row]
        of_a, of_b = (tuple(system.translations[row] for system in side) for side in (a, b))
        chrf = ScorePair(table.measure.name, float(means_a[row]), float(means_b[row]))
        return Example(row + 1, source, references[row], of_a, of_b, chrf)

    lead = means_b - means_a
    ahead_b = [int(row) for row in np.argsort(-lead, kind="stable")[:number] if lead[row] > _ROUNDING]
    ahead_a = [int(row) for row in np.argsort(lead, kind="stable")[:number] if lead[row] < -_ROUNDING]
    return tuple(map(example, ahead_a)), tuple(map(example, ahead_b))
