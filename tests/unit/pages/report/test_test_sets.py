"""Test sets in a report: what the page says of plain data."""

from dataclasses import replace

from tests.unit.pages.report.conftest import WriteRun, logged

from heedful.pages.report.page import report_data, report_page
from heedful.pages.report.record import read_run
from heedful.pages.report.test_sets import (
    CorpusScore,
    EvaluatedCorpus,
    ItemReport,
    LengthGroup,
    ScoredItem,
    cut_text,
)

ITEMS = ItemReport(
    "sentence", "f1", {"f1": "F1", "accuracy": "accuracy"}, 12, 2, "sentence",
    [LengthGroup("0 to 5", 0, 5, 8, {"f1": 40.0, "accuracy": 60.0}),
     LengthGroup("51 or more", 51, None, 4, {"f1": 25.5, "accuracy": 50.0})],
    [ScoredItem(7, "a <b>", "said", "true", 100.0)],
    [ScoredItem(2, "x" * 700, "", "long", 12.25)],
)  # fmt: skip
CORPUS = EvaluatedCorpus("1", "test.conll", [CorpusScore("f1", "F1", 0.41, "41.00%", "9 spans are right")], ITEMS)


def test_the_page_shows_scores_by_length_and_the_best_and_worst_items(write_run: WriteRun) -> None:
    page = report_page([read_run(write_run(lines=[logged(10)]))], [[CORPUS]])
    assert '<h2 id="tests-title">Test sets</h2>' in page
    assert '<th scope="row">F1</th><td>41.00%</td><td>9 spans are right</td>' in page
    assert '<th scope="row">51 or more</th><td>4</td><td>25.50</td><td>50.00</td>' in page
    assert "F1 by length" in page
    assert "<h4>Best sentences by F1</h4>" in page
    assert '<p class="title">sentence 7: F1 100.00</p>' in page
    assert "<dt>input</dt><dd>a &lt;b&gt;</dd><dt>output</dt><dd>said</dd><dt>reference</dt><dd>true</dd>" in page
    assert page.index("Best sentences") < page.index("sentence 7") < page.index("Worst sentences")
    assert '<p class="title">sentence 2: F1 12.25</p>' in page
    assert "x" * 600 + " … (700 characters)" in page
    assert "Left out: 2 sentences with nothing to score by F1." in page


def test_a_task_without_scores_of_items_says_so(write_run: WriteRun) -> None:
    page = report_page([read_run(write_run(lines=[logged(10)]))], [[replace(CORPUS, items=None)]])
    assert "41.00%" in page
    assert "Models of this task are scored on whole corpora: no item has a score of its own." in page
    assert "Best " not in page


def test_where_no_item_is_worse_than_the_best_the_page_says_so(write_run: WriteRun) -> None:
    page = report_page(
        [read_run(write_run(lines=[logged(10)]))], [[replace(CORPUS, items=replace(ITEMS, worst=[], unscored=0))]]
    )
    assert "No sentence is worse than these." in page
    assert "Worst" not in page
    assert "Left out" not in page


def test_test_sets_of_several_runs_are_under_their_names(write_run: WriteRun) -> None:
    records = [read_run(write_run(name, [logged(10)])) for name in "ab"]
    page = report_page(records, [[CORPUS], [CORPUS]])
    assert page.index("<h3>a: test.conll</h3>") < page.index("<h3>b: test.conll</h3>")
    assert [len(one["test"]) for one in report_data(records, [[CORPUS], []])["runs"]] == [1, 0]


def test_nothing_is_said_of_test_sets_that_were_not_evaluated(write_run: WriteRun) -> None:
    record = read_run(write_run(lines=[logged(10)]))
    assert "Test sets" not in report_page([record])
    assert "test" not in report_data([record])["runs"][0]


def test_texts_are_cut_for_display_alone() -> None:
    assert cut_text("abc", 3) == "abc"
    assert cut_text("ab cd", 3) == "ab … (5 characters)"
    found = CORPUS.to_json()
    assert found["items"]["worst"][0]["input"] == "x" * 700
    assert found["scores"] == {"f1": 0.41}
    assert found["items"]["lengths"][1]["high"] is None
