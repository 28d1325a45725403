"""Corpus metrics as functions of sums: every sentence has counts, and the score depends on their sum.

A significance test that draws thousands of corpora from the same sentences thus scores each with one matrix product.
The counts are sacreBLEU's; the formulas are the same too, on whole arrays (Papineni et al. 2002, Popović 2015, Snover
et al. 2006), and give the same scores up to rounding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from heedful.metrics.translation import bleu_metric

Floats = NDArray[np.float64]
Scoring = Callable[[Floats], Floats]  # summed counts [..., counts] -> scores [...]
MetricName = Literal["bleu", "chrf", "ter"]

_ORDERS: Final = 4  # n-gram orders in BLEU


@dataclass(frozen=True, eq=False)
class SummedMetric:
    """A metric with fixed references."""

    name: str
    scores: Scoring
    lower_is_better: bool
    _metric: Metric

    @property
    def signature(self) -> str:
        """SacreBLEU's description of the metric's settings: equal signatures make scores comparable."""
        return str(self._metric.get_signature().format())

    def counts(self, outputs: Sequence[str]) -> Floats:
        """Return what each sentence adds to the sums [sentences, counts]."""
        return np.array(self._metric._extract_corpus_statistics(outputs, None), dtype=np.float64)


def build_metric(
    name: MetricName, references: Sequence[str], bleu_tokenize: str = "13a", lowercase: bool = False
) -> SummedMetric:
    """Build the metric of this name for these references; `lowercase` ignores case, as TER always does."""
    match name:
        case "bleu":
            return SummedMetric("BLEU", bleu_of_sums, False, bleu_metric(bleu_tokenize, lowercase, references))
        case "chrf":
            return SummedMetric("chrF", chrf_of_sums, False, CHRF(lowercase=lowercase, references=[references]))
        case "ter":
            return SummedMetric("TER", ter_of_sums, True, TER(references=[references]))


def word_splitter(bleu_tokenize: str = "13a") -> Callable[[str], list[str]]:
    """Return a function that splits a text into the words that BLEU counts."""
    tokenizer = bleu_metric(bleu_tokenize).tokenizer
    return lambda text: str(tokenizer(text.rstrip())).split()


def bleu_of_sums(sums: Floats) -> Floats:
    """BLEU = min(1, exp(1 - r/c)) * (p1 p2 p3 p4)^(1/4), in percent.

    Precisions without a match are 1/2, 1/4, ... divided by the number of n-grams (smoothing "exp"); without any match,
    BLEU is 0. The counts are c, r, the matches of each order, and the n-grams of the output of each order.
    """
    length, reference = sums[..., 0], sums[..., 1]
    matches, ngrams = sums[..., 2 : 2 + _ORDERS], sums[..., 2 + _ORDERS :]
    missed = matches == 0
    smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), matches)
    precisions = _ratio(smoothed, ngrams)
    usable = matches.any(axis=-1) & (ngrams > 0).all(axis=-1)
    logs = np.log(precisions, out=np.zeros_like(precisions), where=precisions > 0)
    brevity = np.exp(np.minimum(0.0, 1.0 - _ratio(reference, length)))
    return np.where(usable, 100 * brevity * np.exp(logs.mean(axis=-1)), 0.0)


def chrf_of_sums(sums: Floats, beta: float = 2.0) -> Floats:
    """chrF = (1 + beta^2) P R / (beta^2 P + R), in percent.

    P and R are means over the n-gram orders that both sides have. The counts are, for each order, the n-grams of the
    output, the n-grams of the reference, and the matches.
    """
    output, reference, matches = sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]
    there = (output > 0) & (reference > 0)
    orders = there.sum(axis=-1).astype(np.float64)
    precision = _ratio(np.where(there, _ratio(matches, output), 0.0).sum(axis=-1), orders)
    recall = _ratio(np.where(there, _ratio(matches, reference), 0.0).sum(axis=-1), orders)
    return 100 * _ratio((1 + beta**2) * precision * recall, beta**2 * precision + recall)


def ter_of_sums(sums: Floats) -> Floats:
    """TER = edits / words of the reference, in percent; these are the two counts.

    If the references have no words, TER is 0 without edits and 100 otherwise.
    """
    edits, words = sums[..., 0], sums[..., 1]
    return 100 * np.where(words > 0, _ratio(edits, words), (edits > 0).astype(np.float64))


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide, with 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
