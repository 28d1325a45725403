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


def naive(history: Gram, word: int, order: int, modified: bool = False) -> float:
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
        usual = once / (once + 2 * twice) if once else 0.5

        def discount(c: int) -> float:
            """Chen and Goodman 1998, with three discounts where the counts of counts allow it."""
            k = min(c, 3)
            of_k, of_more = (sum(1 for other in counts.values() if other == number) for number in (k, k + 1))
            if not modified or not k or not of_k or not of_more:
                return usual if k else 0.0
            return min(max(k - (k + 1) * usual * of_more / of_k, 0), k)

        following = [c for gram, c in counts.items() if gram[:-1] == history]
        shorter = p(history[1:], word) if history else 1 / VOCABULARY
        if not sum(following):
            return shorter
        own = counts.get((*history, word), 0)
        return (max(own - discount(own), 0) + sum(map(discount, following)) * shorter) / sum(following)

    return p(history, word)


@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_are_those_of_the_equations(order: int, modified: bool) -> None:
    model = KneserNey.of(TEXTS, order, VOCABULARY, modified)
    text = [0, 1, 3, 3, 4, 2, 0, 0, 1]  # 4 was never seen
    histories = [tuple(text[max(0, i - order + 1) : i]) for i in range(len(text))]
    expected = [math.log(naive(history, word, order, modified)) for history, word in zip(histories, text, strict=True)]
    assert model.log_probabilities(text).tolist() == pytest.approx(expected, abs=1e-12)
    twice = model.log_probabilities([*text, *text], np.array([0, len(text)]))
    assert twice.tolist() == pytest.approx([*expected, *expected], abs=1e-12)  # each text by itself


@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize("order", [1, 3, 5])
def test_probabilities_of_all_words_sum_to_one_after_any_history(order: int, modified: bool) -> None:
    model = KneserNey.of(TEXTS, order, VOCABULARY, modified)
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
