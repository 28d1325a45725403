"""Scores from sums of counts are sacreBLEU's."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from heedful.metrics.summed_metrics import MetricName, build_metric, word_splitter

WORDS = ("the", "cat", "sat", "on", "a", "mat", ",", "and", "dogs", "ran", "over", "green", "hills", "far", "away", ".")
NAMES: tuple[MetricName, ...] = ("bleu", "chrf", "ter")


def corpus(count: int, seed: int, wrong: float) -> tuple[list[str], list[str]]:
    """References of one to twelve words, and outputs in which some words are wrong, missing or twice."""
    chance = random.Random(seed)
    references = [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(count)]
    spoilt = ("", "x", "mat mat", "cat")
    outputs = [
        " ".join(chance.choice(spoilt) if chance.random() < wrong else word for word in reference.split()).strip()
        for reference in references
    ]
    return outputs, references


def sacrebleu_score(name: MetricName, outputs: Sequence[str], references: Sequence[str]) -> float:
    metrics: dict[MetricName, Metric] = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}
    return float(metrics[name].corpus_score(outputs, [references]).score)


def ours(name: MetricName, outputs: Sequence[str], references: Sequence[str]) -> float:
    metric = build_metric(name, references)
    return float(metric.scores(metric.counts(outputs).sum(axis=0)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [0.0, 0.2, 0.7, 1.0])
def test_a_corpus_has_sacrebleus_score(name: MetricName, wrong: float) -> None:
    outputs, references = corpus(40, seed=1, wrong=wrong)
    assert ours(name, outputs, references) == pytest.approx(sacrebleu_score(name, outputs, references), abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ("the cat sat on a mat", "the cat sat on a mat"),
        ("the cat sat", "the cat sat"),  # too short for an n-gram of four
        ("the cat ran over the hills", "the dog sat on the mat"),  # matches of one word alone
        ("nothing here", "common at all"),
        ("", "the cat sat"),
        ("the cat", ""),
        ("", ""),
        ("the", "the cat sat on a mat and away"),  # brief
        ("a", "b"),
    ],
)
def test_odd_sentences_have_sacrebleus_score(name: MetricName, output: str, reference: str) -> None:
    expected = sacrebleu_score(name, [output], [reference])
    assert ours(name, [output], [reference]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_many_sums_are_scored_at_once_as_each_by_itself(name: MetricName) -> None:
    outputs, references = corpus(60, seed=2, wrong=0.4)
    metric = build_metric(name, references)
    parts = metric.counts(outputs).reshape(3, 20, -1)
    expected = [sacrebleu_score(name, outputs[i : i + 20], references[i : i + 20]) for i in (0, 20, 40)]
    assert metric.scores(parts.sum(axis=1)) == pytest.approx(expected, abs=1e-9)
    assert metric.scores(parts.sum(axis=1)[None]).shape == (1, 3)


def test_signatures_are_sacrebleus() -> None:
    version = sacrebleu.__version__
    references = ["a b c"]
    assert build_metric("bleu", references, "none").signature == (
        f"nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:{version}"
    )
    assert "case:lc" in build_metric("bleu", references, "13a", lowercase=True).signature
    assert (
        build_metric("chrf", references).signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    )
    assert build_metric("chrf", references, lowercase=True).signature == (
        f"nrefs:1|case:lc|eff:yes|nc:6|nw:0|space:no|version:{version}"
    )
    assert build_metric("ter", references).signature.startswith("nrefs:1|case:lc|tok:tercom")


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_lowercased_scores_do_not_see_case(name: MetricName) -> None:
    metric = build_metric(name, ["The Cat sat on a Mat"], lowercase=True)
    assert float(metric.scores(metric.counts(["the cat sat on a mat"]).sum(axis=0))) == pytest.approx(100)


def test_only_ter_is_better_when_lower() -> None:
    assert [build_metric(name, ["a"]).lower_is_better for name in NAMES] == [False, False, True]


def test_words_are_what_bleu_counts() -> None:
    assert word_splitter()("A dog, isn't it?\n") == ["A", "dog", ",", "isn't", "it", "?"]
    assert word_splitter("none")("A dog, isn't it?") == ["A", "dog,", "isn't", "it?"]
    text = "Der Hund (braun) läuft 3.5 km."
    assert word_splitter()(text) == BLEU().tokenizer(text).split()


def test_counts_are_one_row_a_sentence() -> None:
    metric = build_metric("bleu", ["a b c d e", "a b"])
    rows = [[4, 5, 3, 2, 1, 0, 4, 3, 2, 1], [1, 2, 1, 0, 0, 0, 1, 0, 0, 0]]
    assert np.array_equal(metric.counts(["a b c x", "a"]), rows)
