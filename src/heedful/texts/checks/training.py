"""Schedules, optimizers, losses, masking, perplexity and length penalties."""

import math
from collections.abc import Callable

import numpy as np
import torch

from heedful.config.train.optimizers import Adam
from heedful.config.train.schedules import (
    AnyWarmup,
    ExponentialWarmup,
    LinearWarmup,
    Noam,
    UntunedExponentialWarmup,
    UntunedLinearWarmup,
)
from heedful.config.train.table import Masking
from heedful.data.batches.masked import mask
from heedful.decode.hypothesis import Shifted
from heedful.metrics.language.perplexity import Likelihood
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.texts.checks.computed import Computed, drawn, numbers
from heedful.training.schedules import build_learning_rate, build_warmup

_STEPS = (1, 1000, 4000, 16000, 100_000)
_WIDTH, _WARMUP = 512, 4000


def _noam(text: Callable[[int], float], factor: float = 1.0) -> Computed:
    """Compare with factor * d^-0.5 * min(step^-0.5, step * warmup^-1.5)."""
    rate = build_learning_rate(Noam(kind="noam", factor=factor, warmup=_WARMUP), _WIDTH, _STEPS[-1])
    right = [factor * _WIDTH**-0.5 * min(step**-0.5, step * _WARMUP**-1.5) for step in _STEPS]
    return Computed([text(step) for step in _STEPS], [rate(step) for step in _STEPS], right, tolerance=1e-12)


def noam() -> Computed:
    """d^-0.5 min(step^-0.5, step warmup^-1.5)"""
    return _noam(lambda step: _WIDTH**-0.5 * min(step**-0.5, step * _WARMUP**-1.5))


def noam_of_the_thesis() -> Computed:
    """warmup^-0.5 in the text, with which the rate rises for 16 steps; warmup^-1.5, with which it rises for 4,000"""
    return _noam(lambda step: _WIDTH**-0.5 * min(step**-0.5, step * _WARMUP**-0.5))


def noam_of_the_slides() -> Computed:
    """a / d in the text; a / sqrt(d)"""
    return _noam(lambda step: 2 / _WIDTH * min(step**-0.5, step * _WARMUP**-1.5), factor=2.0)


def _warmup(warmup: AnyWarmup, text: Callable[[int], float]) -> Computed:
    factor, steps = build_warmup(warmup, Adam(beta2=0.999)), (1, 10, 100, 1000, 5000)
    return Computed([text(step) for step in steps], [factor(step) for step in steps], tolerance=1e-12)


def linear_warmup() -> Computed:
    """min(1, t / tau)"""
    return _warmup(LinearWarmup(kind="linear", steps=400), lambda step: min(1.0, step / 400))


def exponential_warmup() -> Computed:
    """1 - exp(-t / tau)"""
    return _warmup(ExponentialWarmup(kind="exponential", steps=400), lambda step: 1 - math.exp(-step / 400))


def untuned_exponential_warmup() -> Computed:
    """1 - exp(-(1 - beta2) t)"""
    return _warmup(UntunedExponentialWarmup(kind="untuned_exponential"), lambda step: 1 - math.exp(-(1 - 0.999) * step))


def untuned_linear_warmup() -> Computed:
    """min(1, t (1 - beta2) / 2)"""
    return _warmup(UntunedLinearWarmup(kind="untuned_linear"), lambda step: min(1.0, (1 - 0.999) / 2 * step))


# --- losses and scores ------------------------------------------------------------------------------------------------


def cross_entropy() -> Computed:
    """-log p of the word that a one-hot target has, which is also its Kullback-Leibler divergence"""
    with drawn():
        x, weight, words = numbers(5, 4), numbers(6, 4), torch.tensor([2, 1, 0, 4, 5])  # I am a student <eos>
        loss, _ = smoothed_cross_entropy(x, weight, None, words, 0.0)
        rows = [row.exp() / row.exp().sum() for row in x @ weight.T]
        return Computed([-sum(float(row[word].log()) for row, word in zip(rows, words, strict=True))], [float(loss)])


