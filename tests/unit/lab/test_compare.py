"""Two sides compared: every figure against its own definition, and the rule of the verdict."""

import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest
import sacrebleu
from tests.shared.refusals import like, refuses

from heedful.lab.compare import Comparison, Frequencies, MetricComparison, SideScore, System, check_lines, compare
from heedful.metrics.buckets import LENGTHS
from heedful.metrics.significance import Bootstrap, Welch, bootstrap, randomisation, run_scores, welch
from heedful.metrics.summed_metrics import Floats, word_splitter

WORDS = ("the", "cat", "sat", "on", "a", "mat,", "and", "dogs", "ran", "over", "green", "hills", "far", "away.")


def corpus(count: int = 60) -> list[str]:
    chance = random.Random(1)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 25))) for _ in range(count)]


def spoilt(references: Sequence[str], share: float, seed: int) -> System:
    """A system that gets such a share of the words wrong."""
    chance = random.Random(seed)
    texts = (
        " ".join(chance.choice(WORDS) if chance.random() < share else word for word in reference.split())
        for reference in references
    )
    return System(f"system {seed}", tuple(texts))


REFERENCES = corpus()
GOOD = [spoilt(REFERENCES, 0.2, seed) for seed in (1, 2, 3)]
POOR = [spoilt(REFERENCES, 0.4, seed) for seed in (4, 5)]


def bleu(system: System) -> float:
    return sacrebleu.corpus_bleu(system.translations, [REFERENCES]).score


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(POOR, GOOD, REFERENCES, [f"source {n}" for n in range(60)], samples=200, examples=3)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_scores_are_sacrebleus_for_every_run(found: Comparison) -> None:
    of_bleu, of_chrf = found.metrics
    assert [of_bleu.metric, of_chrf.metric] == ["BLEU", "chrF"]
    assert of_bleu.a.runs == pytest.approx([bleu(system) for system in POOR])
    assert of_bleu.b.runs == pytest.approx([bleu(system) for system in GOOD])
    assert of_bleu.b.mean == pytest.approx(mean(map(bleu, GOOD)))
    assert of_bleu.b.deviation == pytest.approx(stdev(map(bleu, GOOD)))
    assert of_bleu.difference == pytest.approx(mean(map(bleu, GOOD)) - mean(map(bleu, POOR)))
    assert of_chrf.a.runs[0] == pytest.approx(sacrebleu.corpus_chrf(POOR[0].translations, [REFERENCES]).score)
    assert of_bleu.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert (found.a, found.b) == (("system 4", "system 5"), ("system 1", "system 2", "system 3"))
    assert (found.sentences, found.samples, found.seed) == (60, 200, 12345)


def test_a_clear_difference_is_found_in_both_directions(found: Comparison) -> None:
    assert [judgement.better for judgement in found.metrics] == ["B", "B"]
    turned = compare(GOOD, POOR, REFERENCES, metrics=["ter", "bleu", "ter"], samples=200)
    assert [judgement.metric for judgement in turned.metrics] == ["TER", "BLEU"]
    assert [judgement.better for judgement in turned.metrics] == ["A", "A"]
    assert turned.metrics[0].difference > 0


def test_one_run_a_side_has_no_deviation_and_no_test_of_runs() -> None:
    judgement = compare(POOR[:1], GOOD[:1], REFERENCES, metrics=["bleu"], samples=100).metrics[0]
    assert judgement.a.deviation is None
    assert judgement.welch is None
    both = compare(POOR, GOOD, REFERENCES, metrics=["bleu"], samples=100).metrics[0]
    assert both.welch == welch(both.a.runs, both.b.runs)


def test_the_seed_decides_the_draws() -> None:
    one, same, other = (
        compare(POOR[:1], GOOD[:1], REFERENCES, metrics=["bleu"], samples=100, seed=seed).metrics[0]
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one.bootstrap != other.bootstrap


def test_a_system_is_no_better_than_itself() -> None:
    same = compare(GOOD[:1], GOOD[:1], REFERENCES, samples=100)
    for judgement in same.metrics:
        assert (judgement.difference, judgement.bootstrap, judgement.p_randomisation) == (0, Bootstrap(0, 0, 1), 1)
        assert judgement.better is None
    assert same.better_a == same.better_b == ()


def test_bleus_words_and_case_can_be_chosen() -> None:
    systems = [System("x", ("A CAT, sat on a mat", "B")), System("y", ("a cat , sat on a mat", "B"))]
    references = ["a cat, sat on a mat", "b"]
    plain = compare(systems[:1], systems[1:], references, bleu_tokenize="none", samples=100).metrics[0]
    assert "tok:none" in plain.signature
    assert plain.a.mean != pytest.approx(plain.b.mean)
    for low in compare(systems[:1], systems[1:], references, lowercase=True, samples=100).metrics:
        assert "case:lc" in low.signature
        assert low.a.mean == pytest.approx(100) == low.b.mean


def test_a_side_can_be_plain_lines() -> None:
    a, b = list(POOR[0].translations), list(GOOD[0].translations)
    plain = compare(a, b, REFERENCES, samples=100)
    assert plain == compare([System("A", tuple(a))], [System("B", tuple(b))], REFERENCES, samples=100)
    mixed = compare(a, GOOD, REFERENCES, samples=100)
    assert (mixed.a, mixed.b) == (("A",), tuple(system.name for system in GOOD))


def test_the_snippet_of_the_manual_runs(tmp_path: Path) -> None:
    for name, lines in (("test", REFERENCES), ("theirs", POOR[0].translations), ("ours", GOOD[0].translations)):
        (tmp_path / f"{name}.de").write_text("\n".join(lines) + "\n")
    manual = (Path(__file__).parents[3] / "docs/guide/compare.md").read_text()
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", manual, re.DOTALL | re.MULTILINE)
    ran = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True)
    shown = compare(POOR[0].translations, GOOD[0].translations, REFERENCES).metrics
    assert ran.stdout.splitlines() == [
        f"{judgement.metric} {judgement.difference:+.2f} {judgement.better}" for judgement in shown
    ]


