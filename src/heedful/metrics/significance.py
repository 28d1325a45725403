"""Whether two systems differ by more than chance, judged on the same sentences.

A side is one system, or several training runs ("seeds") of one. Its counts are an array [runs, sentences, counts]; its
score is the mean over the runs of each run's corpus score; the difference is the score of b less the score of a.

bootstrap         Koehn 2004. "Zero difference on other sentences of this kind and, with several runs, with other runs."
randomisation     Riezler and Maxwell 2005. "On these sentences it makes no difference which side translates."
welch             Welch 1947. "Zero difference between the means of all possible runs, on this very test set."

With one run a side the draws, the interval and the p-values of the first two are those of sacreBLEU's `PairedTest` at
the same seed, but for ties: a drawn difference that equals the observed one counts as being as large, as in Riezler and
Maxwell's paper. sacreBLEU leaves it out, and so finds a system better than itself with p = 1 / (samples + 1).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, variance
from typing import Final

import numpy as np

from heedful.metrics.summed_metrics import Floats, Scoring

SAMPLES: Final = 1000
SEED: Final = 12345  # sacreBLEU's
_CELLS: Final = 1 << 22  # drawn at once: 32 MiB of numbers
_TIE: Final = 1e-9  # of a score: less apart is rounding
_BETA_TERMS: Final = 400  # many more than thousands of degrees of freedom need


@dataclass(frozen=True)
class Bootstrap:
    """The 95% interval of a difference, and how likely one as large is where there is none."""

    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Welch:
    """Student's t with unequal variances."""

    t: float
    freedom: float
    p: float


def bootstrap(scoring: Scoring, a: Floats, b: Floats, samples: int = SAMPLES, seed: int = SEED) -> Bootstrap:
    """Draw sentences with replacement, the same for every system, and runs with replacement within each side.

    p = (1 + #{ |d*| - mean |d*| >= |d| }) / (1 + samples). The centred |d*| makes this nearly a one-sided p: half of a
    two-sided one where the difference is clear. The interval is two-sided: 2.5% of the d* lie below it and above it.

    Of m runs, m - 1 are drawn: so the variance of their mean is the unbiased one (Rao and Wu 1988), where m draws
    would make it smaller by (m - 1)/m, a third of it with three runs. One run says nothing of others and stays.
    """
    differences = bootstrap_differences(scoring, a, b, samples, seed)
    sizes = np.abs(differences)
    p = _p(sizes - sizes.mean(), abs(difference(scoring, a, b)))
    differences.sort()
    outside = samples // 40  # on each end
    return Bootstrap(float(differences[outside]), float(differences[samples - outside - 1]), p)


def bootstrap_differences(scoring: Scoring, a: Floats, b: Floats, samples: int, seed: int) -> Floats:
    """The difference in each of the drawn corpora [samples]."""
    sentences = a.shape[1]
    of_sentences, of_runs = np.random.default_rng(seed), np.random.default_rng((seed, 1))
    drawn = []
    for rows in _portions(samples, sentences):
        picked = of_sentences.choice(sentences, size=(rows, sentences), replace=True)
        times = np.bincount((picked + sentences * np.arange(rows)[:, None]).ravel(), minlength=rows * sentences)
        weights = times.reshape(rows, sentences).astype(np.float64)
        of_a, of_b = (_mean_of_drawn_runs(scoring(_weighted(weights, side)), of_runs) for side in (a, b))
        drawn.append(of_b - of_a)
    return np.concatenate(drawn)


def randomisation(scoring: Scoring, a: Floats, b: Floats, samples: int = SAMPLES, seed: int = SEED) -> float:
    """Swap the two sides' translations of each sentence or not, by the toss of a coin; the two-sided p.

    p = (1 + #{ |d*| >= |d| }) / (1 + samples). Where a side has several runs, its mean counts of each sentence are
    swapped, and d is the difference between the scores of the mean counts: nothing is paired between runs. The runs
    are taken as they are, so this says nothing of other runs.
    """
    a_mean, b_mean = a.mean(axis=0), b.mean(axis=0)
    observed = float(scoring(b_mean.sum(axis=0)) - scoring(a_mean.sum(axis=0)))
    return _p(np.abs(shuffled_differences(scoring, a_mean, b_mean, samples, seed)), abs(observed))


