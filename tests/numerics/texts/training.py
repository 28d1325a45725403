"""Learning rates, optimizers and losses of the texts, recomputed in NumPy."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from tests.numerics.texts.equations import Inputs, Recomputed, corrected, same

_STEPS = np.array([1, 10, 100, 1000, 5000])
_LONG = np.array([1.0, 1000, 4000, 16000, 100_000])


def _noam(scale: float) -> list[float]:
    return list(scale * np.minimum(_LONG**-0.5, _LONG * 4000.0**-1.5))


def noam(inputs: Inputs) -> Recomputed:
    values = _noam(512**-0.5)
    return Recomputed(values, values, values)


def noam_of_the_slides(inputs: Inputs) -> Recomputed:
    return corrected(_noam(2 / 512), _noam(2 / math.sqrt(512)))


def _warmup(factor: Callable[[np.ndarray], np.ndarray]) -> Callable[[Inputs], Recomputed]:
    return lambda inputs: same(factor(_STEPS))


linear_warmup = _warmup(lambda t: np.minimum(1, t / 400))
exponential_warmup = _warmup(lambda t: 1 - np.exp(-t / 400))
untuned_exponential_warmup = _warmup(lambda t: 1 - np.exp(-(1 - 0.999) * t))
untuned_linear_warmup = _warmup(lambda t: np.minimum(1, (1 - 0.999) / 2 * t))


def untuned_times(inputs: Inputs) -> Recomputed:
    tau = round(1 / (1 - 0.999))
    return same(np.concatenate([1 - np.exp(-_STEPS / tau), np.minimum(1, _STEPS / (2 * tau))]))


def cosine_warmup_scheduler(inputs: Inputs) -> Recomputed:
    warmup, last = 3 * 176, 50 * 176
    steps = np.array([1, 100, warmup, warmup + 1, 4400, last])
    return same(0.5 * (1 + np.cos(np.pi * steps / last)) * np.where(steps <= warmup, steps / warmup, 1))


def adagrad(inputs: Inputs) -> Recomputed:
    gradients = np.array([0.5, -1.0, 2.0, 0.1])
    return same(1 - np.cumsum(0.1 * gradients / np.sqrt(np.cumsum(gradients**2))))


def variance_of_the_first_update(inputs: Inputs) -> Recomputed:
    (gradients,) = inputs
    return corrected([np.inf], [np.var(-np.sign(gradients), ddof=1)])


def training_time(inputs: Inputs) -> Recomputed:
    return Recomputed([12, 3.5], [100_000 * 0.4 / 60 / 60, 300_000 * 1.0 / 60 / 60 / 24])


def bigram_perplexity(inputs: Inputs) -> Recomputed:
    """Kneser and Ney's bigrams, from a table of counts."""
    trained, text, size = [0, 1, 2, 0, 1, 3, 0, 2, 1, 0, 3, 0, 1], [0, 1, 3, 0, 2], 4
    counts = np.zeros((size, size))
    for pair, count in Counter(pairwise(trained)).items():
        counts[pair] = count

    def discount(values: np.ndarray) -> float:
        once, twice = int((values == 1).sum()), int((values == 2).sum())
        return once / (once + 2 * twice) if once else 0.5

    followed = (counts > 0).sum(0)
    single, double = discount(followed[followed > 0]), discount(counts[counts > 0])
    alone = (np.maximum(followed - single, 0) + single * (followed > 0).sum() / size) / followed.sum()
    rest = double * (counts > 0).sum(1, keepdims=True)
    after = (np.maximum(counts - double, 0) + rest * alone) / counts.sum(1, keepdims=True)
    chances = [alone[text[0]], *(after[pair] for pair in pairwise(text))]
    return same([np.prod(chances) ** (-1 / len(chances))])


def published_parser(inputs: Inputs) -> Recomputed:
    return same([4, 1024, 16_000, 300, 21, 0.3])


def three_fates(inputs: Inputs) -> Recomputed:
    return Recomputed([1, 0.8, 0.1, 0.1])  # Heedful's shares are counted in random draws