# --- the verdict ------------------------------------------------------------------------------------------------------

SURE = MetricComparison(
    metric="BLEU",
    signature="",
    lower_is_better=False,
    a=SideScore((10.0,), 10.0, None),
    b=SideScore((12.0,), 12.0, None),
    difference=2.0,
    bootstrap=Bootstrap(0.5, 3.5, 0.01),
    p_randomisation=0.01,
    welch=Welch(4.0, 3.0, 0.03),
)


@pytest.mark.parametrize(
    ("judgement", "better"),
    [
        (SURE, "B"),
        (replace(SURE, welch=None), "B"),
        (replace(SURE, difference=-2.0, bootstrap=Bootstrap(-3.5, -0.5, 0.01)), "A"),
        (replace(SURE, lower_is_better=True), "A"),
        (replace(SURE, lower_is_better=True, difference=-2.0, bootstrap=Bootstrap(-3.5, -0.5, 0.01)), "B"),
        (replace(SURE, bootstrap=Bootstrap(0.5, 3.5, 0.05)), None),
        (replace(SURE, bootstrap=Bootstrap(-0.1, 3.5, 0.01)), None),
        (replace(SURE, p_randomisation=0.05), None),
        (replace(SURE, welch=Welch(2.0, 3.0, 0.05)), None),
    ],
)
def test_a_side_is_better_where_every_test_says_so(judgement: MetricComparison, better: str | None) -> None:
    assert judgement.better == better


def test_runs_of_one_recipe_are_seldom_told_apart_though_their_sentences_alone_would_be() -> None:
    """Two sides of three runs from one distribution, in which runs differ more than sentences can explain."""

    def scoring(sums: Floats) -> Floats:
        scores: Floats = sums[..., 0] / sums[..., 1]
        return scores

    chance = np.random.default_rng(0)
    deceived, deceived_by_sentences = 0, 0
    for trial in range(200):
        hard = chance.normal(size=(1, 80))
        a, b = (
            np.stack(
                [hard + 0.15 * chance.normal(size=(3, 1)) + 0.5 * chance.normal(size=(3, 80)), np.ones((3, 80))], -1
            )
            for _ in range(2)
        )
        sides = [tuple(run_scores(scoring, side).tolist()) for side in (a, b)]
        judgement = replace(
            SURE,
            difference=mean(sides[1]) - mean(sides[0]),
            bootstrap=bootstrap(scoring, a, b, 200, trial),
            p_randomisation=randomisation(scoring, a, b, 200, trial),
            welch=welch(*sides),
        )
        deceived += judgement.better is not None
        deceived_by_sentences += judgement.p_randomisation < 0.05
    assert deceived_by_sentences > 60  # of 200: swapping sentences knows nothing of other runs
    assert deceived <= 16  # 5% are 10


# --- buckets ----------------------------------------------------------------------------------------------------------


def test_every_length_has_the_corpus_scores_of_its_sentences(found: Comparison) -> None:
    cut = word_splitter()
    assert sum(bucket.size for bucket in found.lengths) == 60
    assert [bucket.span for bucket in found.lengths] == list(LENGTHS[:5])  # none is longer
    for bucket in found.lengths:
        high = bucket.span.high or 10**9
        rows = [row for row, text in enumerate(REFERENCES) if bucket.span.low <= len(cut(text)) <= high]
        references = [REFERENCES[row] for row in rows]
        expected = [
            mean(sacrebleu.corpus_bleu([run.translations[row] for row in rows], [references]).score for run in side)
            for side in (POOR, GOOD)
        ]
        assert bucket.size == len(rows)
        assert [pair.metric for pair in bucket.scores] == ["BLEU", "chrF"]
        assert [bucket.scores[0].a, bucket.scores[0].b] == pytest.approx(expected)


