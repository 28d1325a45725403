"""The tests agree with sacreBLEU's, with exact enumeration, and with how often chance deceives them."""

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from heedful.metrics import significance
from heedful.metrics.significance import (
    bootstrap,
    bootstrap_differences,
    difference,
    randomisation,
    run_scores,
    shuffled_differences,
    two_sided_p,
    welch,
)
from heedful.metrics.summed_metrics import Floats, MetricName, SummedMetric, build_metric

SEED = 12345  # what sacreBLEU uses where SACREBLEU_SEED does not say otherwise
NAMES: tuple[MetricName, ...] = ("bleu", "chrf", "ter")
WORDS = ("the", "cat", "sat", "on", "a", "mat", ",", "and", "dogs", "ran", "over", "green", "hills", "far", "away", ".")


def texts(count: int, *spoilt: float) -> tuple[list[str], list[list[str]]]:
    """References, and outputs of systems that spoil such a share of the words."""
    chance = random.Random(3)
    references = [" ".join(chance.choices(WORDS, k=chance.randint(3, 20))) for _ in range(count)]
    systems = [
        [
            " ".join(chance.choice(WORDS) if chance.random() < share else word for word in ref.split())
            for ref in references
        ]
        for share in spoilt
    ]
    return references, systems


def side(metric: SummedMetric, *systems: Sequence[str]) -> Floats:
    return np.stack([metric.counts(system) for system in systems])


def sacrebleu_p(
    kind: str, name: MetricName, systems: Sequence[list[str]], references: list[str], samples: int
) -> float:
    metrics: dict[MetricName, Metric] = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}
    named: list[tuple[str, Sequence[str]]] = [(str(number), system) for number, system in enumerate(systems)]
    _, scores = PairedTest(named, {name: metrics[name]}, [references], test_type=kind, n_samples=samples)()
    result = next(reversed(scores.values()))[1]
    assert isinstance(result, Result)
    assert result.p_value is not None
    return result.p_value


# --- against sacreBLEU ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bleu", "chrf"])
@pytest.mark.parametrize("shares", [(0.3, 0.31), (0.3, 0.27), (0.35, 0.3), (0.3, 0.3)])
def test_p_values_are_sacrebleus_at_the_same_seed(
    name: MetricName, shares: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", str(SEED))
    references, systems = texts(90, *shares)
    metric = build_metric(name, references)
    a, b = (side(metric, system) for system in systems)
    assert bootstrap(metric.scores, a, b, 300, SEED).p == sacrebleu_p("bs", name, systems, references, 300)
    assert randomisation(metric.scores, a, b, 300, SEED) == sacrebleu_p("ar", name, systems, references, 300)


def test_p_values_of_ter_are_sacrebleus_but_for_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", str(SEED))
    references, systems = texts(60, 0.3, 0.26)
    metric = build_metric("ter", references)
    a, b = (side(metric, system) for system in systems)
    observed = abs(difference(metric.scores, a, b))
    drawn = np.abs(shuffled_differences(metric.scores, a[0], b[0], 300, SEED))
    without_ties = (1 + int(np.sum(drawn > observed + 1e-9))) / 301
    with_ties = (1 + int(np.sum(drawn > observed - 1e-9))) / 301
    assert without_ties < with_ties  # whole numbers of edits make many ties
    assert sacrebleu_p("ar", "ter", systems, references, 300) == pytest.approx(without_ties, abs=0.02)
    assert randomisation(metric.scores, a, b, 300, SEED) == with_ties


@pytest.mark.parametrize("name", NAMES)
def test_every_resample_has_the_corpus_score_of_its_sentences(name: MetricName) -> None:
    references, systems = texts(25, 0.4, 0.2)
    metric = build_metric(name, references)
    a, b = (side(metric, system) for system in systems)
    metric_of: dict[str, Metric] = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}
    score = metric_of[name].corpus_score
    picked = np.random.default_rng(SEED).choice(25, size=(40, 25), replace=True)
    expected = []
    for rows in picked:
        lines = [[text[row] for row in rows] for text in (*systems, references)]
        expected.append(score(lines[1], [lines[2]]).score - score(lines[0], [lines[2]]).score)
    assert bootstrap_differences(metric.scores, a, b, 40, SEED) == pytest.approx(expected, abs=1e-8)


