"""Buckets leave no number out, and word F1 is what a naive count says."""

import random
from collections import Counter

import pytest
from tests.shared.refusals import refuses

from heedful.metrics.buckets import (
    FREQUENCIES,
    LENGTHS,
    Span,
    count_words,
    f1_by_frequency,
    span_index,
    words_by_frequency,
)


@pytest.mark.parametrize("spans", [LENGTHS, FREQUENCIES])
def test_every_number_is_in_one_span(spans: tuple[Span, ...]) -> None:
    for number in range(1200):
        found = [
            i for i, span in enumerate(spans) if span.low <= number <= (number if span.high is None else span.high)
        ]
        assert found == [span_index(number, spans)]


def test_spans_are_readable() -> None:
    assert [span.label for span in FREQUENCIES] == ["0", "1", "2 to 9", "10 to 99", "100 to 999", "1,000 or more"]


def test_words_are_counted_over_all_sentences() -> None:
    assert count_words([["a", "b", "a"], [], ["b", "c"]]) == {"a": 2, "b": 2, "c": 1}


def test_f1_is_that_of_a_naive_count() -> None:
    chance = random.Random(1)
    counts = {"a": 0, "b": 1, "c": 5, "d": 50, "e": 500, "f": 5000}
    draw = [[chance.choices("abcdefg", k=chance.randint(0, 9)) for _ in range(40)] for _ in range(2)]
    outputs, references = draw
    found = f1_by_frequency(outputs, references, counts)
    for span, f1 in zip(FREQUENCIES, found, strict=True):
        members = {w for w in "abcdefg" if span.low <= counts.get(w, 0) <= (10**9 if span.high is None else span.high)}
        hits = out = ref = 0
        for output, reference in zip(outputs, references, strict=True):
            for word in members:
                hits += min(output.count(word), reference.count(word))
                out += output.count(word)
                ref += reference.count(word)
        precision, recall = hits / out, hits / ref
        assert f1 == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    assert sum(words_by_frequency(references, counts)) == sum(map(len, references))


def test_a_span_without_a_word_has_no_f1() -> None:
    assert f1_by_frequency([["a"]], [["a"]], Counter("a")).tolist() == [0, 100, 0, 0, 0, 0]


def test_every_output_needs_its_reference() -> None:
    with refuses("...shorter...", ValueError):
        f1_by_frequency([["a"], ["b"]], [["a"]], {})