def test_words_are_counted_in_the_references_where_nothing_else_is_given(found: Comparison) -> None:
    cut = word_splitter()
    counts = Counter(word for reference in REFERENCES for word in cut(reference))
    assert found.frequencies_of == "the references"
    assert sum(bucket.size for bucket in found.words) == counts.total()
    for bucket in found.words:
        high = bucket.span.high or 10**9
        assert bucket.size == sum(times for times in counts.values() if bucket.span.low <= times <= high)


def test_words_are_bucketed_by_their_count_in_the_training_data() -> None:
    references = ["rare cat sat", "cat sat rare"]
    a, b = System("a", ("cat sat", "cat sat")), System("b", ("rare cat sat", "cat dog"))
    found = compare([a], [b], references, samples=100, frequencies=Frequencies("a text", {"cat": 1000, "sat": 5}))
    assert found.frequencies_of == "a text"
    figures = [(bucket.span.label, bucket.size, bucket.scores[0].a, bucket.scores[0].b) for bucket in found.words]
    assert figures == [
        ("0", 2, 0, pytest.approx(50)),  # "rare" once of twice, and the wrong "dog"
        ("2 to 9", 2, 100, pytest.approx(200 / 3)),
        ("1,000 or more", 2, 100, 100),
    ]


def test_word_scores_of_several_runs_are_means(found: Comparison) -> None:
    alone = [compare([run], [run], REFERENCES, samples=100).words for run in POOR]
    for place, bucket in enumerate(found.words):
        assert bucket.scores[0].a == pytest.approx(mean(words[place].scores[0].a for words in alone))


# --- examples ---------------------------------------------------------------------------------------------------------


def test_examples_differ_most_by_sentence_chrf(found: Comparison) -> None:
    def chrf(side: list[System], row: int) -> float:
        return mean(sacrebleu.sentence_chrf(run.translations[row], [REFERENCES[row]]).score for run in side)

    leads = [chrf(GOOD, row) - chrf(POOR, row) for row in range(60)]
    order = sorted(range(60), key=lambda row: -leads[row])
    assert [example.line - 1 for example in found.better_b] == order[:3]
    assert [example.line - 1 for example in found.better_a] == order[:-4:-1]
    first = found.better_b[0]
    row = first.line - 1
    assert (first.score.a, first.score.b) == pytest.approx((chrf(POOR, row), chrf(GOOD, row)))
    assert first.source == f"source {row}"
    assert first.reference == REFERENCES[row]
    assert first.a == tuple(run.translations[row] for run in POOR)
    assert first.b == tuple(run.translations[row] for run in GOOD)


def test_only_sentences_that_differ_are_examples() -> None:
    a, b = System("a", ("x y", "same", "same")), System("b", ("same", "same", "same"))
    found = compare([a], [b], ["same", "same", "same"], metrics=["bleu"], samples=100)
    assert [example.line for example in found.better_b] == [1]
    assert found.better_a == ()
    assert found.better_b[0].source is None
    assert compare([a], [b], ["same"] * 3, samples=100, examples=0).better_b == ()


# --- mistakes ---------------------------------------------------------------------------------------------------------

ONE = System("one", ("a", "b"))


@pytest.mark.parametrize(
    ("a", "b", "references", "sources", "metrics", "message"),
    [
        ([], [ONE], ["a", "b"], None, ["bleu"], "Side A has no system: a side is one system, or several runs of one."),
        ([ONE], [], ["a", "b"], None, ["bleu"], like("Side B has no system: ...")),
        (
            [ONE],
            [ONE],
            ["a", "b", "c"],
            None,
            ["bleu"],
            "one has 2 lines but there are 3 references: line n must translate sentence n.",
        ),
        (
            [ONE],
            [ONE],
            ["a", "b"],
            ["x"],
            ["bleu"],
            "1 source, but 2 references: each source needs one.",
        ),
        ([ONE], [ONE], ["a", "b"], None, ["blue"], "`blue` is not a metric. Did you mean `bleu`?"),
        (
            [ONE],
            [ONE],
            ["a", "b"],
            None,
            [],
            "There is no metric to compare by: choose from bleu, chrf, ter, exact_match, edit_distance, per, wer.",
        ),
        (
            [System("x", ("a",))],
            [System("y", ("a",))],
            ["a"],
            None,
            ["bleu"],
            "A comparison needs at least two sentences, but there is only 1 reference.",
        ),
        (
            [System("x", ("a",))],
            [System("y", ("a",))],
            [],
            None,
            ["bleu"],
            like("A comparison needs at ... there are no references."),
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(
    a: list[System],
    b: list[System],
    references: list[str],
    sources: list[str] | None,
    metrics: list[str],
    message: str,
) -> None:
    with refuses(message):
        compare(a, b, references, sources, metrics=metrics)


def test_equal_numbers_of_lines_are_no_mistake() -> None:
    check_lines([ONE, ONE], ["x", "y"])