def test_the_interval_leaves_out_a_fortieth_at_each_end() -> None:
    references, systems = texts(50, 0.4, 0.2)
    metric = build_metric("bleu", references)
    a, b = (side(metric, system) for system in systems)
    drawn = sorted(bootstrap_differences(metric.scores, a, b, 200, 7))
    found = bootstrap(metric.scores, a, b, 200, 7)
    assert (found.low, found.high) == (drawn[5], drawn[194])


def test_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    references, systems = texts(33, 0.4, 0.3)
    metric = build_metric("bleu", references)
    a, b = (side(metric, system) for system in systems)
    whole = bootstrap(metric.scores, a, b, 200), randomisation(metric.scores, a, b, 200)
    monkeypatch.setattr(significance, "_CELLS", 64 * 33)
    assert (bootstrap(metric.scores, a, b, 200), randomisation(metric.scores, a, b, 200)) == whole


def test_draws_are_scored_many_at_a_time() -> None:
    references, systems = texts(1000, 0.4, 0.39)
    metric = build_metric("bleu", references)
    a, b = (side(metric, system) for system in systems)
    asked = []

    def counted(totals: Floats) -> Floats:
        asked.append(len(totals))
        return metric.scores(totals)

    bootstrap(counted, a, b)
    randomisation(counted, a, b)
    assert len(asked) < 100  # many draws a call, not one


# --- ties -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("runs", [1, 3])
def test_a_system_is_no_better_than_itself(name: MetricName, runs: int) -> None:
    references, systems = texts(30, *[0.3] * runs)
    metric = build_metric(name, references)
    a = side(metric, *systems)
    assert randomisation(metric.scores, a, a, 100) == 1
    if runs == 1:
        found = bootstrap(metric.scores, a, a, 100)
        assert (found.low, found.high, found.p) == (0, 0, 1)


def test_randomisation_nears_the_p_of_all_possible_swaps() -> None:
    references, systems = texts(9, 0.5, 0.3)
    metric = build_metric("bleu", references)
    a, b = (side(metric, system)[0] for system in systems)
    observed = abs(float(metric.scores(b.sum(0)) - metric.scores(a.sum(0))))
    extreme = 0
    for swaps in itertools.product([False, True], repeat=9):
        swapped = np.array(swaps)[:, None]
        sums = (np.where(swapped, x, y).sum(0) for x, y in ((a, b), (b, a)))
        extreme += abs(float(np.subtract(*map(metric.scores, sums)))) >= observed - 1e-9
    assert randomisation(metric.scores, a[None], b[None], 20_000) == pytest.approx(extreme / 2**9, abs=0.01)


def test_one_sentence_that_differs_proves_nothing_to_randomisation() -> None:
    references, (system,) = texts(30, 0.3)
    metric = build_metric("bleu", references)
    other = [references[0], *system[1:]]
    assert other != system
    assert randomisation(metric.scores, side(metric, system), side(metric, other), 100) == 1


# --- several runs -----------------------------------------------------------------------------------------------------


def mean_of_counts(sums: Floats) -> Floats:
    """A metric without curves: the mean of one number a sentence."""
    scores: Floats = sums[..., 0] / sums[..., 1]
    return scores


def numbers(runs: Floats) -> Floats:
    """Runs of one number a sentence as counts [runs, sentences, 2]."""
    return np.stack([runs, np.ones_like(runs)], axis=-1)


def test_the_difference_is_that_of_the_mean_scores() -> None:
    references, systems = texts(30, 0.5, 0.4, 0.3, 0.2, 0.1)
    metric = build_metric("bleu", references)
    a, b = side(metric, *systems[:2]), side(metric, *systems[2:])
    scores = [sacrebleu.corpus_bleu(system, [references]).score for system in systems]
    assert run_scores(metric.scores, b) == pytest.approx(scores[2:])
    assert difference(metric.scores, a, b) == pytest.approx(np.mean(scores[2:]) - np.mean(scores[:2]))


def test_drawn_runs_have_the_unbiased_variance_of_their_mean() -> None:
    levels = np.array([1.0, 4.0, 7.0])
    a, b = numbers(np.zeros((2, 50))), numbers(np.repeat(levels[:, None], 50, axis=1))  # every sentence alike
    drawn = bootstrap_differences(mean_of_counts, a, b, 20_000, 1)
    assert drawn.mean() == pytest.approx(4, abs=0.05)
    assert drawn.var() == pytest.approx(levels.var(ddof=1) / 3, rel=0.03)


