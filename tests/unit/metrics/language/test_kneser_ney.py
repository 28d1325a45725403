"""Kneser-Ney against its equations, written as loops over all n-grams."""

import math
import random

import numpy as np
import pytest
from tests.shared.refusals import refuses

from heedful.metrics.language.kneser_ney import KneserNey

VOCABULARY = 5
TEXTS = [[random.Random(seed).randrange(4) for _ in range(size)] for seed, size in ((1, 40), (2, 1), (3, 25))]
Gram = tuple[int, ...]


def grams(length: int) -> list[Gram]:
    return [tuple(text[i : i + length]) for text in TEXTS for i in range(len(text) - length + 1)]


def naive(history: Gram, word: int, order: int) -> float:
    """The probability by the definition; the highest order counts occurrences, the others different tokens before."""
    highest = order

    def count(gram: Gram) -> int:
        if len(gram) == highest:
            return grams(highest).count(gram)
        return len({longer for longer in grams(len(gram) + 1) if longer[1:] == gram})

    def p(history: Gram, word: int) -> float:
        n = len(history) + 1
        counts = {gram: count(gram) for gram in set(grams(n))}
        once, twice = (sum(1 for c in counts.values() if c == number) for number in (1, 2))
        discount = once / (once + 2 * twice) if once else 0.5
        following = [c for gram, c in counts.items() if gram[:-1] == history]
        shorter = p(history[1:], word) if history else 1 / VOCABULARY
        if not sum(following):
            return shorter
        types = sum(1 for c in following if c)
        own = max(counts.get((*history, word), 0) - discount, 0)
        return (own + discount * types * shorter) / sum(following)

    return p(history, word)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_are_those_of_the_equations(order: int) -> None:
    model = KneserNey.of(TEXTS, order, VOCABULARY)
    text = [0, 1, 3, 3, 4, 2, 0, 0, 1]  # 4 was never seen
    expected = [math.log(naive(tuple(text[max(0, i - order + 1) : i]), text[i], order)) for i in range(len(text))]
    assert model.log_probabilities(text).tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("order", [1, 3, 5])
def test_probabilities_of_all_words_sum_to_one_after_any_history(order: int) -> None:
    model = KneserNey.of(TEXTS, order, VOCABULARY)
    for history in ([], [2], [4, 4], TEXTS[0][:6], [3, 1, 0, 4, 2, 2]):
        after = [math.exp(model.log_probabilities([*history, word])[-1]) for word in range(VOCABULARY)]
        assert sum(after) == pytest.approx(1)


def test_texts_shorter_than_the_order_and_no_text_are_fine() -> None:
    model = KneserNey.of([[1, 2]], 5, 4)
    assert len(model.log_probabilities([])) == 0
    assert np.isfinite(model.log_probabilities([1, 2, 3, 1])).all()


def test_an_order_below_one_is_refused() -> None:
    with refuses("the order of an n-gram model is 0, but must be at least 1", ValueError):
        KneserNey.of(TEXTS, 0, VOCABULARY)