def label_smoothing() -> Computed:
    """-sum q log p, where q has 0.9 on the word and 0.1 on all words alike"""
    with drawn():
        x, weight, words = numbers(3, 4), numbers(6, 4), torch.tensor([2, 1, 0])
        loss, _ = smoothed_cross_entropy(x, weight, None, words, 0.1)
        total = 0.0
        for row, word in zip(x @ weight.T, words.tolist(), strict=True):
            logs = (row.exp() / row.exp().sum()).log().tolist()
            total -= sum((0.9 * (v == word) + 0.1 / 6) * log for v, log in enumerate(logs))
        return Computed([total], [float(loss)])


def perplexity() -> Computed:
    """P(w_1 .. w_N)^(-1/N) = exp(mean of -log P)"""
    chances = [0.5, 0.1, 0.9, 0.25]
    ours = Likelihood(-sum(map(math.log, chances)), len(chances)).perplexity
    return Computed([math.prod(chances) ** (-1 / len(chances))], [ours])


def perplexity_bounds() -> Computed:
    """1 where tokens are certain, infinite where one is impossible, the size of the vocabulary where all are alike"""
    totals = (0.0, math.inf, 7 * math.log(1000))
    return Computed([1.0, math.inf, 1000.0], [Likelihood(total, 7).perplexity for total in totals])


def length_penalty() -> Computed:
    """log P times ((1 + length) / (1 + beta))^alpha in the text; divided by it, as log P is negative"""
    scores, lengths, alpha, beta = (-4.0, -6.0), (4, 12), 0.6, 5.0
    penalties = [((1 + length) / (1 + beta)) ** alpha for length in lengths]
    ours = [score / Shifted(alpha, beta)(length) for score, length in zip(scores, lengths, strict=True)]
    text = [score * penalty for score, penalty in zip(scores, penalties, strict=True)]
    return Computed(text, ours, [score / penalty for score, penalty in zip(scores, penalties, strict=True)])


def beta_as_a_minimum() -> Computed:
    """Order of hypotheses of 3, 6 and 12 tokens with beta = 5: below a minimum of 5 the first would come last

    (1 + beta)^alpha is the same for all lengths, so that it changes no order.
    """
    scores, lengths, alpha, beta = (-2.0, -4.0, -7.0), (3, 6, 12), 0.6, 5.0
    penalized = [score / Shifted(alpha, beta)(length) for score, length in zip(scores, lengths, strict=True)]
    with_minimum = [(length < beta, -value) for length, value in zip(lengths, penalized, strict=True)]
    text = [with_minimum.index(one) for one in sorted(with_minimum)]
    return Computed(text, [penalized.index(one) for one in sorted(penalized, reverse=True)])


def masked_shares() -> Computed:
    """15% of the tokens are chosen: 80% of them become <mask>, 10% another token, 10% stay"""
    count, mask_id, vocabulary = 200_000, 4, range(5, 30_005)
    random = np.random.default_rng(1)
    tokens = random.integers(5, 30_005, count)
    owners = np.arange(count) // 100
    found = mask(tokens, np.ones(count, bool), owners, None, Masking(), vocabulary, mask_id, random)
    chosen = found.inputs_N[found.places_P]
    masked, kept = float((chosen == mask_id).mean()), float((chosen == found.labels_P).mean())
    ours = [len(found.places_P) / count, masked, 1 - masked - kept, kept]
    return Computed([0.15, 0.8, 0.1, 0.1], ours, tolerance=0.01)


def training_time() -> Computed:
    """12 hours and 3.5 days in the text, which also has 100,000 steps of 0.4 s and 300,000 of 1.0 s"""
    return Computed([12, 3.5], [100_000 * 0.4 / 3600, 300_000 * 1.0 / 86_400], tolerance=0.05)