def shuffled_differences(scoring: Scoring, a: Floats, b: Floats, samples: int, seed: int) -> Floats:
    """The difference after each of the random swaps [samples]; `a` and `b` are [sentences, counts]."""
    coins = np.random.default_rng(seed)
    both = a.sum(axis=0) + b.sum(axis=0)
    drawn = []
    for rows in _portions(samples, len(a)):
        kept = coins.integers(2, size=(rows, len(a)), dtype=bool).astype(np.float64)
        of_a = kept @ (a - b) + b.sum(axis=0)
        drawn.append(scoring(both - of_a) - scoring(of_a))
    return np.concatenate(drawn)


def welch(a: Sequence[float], b: Sequence[float]) -> Welch | None:
    """The two-sided test on the scores of each side's runs; None without two a side, or without any variance.

    t = (mean b - mean a) / sqrt(v),  v = va/m + vb/n;  freedom = v^2 / ((va/m)^2/(m - 1) + (vb/n)^2/(n - 1))
    """
    if min(len(a), len(b)) < 2:
        return None
    of_a, of_b = variance(a) / len(a), variance(b) / len(b)
    if of_a + of_b <= _TIE**2:
        return None
    t = (mean(b) - mean(a)) / math.sqrt(of_a + of_b)
    freedom = (of_a + of_b) ** 2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
    return Welch(t, freedom, two_sided_p(t, freedom))


def two_sided_p(t: float, freedom: float) -> float:
    """P(|T| >= |t|) = I_x(freedom / 2, 1 / 2),  x = freedom / (freedom + t^2)."""
    return _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def run_scores(scoring: Scoring, side: Floats) -> Floats:
    """The corpus score of each run [runs]."""
    return scoring(side.sum(axis=1))


def difference(scoring: Scoring, a: Floats, b: Floats) -> float:
    """The mean score of b's runs less that of a's."""
    return float(run_scores(scoring, b).mean() - run_scores(scoring, a).mean())


def _portions(samples: int, sentences: int) -> Iterator[int]:
    """How many samples to draw at a time, so that memory stays bounded whatever the corpus.

    All but the last are multiples of 32: numpy takes 32 coins from one draw, so the tosses are those of one call.
    """
    size = max(1, _CELLS // (32 * sentences)) * 32
    for first in range(0, samples, size):
        yield min(size, samples - first)


def _weighted(weights: Floats, side: Floats) -> Floats:
    """Sums of counts in which sentences count so many times: [rows, sentences] -> [rows, runs, counts]."""
    runs, sentences, counts = side.shape
    flat = side.transpose(1, 0, 2).reshape(sentences, runs * counts)
    return (weights @ flat).reshape(len(weights), runs, counts)


def _mean_of_drawn_runs(scores: Floats, chance: np.random.Generator) -> Floats:
    """The mean score of runs drawn with replacement, one less than there are: [rows, runs] -> [rows]."""
    rows, runs = scores.shape
    picked = chance.integers(runs, size=(rows, max(1, runs - 1)))
    means: Floats = np.take_along_axis(scores, picked, axis=1).mean(axis=1)
    return means


def _p(drawn: Floats, observed: float) -> float:
    """The share of draws that are as large as what was observed, which counts as one of them."""
    return (1 + int(np.count_nonzero(drawn >= observed - _TIE))) / (1 + len(drawn))


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b), regularised: x^a (1 - x)^b / (a B(a, b)) over the continued fraction 1 + d1/(1 + d2/(1 + ...)).

    Abramowitz and Stegun 26.5.8.
    """
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly
        return 1 - _incomplete_beta(1 - x, b, a)
    fraction = 1.0
    for term in range(_BETA_TERMS, 0, -1):
        half = term // 2
        factor = -(a + half) * (a + b + half) if term % 2 else half * (b - half)
        fraction = 1 + factor * x / ((a + term - 1) * (a + term)) / fraction
    of_beta = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(of_beta + a * math.log(x) + b * math.log1p(-x)) / (a * fraction)
