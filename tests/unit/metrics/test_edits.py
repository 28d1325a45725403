"""Edit distance against its recursive definition, and the error rates that come from it."""

import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from heedful.metrics.edits import CHARACTERS, WORDS, edit_distance, first_variant, nearest, uniform
from heedful.metrics.significance import bootstrap, randomisation
from heedful.metrics.summed_metrics import METRICS, build_metric, metric_names


def by_definition(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein's distance as a recursion over prefixes."""

    @cache
    def distance(m: int, n: int) -> int:
        if m == 0 or n == 0:
            return m + n
        return min(
            distance(m - 1, n) + 1, distance(m, n - 1) + 1, distance(m - 1, n - 1) + (one[m - 1] != other[n - 1])
        )

    return distance(len(one), len(other))


def test_distances_are_those_of_the_definition() -> None:
    chance = random.Random(1)
    for _ in range(1500):
        one, other = ("".join(chance.choices("abc", k=chance.randint(0, 9))) for _ in range(2))
        assert edit_distance(one, other) == by_definition(one, other), (one, other)


def test_long_sequences_and_sequences_of_words() -> None:
    chance = random.Random(2)
    one, other = (tuple(chance.choices(["K", "AE", "T", "S"], k=length)) for length in (150, 130))
    assert edit_distance(one, other) == edit_distance(other, one) == by_definition(one, other)


def test_the_nearest_variant_counts_and_the_first_of_two_as_near() -> None:
    variants = ("T AH M EY T OW", "T AH M AA T OW", "T")
    assert nearest("T AH M AA T AH", variants, WORDS) == (1, 6)
    assert nearest("T OW", variants, WORDS) == (1, 1)  # a variant of one symbol
    assert nearest("a", ("ab", "abcd", "b"), CHARACTERS) == (1, 2)


REFERENCES = [("K AE T", "K AA T"), ("D AO G",), ("AH", "EY"), ("B IY",)]
OUTPUTS = ["K AA T", "D AO", "IH", "B IY"]


@pytest.mark.parametrize(
    ("name", "one_word", "expected"),
    [
        ("exact_match", False, 50.0),
        ("edit_distance", False, (0 + 2 + 1 + 0) / 4),  # " G" is missing, and "I" is not "A"
        ("per", False, 100 * 2 / 9),
        ("wer", False, 100 * 2 / 9),
        ("wer", True, 50.0),
    ],
)
def test_rates_by_hand(name: str, one_word: bool, expected: float) -> None:
    (known,) = metric_names([name])
    metric = build_metric(known, REFERENCES, one_word=one_word)
    assert metric.score(OUTPUTS) == pytest.approx(expected)
    assert metric.lower_is_better == (name != "exact_match")


def test_an_empty_reference_counts_its_edits() -> None:
    assert build_metric("per", ["", "a b"]).score(["x", "a b"]) == pytest.approx(50)
    assert build_metric("per", [""]).score(["x"]) == 100
    assert build_metric("wer", [""]).score([""]) == 0


def test_case_is_ignored_on_request_and_signatures_tell_settings() -> None:
    assert build_metric("exact_match", ["Abc"], lowercase=True).score(["aBC"]) == 100
    assert build_metric("per", REFERENCES).signature == "nrefs:var|case:mixed|unit:symbol"
    assert build_metric("wer", ["a"], lowercase=True).signature == "nrefs:1|case:lc|unit:word"
    assert build_metric("wer", ["a"], one_word=True).signature == "nrefs:1|case:mixed|unit:output"
    assert build_metric("edit_distance", ["a"]).signature == "nrefs:1|case:mixed|unit:character"


def test_spaces_between_symbols_do_not_make_a_word_wrong() -> None:
    assert build_metric("wer", ["K AE T"], one_word=True).score(["K  AE T "]) == 0


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_takes_several_references_and_is_tested_for_significance(name: str) -> None:
    (known,) = metric_names([name])
    chance = random.Random(3)
    references = [tuple(" ".join(chance.choices("abcdef", k=8)) for _ in range(2)) for _ in range(40)]
    good = [variants[number % 2] for number, variants in enumerate(references)]
    bad = [" ".join(chance.choices("abcdef", k=8)) for _ in references]
    metric = build_metric(known, references, "none")
    a, b = (metric.counts(outputs)[None] for outputs in (bad, good))
    assert metric.score(good) == pytest.approx(0 if metric.lower_is_better else 100)
    assert bootstrap(metric.scores, a, b, 200).p < 0.05
    assert randomisation(metric.scores, a, b, 200) < 0.05
    assert randomisation(metric.scores, a, a, 200) == 1


def test_references_are_all_texts_or_all_tuples() -> None:
    assert uniform(["a", "b"]) == ("a", "b")
    assert uniform(["a", ("b", "c")]) == (("a",), ("b", "c"))
    assert [first_variant(reference) for reference in ("a", ("b", "c"))] == ["a", "b"]


def test_counts_are_one_row_per_output() -> None:
    assert np.array_equal(build_metric("per", REFERENCES).counts(OUTPUTS), [[0, 3], [1, 3], [1, 1], [0, 2]])