def test_sentences_and_runs_both_widen_the_interval() -> None:
    chance = np.random.default_rng(5)
    sentences = chance.normal(size=(1, 100))
    lifted = np.array([[0.2], [0.5], [0.8]])
    of_runs = bootstrap(mean_of_counts, numbers(np.zeros((3, 100))), numbers(lifted + np.zeros((3, 100))))
    of_sentences = bootstrap(mean_of_counts, numbers(np.zeros((1, 100))), numbers(0.5 + sentences))
    of_both = bootstrap(mean_of_counts, numbers(np.zeros((3, 100))), numbers(lifted + sentences))
    widths = [found.high - found.low for found in (of_runs, of_sentences, of_both)]
    assert widths[2] > max(widths[:2])
    assert widths[2] == pytest.approx(math.hypot(*widths[:2]), rel=0.2)


def test_randomisation_swaps_the_mean_counts_of_the_runs() -> None:
    references, systems = texts(40, 0.5, 0.45, 0.4, 0.4)
    metric = build_metric("bleu", references)
    a, b = side(metric, *systems[:3]), side(metric, *systems[3:])
    means = a.mean(axis=0), b.mean(axis=0)
    observed = abs(float(metric.scores(means[1].sum(0)) - metric.scores(means[0].sum(0))))
    coins = np.random.default_rng(SEED).integers(2, size=(200, 40), dtype=bool)
    extreme = 0
    for kept in coins:
        of_a, of_b = (np.where(kept[:, None], x, y).sum(0) for x, y in (means, means[::-1]))
        extreme += abs(float(metric.scores(of_b) - metric.scores(of_a))) >= observed - 1e-9
    assert randomisation(metric.scores, a, b, 200, SEED) == (1 + extreme) / 201


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_chance_deceives_each_test_about_as_often_as_its_p_says(test: str) -> None:
    chance = np.random.default_rng(11)
    found = []
    for trial in range(200):
        a, b = numbers(chance.normal(size=(1, 40))), numbers(chance.normal(size=(1, 40)))
        if test == "bootstrap":
            found.append(bootstrap(mean_of_counts, a, b, 200, trial).p)
        else:
            found.append(randomisation(mean_of_counts, a, b, 200, trial))
    assert 0.01 <= np.mean(np.array(found) < 0.05) <= (0.15 if test == "bootstrap" else 0.09)  # nearly one-sided


# --- Welch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.0, 0.1, 1.0, 2.5, 40.0])
def test_students_p_has_its_closed_forms(t: float) -> None:
    assert two_sided_p(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-14)
    assert two_sided_p(-t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-14)


@pytest.mark.parametrize("freedom", [1.3, 3.9, 10.0, 250.5])
@pytest.mark.parametrize("t", [0.3, 1.0, 3.0])
def test_students_p_is_the_integral_of_its_density(t: float, freedom: float) -> None:
    steps = 20_000
    x = (np.arange(steps) + 0.5) * t / steps
    density = (1 + x * x / freedom) ** (-(freedom + 1) / 2) / math.sqrt(freedom * math.pi)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    assert two_sided_p(t, freedom) == pytest.approx(1 - 2 * scale * density.sum() * t / steps, abs=1e-8)


def test_welchs_test_of_the_sleep_data() -> None:
    # Student 1908; R's documentation gives t = -1.8608, df = 17.776, p = 0.07939 for `t.test(extra ~ group, sleep)`.
    a = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    b = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = welch(a, b)
    assert found is not None
    assert found.t == pytest.approx(1.8608, abs=5e-5)
    assert found.freedom == pytest.approx(17.776, abs=5e-4)
    assert found.p == pytest.approx(0.07939, abs=5e-6)


def test_equal_variances_have_all_degrees_of_freedom() -> None:
    found = welch([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert found is not None
    assert found.freedom == pytest.approx(4)
    assert found.t == pytest.approx(3 / math.sqrt(2 / 3))


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0, 3.0]), ([1.0, 2.0], [3.0]), ([1.0, 1.0], [2.0, 2.0])])
def test_without_variance_there_is_no_welch_test(a: list[float], b: list[float]) -> None:
    assert welch(a, b) is None
