"""What an evaluation says of single items: scores by length, the best ones and the worst."""

from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from tests.models.text import fresh_masked_model, masked_recipe, written
from tests.unit.lab.test_compare_models import MAKERS

import heedful
from heedful.lab.evaluate_run import evaluate_run, report_items
from heedful.metrics.language.perplexity import Likelihood
from heedful.metrics.scores import ItemScore, ItemScores, percent_of_sums
from heedful.metrics.summed_metrics import TextScoring, text_scorer
from heedful.tasks.caption.evaluation import CaptionEvaluation


def items_of(*values: float, lower_is_better: bool = False) -> ItemScores:
    """Items that have these scores, with a length of three words each; nan: there is nothing to score."""
    counts = np.array([(0, 0) if np.isnan(value) else (value / 100, 1) for value in values], np.float64)
    score = ItemScore("accuracy", "accuracy", "", percent_of_sums, lambda: counts, lower_is_better)
    shown = [(f"in {number}", f"true {number}", f"out {number}") for number in range(len(values))]
    return ItemScores("text", list(range(len(values))), [score], shown, [3] * len(values), "text")


def test_of_equal_items_the_first_are_shown_and_none_is_both_best_and_worst() -> None:
    found = report_items(items_of(50, 0, 100, 50, 100, 0, 50), 2)
    assert [(one.number, one.score) for one in found.best] == [(3, 100.0), (5, 100.0)]
    assert [(one.number, one.score) for one in found.worst] == [(2, 0.0), (6, 0.0)]
    assert (found.best[0].input, found.best[0].output, found.best[0].reference) == ("in 2", "out 2", "true 2")
    few = report_items(items_of(70, 80, 70), 5)
    assert ([one.number for one in few.best], [one.number for one in few.worst]) == ([2, 1], [3])


def test_an_item_as_good_as_the_best_is_not_among_the_worst() -> None:
    found = report_items(items_of(100, 100, 90, 100, 100), 2)
    assert ([one.number for one in found.best], [one.number for one in found.worst]) == ([1, 2], [3])
    same = report_items(items_of(70, 70, 70))
    assert ([one.number for one in same.best], same.worst) == ([1, 2], [])
    assert report_items(items_of(np.nan)).best == []


def test_items_with_nothing_to_score_are_left_out_and_a_lower_score_may_be_better() -> None:
    found = report_items(items_of(30, np.nan, 10, 20, lower_is_better=True), 1)
    assert ([one.number for one in found.best], [one.number for one in found.worst]) == ([3], [1])
    assert (found.size, found.unscored) == (4, 1)


def test_a_score_finer_than_right_or_wrong_orders_items() -> None:
    items = items_of(100, 0)
    counts = np.array([[1.0, 1.0], [0.0, 1.0]])
    exact, f1 = (ItemScore(name, name, "", percent_of_sums, lambda: counts) for name in ("exact_match", "f1"))
    both = ItemScores(items.unit, items.items, [exact, f1], items.shown)
    assert report_items(both).score == "f1"
    assert report_items(both).lengths == []


def test_scores_of_translations_are_those_of_sacrebleu_for_each_sentence_and_each_length() -> None:
    references = ["the dog sees a cat", "a bird sings in the old tall tree", "no", "the man likes the small dog a lot"]
    outputs = ["the dog sees cat", "a bird is in the old tree", "no", "a man has the small dog"]
    items = text_scorer("sentence", references, references, ("bleu", "ter"), TextScoring())(outputs)
    found = report_items(items, 4)
    metric = sacrebleu.CHRF()
    assert {one.number: one.score for one in (*found.best, *found.worst)} == pytest.approx(
        {n: metric.sentence_score(o, [r]).score for n, (o, r) in enumerate(zip(outputs, references, strict=True), 1)}
    )
    short, longer = found.lengths
    assert (short.words, short.size, longer.words, longer.size) == ("0 to 5", 2, "6 to 10", 2)
    of_longer = sacrebleu.corpus_bleu([outputs[1], outputs[3]], [[references[1], references[3]]])
    assert longer.scores["bleu"] == pytest.approx(of_longer.score)
    assert list(found.labels) == ["chrf", "bleu", "ter"]


def test_items_of_a_captioner_are_images_by_name() -> None:
    evaluation = CaptionEvaluation(
        texts=("a dog", "two cats"), best=(), references=(("a dog", "one dog"), ("birds", "two birds")), shown=(),
        likelihood=Likelihood(1.0, 1), seconds=1.0, inputs=("a.png", "b.png"),
    )  # fmt: skip
    found = report_items(evaluation.item_scores())
    (best,), (worst,) = found.best, found.worst
    assert (best.input, best.reference) == ("a.png", "a dog | one dog")
    assert best.score == pytest.approx(100)
    assert (worst.input, worst.output, found.unit) == ("b.png", "two cats", "image")


@pytest.mark.parametrize("task", MAKERS)
def test_every_task_with_scores_of_items_has_its_best_and_worst(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    folder = written(MAKERS[task](tmp_path), tmp_path / "model")
    (corpus,) = evaluate_run(folder, "cpu")
    (evaluation,) = heedful.evaluate(folder, device="cpu").values()
    assert {score.name: score.value for score in corpus.scores} == {one.name: one.value for one in evaluation.scores()}
    items = corpus.items
    assert items is not None
    scores = [one.score for one in items.best], [one.score for one in items.worst]
    assert scores == (sorted(scores[0], reverse=True), sorted(scores[1]))
    assert scores[0][-1] >= max(scores[1], default=0)
    assert not {one.number for one in items.best} & {one.number for one in items.worst}
    assert sum(group.size for group in items.lengths) == (items.size if task != "classify_images" else 0)
    expected = {"parse": "f1", "tag": "f1", "answer": "f1"}.get(task, "accuracy")
    assert items.score == expected


def test_a_translator_has_its_sources_and_both_test_sets(reversing_folder: Path) -> None:
    first, second = evaluate_run(reversing_folder, "cpu", number=3)
    assert (first.name, first.title, second.name) == ("1", "first.in + first.out", "second")
    assert first.items is not None
    sources = (reversing_folder.parent / "first.in").read_text().splitlines()
    for one in (*first.items.best, *first.items.worst):
        assert one.input == sources[one.number - 1]
        assert one.reference == " ".join(reversed(one.input.split()))
    assert first.items.best[0].score == pytest.approx(100)


def test_a_task_without_scores_of_items_has_those_of_corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "test.txt").write_text(
        "The film was great .\nThe plot was dull .\n\nThe cast was flat .\nThe ending was funny .\n"
    )
    (corpus,) = evaluate_run(written(fresh_masked_model(masked_recipe(tmp_path)), tmp_path / "model"), "cpu")
    assert corpus.items is None
    assert corpus.scores
