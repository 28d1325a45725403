"""Corpus metrics as functions of sums: every sentence has counts, and the score depends on their sum.

A significance test that draws thousands of corpora from the same sentences thus scores each with one matrix product.
The counts of BLEU, chrF and TER are sacreBLEU's; the formulas are the same too, on whole arrays (Papineni et al. 2002,
Popović 2015, Snover et al. 2006), and give the same scores up to rounding. Those of error rates are in `edits`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, assert_never, get_args

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from heedful.base.errors import UserError, suggestion
from heedful.config.decode import MetricName as MetricName
from heedful.metrics.edits import (
    CHARACTERS,
    WORDS,
    Reference,
    count_edits,
    count_right,
    first_variant,
    mean_of_sums,
    rate_of_sums,
    ratio,
    variants_of,
)
from heedful.metrics.edits import Floats as Floats
from heedful.metrics.scores import ItemScore, ItemScores
from heedful.metrics.translation import bleu_metric, reference_streams, scored_part

Scoring = Callable[[Floats], Floats]  # summed counts [..., counts] -> scores [...]

METRICS: Final[tuple[MetricName, ...]] = get_args(MetricName)
_ORDERS: Final = 4  # n-gram orders in BLEU


@dataclass(frozen=True, eq=False)
class SummedMetric:
    """A metric with fixed references."""

    name: str
    scores: Scoring
    lower_is_better: bool
    signature: str  # the metric's settings: equal signatures make scores comparable
    counts: Callable[[Sequence[str]], Floats]  # what each output adds to the sums [outputs, counts]

    def score(self, outputs: Sequence[str]) -> float:
        """Return the score of a whole corpus."""
        return float(self.scores(self.counts(outputs).sum(axis=0)))


def metric_names(names: Sequence[str]) -> tuple[MetricName, ...]:
    """Check the names of metrics and drop repeated ones."""
    for name in names:
        if name not in METRICS:
            raise UserError(f"`{name}` is not a metric.{suggestion(name, METRICS)}")
    if not names:
        raise UserError(f"There is no metric to compare by: choose from {', '.join(METRICS)}.")
    return tuple(known for name in dict.fromkeys(names) for known in METRICS if known == name)


def build_metric(
    name: MetricName,
    references: Sequence[Reference],
    bleu_tokenize: str = "13a",
    lowercase: bool = False,
    one_word: bool = False,
) -> SummedMetric:
    """Build the metric of this name for these references; `lowercase` ignores case, as TER always does.

    `one_word` says that an output is the phonemes of one word, so that WER is the share of wrong outputs.
    """
    if name == "bleu":
        return _from_sacrebleu("BLEU", bleu_of_sums, bleu_metric(bleu_tokenize, lowercase, references))
    if name == "chrf":
        streams = reference_streams(references)
        return _from_sacrebleu("chrF", chrf_of_sums, CHRF(lowercase=lowercase, references=streams))
    if name == "ter":
        return _from_sacrebleu("TER", rate_of_sums, TER(references=reference_streams(references)), True)
    numbers = {len(variants_of(reference)) for reference in references}
    settings = f"nrefs:{numbers.pop() if len(numbers) == 1 else 'var'}|case:{'lc' if lowercase else 'mixed'}"

    def cased(texts: Sequence[str]) -> list[str]:
        return [text.lower() if lowercase else text for text in texts]

    true = [tuple(cased(variants_of(reference))) for reference in references]

    def summed(label: str, scores: Scoring, unit: str, counts: Callable[[Sequence[str]], Floats]) -> SummedMetric:
        signature = f"{settings}|unit:{unit}"
        return SummedMetric(label, scores, name != "exact_match", signature, lambda outputs: counts(cased(outputs)))

    def edits_per_output(outputs: Sequence[str]) -> Floats:
        edits = count_edits(outputs, true, CHARACTERS)[:, 0]
        return np.stack([edits, np.ones_like(edits)], axis=1)

    def wrong_outputs(outputs: Sequence[str]) -> Floats:
        right = count_right(outputs, true, WORDS)
        return np.stack([right[:, 1] - right[:, 0], right[:, 1]], axis=1)

    edits_of_words = partial(count_edits, references=true, split=WORDS)
    match name:
        case "exact_match":
            right = partial(count_right, references=true)
            return summed("exact match", lambda sums: 100 * mean_of_sums(sums), "output", right)
        case "edit_distance":
            return summed("edit distance", mean_of_sums, "character", edits_per_output)
        case "per":
            return summed("PER", rate_of_sums, "symbol", edits_of_words)
        case "wer":
            by_output = ("output", wrong_outputs) if one_word else ("word", edits_of_words)
            return summed("WER", rate_of_sums, *by_output)
        case _:
            assert_never(name)


def _from_sacrebleu(name: str, scores: Scoring, metric: Metric, lower_is_better: bool = False) -> SummedMetric:
    def counts(outputs: Sequence[str]) -> Floats:
        return np.array(metric._extract_corpus_statistics([*map(scored_part, outputs)], None), dtype=np.float64)

    return SummedMetric(name, scores, lower_is_better, str(metric.get_signature().format()), counts)


def word_splitter(bleu_tokenize: str = "13a") -> Callable[[str], list[str]]:
    """Return a function that splits a text into the words that BLEU counts."""
    tokenizer = bleu_metric(bleu_tokenize).tokenizer
    return lambda text: str(tokenizer(text.rstrip())).split()


class TextScoring(NamedTuple):
    """Settings of the metrics of texts: see `build_metric`."""

    bleu_tokenize: str = "13a"
    lowercase: bool = False
    one_word: bool = False


def text_scorer(
    unit: str,
    inputs: Sequence[str],
    references: Sequence[Reference],
    names: Sequence[MetricName],
    scoring: TextScoring,
) -> Callable[[Sequence[str]], ItemScores]:
    """Return a function from outputs to what each adds to the metrics named, and to chrF, the most informative one.

    N-grams of the references are counted once for all systems.
    """
    split = word_splitter(scoring.bleu_tokenize)
    metrics = {name: build_metric(name, references, *scoring) for name in ("chrf", *names)}
    items = list(zip(inputs, references, strict=True))
    lengths = [len(split(first_variant(reference))) for reference in references]

    def score(outputs: Sequence[str]) -> ItemScores:
        return ItemScores(
            unit,
            items,
            [
                ItemScore(name, one.name, one.signature, one.scores, partial(one.counts, outputs), one.lower_is_better)
                for name, one in metrics.items()
            ],
            [
                (text, " | ".join(variants_of(true)), output)
                for (text, true), output in zip(items, outputs, strict=True)
            ],
            lengths,
            "reference",
        )

    return score


def bleu_of_sums(sums: Floats) -> Floats:
    """BLEU = min(1, exp(1 - r/c)) * (p1 p2 p3 p4)^(1/4), in percent.

    Precisions without a match are 1/2, 1/4, ... divided by the number of n-grams (smoothing "exp"); without any match,
    BLEU is 0. The counts are c, r, the matches of each order, and the n-grams of the output of each order.
    """
    length, reference = sums[..., 0], sums[..., 1]
    matches, ngrams = sums[..., 2 : 2 + _ORDERS], sums[..., 2 + _ORDERS :]
    missed = matches == 0
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), matches)
    precisions = ratio(smoothed, ngrams)
    usable = matches.any(axis=-1) & (ngrams > 0).all(axis=-1)
    logs = np.log(precisions, out=np.zeros_like(precisions), where=precisions > 0)
    brevity = np.exp(np.minimum(0.0, 1.0 - ratio(reference, length)))
    return np.where(usable, 100 * brevity * np.exp(logs.mean(axis=-1)), 0.0)


def chrf_of_sums(sums: Floats, beta: float = 2.0) -> Floats:
    """chrF = (1 + beta^2) P R / (beta^2 P + R), in percent.

    P and R are means over the n-gram orders that both sides have. The counts are, for each order, the n-grams of the
    output, the n-grams of the reference, and the matches.
    """
    output, reference, matches = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
    there = (output > 0) & (reference > 0)
    orders = there.sum(axis=-1).astype(np.float64)
    precision = ratio(np.where(there, ratio(matches, output), 0.0).sum(axis=-1), orders)
    recall = ratio(np.where(there, ratio(matches, reference), 0.0).sum(axis=-1), orders)
    return 100 * ratio((1 + beta**2) * precision * recall, beta**2 * precision + recall)
