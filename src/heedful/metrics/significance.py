"""Significance tests: whether two systems differ by more than chance on the same sentences.

A side is one system, or several training runs ("seeds") of one. Its counts are an array [runs, sentences, counts]; its
score is the mean over the runs of each run's corpus score; the difference is the score of b minus the score of a.

Null hypotheses:
bootstrap         Koehn 2004. No difference on other sentences like these and, with several runs, with other runs.
randomisation     Riezler and Maxwell 2005. On these sentences it makes no difference which side translates.
welch             Welch 1947. No difference between the means of all possible runs on this test set.

With one run per side, the draws, the interval and the p-values of the first two equal those of sacreBLEU's `PairedTest`
with the same seed, except for ties: a drawn difference equal to the observed one counts as at least as large, as in
Riezler and Maxwell's paper. sacreBLEU ignores it, and so finds a system better than itself with p = 1 / (samples + 1).
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
_CELLS: Final = 1 << 22  # numbers drawn at once: 32 MiB
_TIE: Final = 1e-9  # score differences below this are rounding errors
_BETA_TERMS: Final = 400  # far more than thousands of degrees of freedom need


@dataclass(frozen=True)
class Bootstrap:
    """The 95% interval of a difference, and the p-value of no difference."""

    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Welch:
    """The result of Welch's t-test, for unequal variances."""

    t: float
    freedom: float
    p: float


def bootstrap(scoring: Scoring, a: Floats, b: Floats, samples: int = SAMPLES, seed: int = SEED) -> Bootstrap:
    """Draw sentences with replacement, the same for every system, and runs with replacement within each side.

    p = (1 + #{ |d*| - mean |d*| >= |d| }) / (1 + samples). Centring |d*| makes this nearly a one-sided p, half of a
    two-sided one for clear differences. The interval is two-sided: 2.5% of the d* lie below it and 2.5% above.

    Of m runs, m - 1 are drawn: this makes the variance of their mean unbiased (Rao and Wu 1988), whereas m draws
    would shrink it by a factor of (m - 1)/m, by a third with three runs. A single run is always drawn.
    """
    differences = bootstrap_differences(scoring, a, b, samples, seed)
    sizes = np.abs(differences)
    p = _p(sizes - sizes.mean(), abs(difference(scoring, a, b)))
    differences.sort()
    outside = samples // 40  # on each end
    return Bootstrap(float(differences[outside]), float(differences[samples - outside - 1]), p)


def bootstrap_differences(scoring: Scoring, a: Floats, b: Floats, samples: int, seed: int) -> Floats:
    """Return the difference in each of the drawn corpora [samples]."""
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
    """Swap the two sides' translations of each sentence with probability 1/2, and return the two-sided p.

    p = (1 + #{ |d*| >= |d| }) / (1 + samples). If a side has several runs, its mean counts of each sentence are
    swapped, and d is the difference between the scores of the mean counts: runs are not paired. The runs are fixed,
    so this says nothing about other runs.
    """
    a_mean, b_mean = a.mean(axis=0), b.mean(axis=0)
    observed = float(scoring(b_mean.sum(axis=0)) - scoring(a_mean.sum(axis=0)))
    return _p(np.abs(shuffled_differences(scoring, a_mean, b_mean, samples, seed)), abs(observed))


def shuffled_differences(scoring: Scoring, a: Floats, b: Floats, samples: int, seed: int) -> Floats:
    """Return the difference after each round of random swaps [samples]; `a` and `b` are [sentences, counts]."""
    coins = np.random.default_rng(seed)
    both = a.sum(axis=0) + b.sum(axis=0)
    drawn = []
    for rows in _portions(samples, len(a)):
        kept = coins.integers(2, size=(rows, len(a)), dtype=bool).astype(np.float64)
        of_a = kept @ (a - b) + b.sum(axis=0)
        drawn.append(scoring(both - of_a) - scoring(of_a))
    return np.concatenate(drawn)


def welch(a: Sequence[float], b: Sequence[float]) -> Welch | None:
    """Test the scores of each side's runs, two-sided; None with fewer than two runs per side or without variance.

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
    """Return the corpus score of each run [runs]."""
    return scoring(side.sum(axis=1))


def difference(scoring: Scoring, a: Floats, b: Floats) -> float:
    """Return the mean score of b's runs minus that of a's."""
    return float(run_scores(scoring, b).mean() - run_scores(scoring, a).mean())


def _portions(samples: int, sentences: int) -> Iterator[int]:
    """Yield how many samples to draw at a time, so that memory is bounded for any corpus.

    All but the last are multiples of 32: numpy takes 32 tosses from one draw, so they equal those of one call.
    """
    size = max(1, _CELLS // (32 * sentences)) * 32
    for first in range(0, samples, size):
        yield min(size, samples - first)


def _weighted(weights: Floats, side: Floats) -> Floats:
    """Sum the counts with sentences repeated `weights` times: [rows, sentences] -> [rows, runs, counts]."""
    runs, sentences, counts = side.shape
    flat = side.transpose(1, 0, 2).reshape(sentences, runs * counts)
    return (weights @ flat).reshape(len(weights), runs, counts)


def _mean_of_drawn_runs(scores: Floats, chance: np.random.Generator) -> Floats:
    """Return the mean score of runs drawn with replacement, one fewer than there are: [rows, runs] -> [rows]."""
    rows, runs = scores.shape
    picked = chance.integers(runs, size=(rows, max(1, runs - 1)))
    means: Floats = np.take_along_axis(scores, picked, axis=1).mean(axis=1)
    return means


def _p(drawn: Floats, observed: float) -> float:
    """Return the fraction of draws that are at least as large as the observed value, which counts as a draw."""
    return (1 + int(np.count_nonzero(drawn >= observed - _TIE))) / (1 + len(drawn))


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b), regularised: x^a (1 - x)^b / (a B(a, b)) over the continued fraction 1 + d1/(1 + d2/(1 + ...)).

    Abramowitz and Stegun 26.5.8.
    """
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1) / (a + b + 2):  # the fraction converges slowly here
        return 1 - _incomplete_beta(1 - x, b, a)
    fraction = 1.0
    for term in range(_BETA_TERMS, 0, -1):
        half = term // 2
        factor = -(a + half) * (a + b + half) if term % 2 else half * (b - half)
        fraction = 1 + factor * x / ((a + term - 1) * (a + term)) / fraction
    of_beta = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(of_beta + a * math.log(x) + b * math.log1p(-x)) / (a * fraction)
