"""Spans of labels and their scores, against the program of the CoNLL shared tasks, written out again."""

import random

import pytest
from tests.shared.refusals import refuses

from heedful.metrics.label_spans import LabelResult, Span, SpanCounts, spans_of
from heedful.tasks.tag.label_scores import LabelScores

SETS = [
    ["O", "B-A", "I-A", "B-B", "I-B"],
    ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in "AB")],
    ["O", "B", "I", "E", "S", "B-A", "I-A", "I-A-x", "B-A-x"],
]


def conlleval(labels: list[str]) -> list[tuple[str, int, int]]:
    """The spans by the rules of conlleval.pl: whether one ends, and whether one starts, between two words."""
    found, start = [], 0
    before, kind_before = "O", ""
    for index, label in enumerate([*labels, "O"]):
        prefix, kind = label[0], label[1:].split("-", 1)[-1] or "_"
        ends = before in "ES" or (before in "BI" and prefix in "BSO") or (before not in "O." and kind_before != kind)
        starts = prefix in "BS" or (before in "ESO" and prefix in "EI") or (prefix not in "O." and kind_before != kind)
        if ends:
            found.append((kind_before, start, index))
        if starts:
            start = index
        before, kind_before = prefix, kind
    return found


def drawn(seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Predicted and true labels of a few sentences, of which most agree; many break the rules."""
    chance = random.Random(seed)
    labels = chance.choice(SETS)
    true = [[chance.choice(labels) for _ in range(chance.randint(0, 9))] for _ in range(chance.randint(1, 6))]
    said = [[label if chance.random() < 0.7 else chance.choice(labels) for label in each] for each in true]
    return said, true


def scored(said: list[list[str]], true: list[list[str]]) -> LabelScores:
    """The scores of labels, as a tagger has them: by number."""
    labels = tuple(sorted({label for rows in (said, true) for row in rows for label in row}))
    found, wanted = ([[labels.index(label) for label in row] for row in rows] for rows in (said, true))
    return LabelScores.of(labels, found, wanted)


def test_spans_and_scores_are_those_of_conlleval() -> None:
    for seed in range(500):
        said, true = drawn(seed)
        for labels in [*said, *true]:
            assert spans_of(labels) == conlleval(labels)
        found, wanted = (
            {(row, *span) for row, labels in enumerate(rows) for span in conlleval(labels)} for rows in (said, true)
        )
        result, right = LabelResult(said, true), len(found & wanted)
        assert result.spans == SpanCounts(right, len(found), len(wanted))
        for kind, counts in result.by_type.items():
            both = {span for span in found & wanted if span[1] == kind}
            assert counts.right == len(both)
        assert {span[1] for span in found | wanted} == set(result.by_type)


def test_spans_and_scores_are_those_of_seqeval() -> None:
    seqeval = pytest.importorskip("seqeval.metrics", reason="an independent implementation, if it is installed")
    for seed in range(200):
        said, true = drawn(seed)
        said, true = [each for each in said if each], [each for each in true if each]
        result = LabelResult(said, true)
        if result.by_type:
            assert result.spans.f1 == pytest.approx(seqeval.f1_score(true, said))
            assert result.spans.precision == pytest.approx(seqeval.precision_score(true, said))
            assert result.spans.recall == pytest.approx(seqeval.recall_score(true, said))
            by_type = [one.f1 for one in result.by_type.values()]
            assert sum(by_type) / len(by_type) == pytest.approx(seqeval.f1_score(true, said, average="macro"))
            assert scored(said, true).words.accuracy == pytest.approx(seqeval.accuracy_score(true, said))


def test_scores_worked_out_by_hand() -> None:
    true = [["O", "O", "B-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O", "B-PER"]]
    said = [["O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O", "O"]]
    result = LabelResult(said, true)
    assert (result.spans.precision, result.spans.recall, result.spans.f1) == (1 / 2, 1 / 3, 2 / 5)
    assert result.by_type == {"MISC": SpanCounts(0, 1, 1), "PER": SpanCounts(1, 1, 2)}
    words = scored(said, true).words
    assert (words.right_texts, words.texts, words.accuracy) == (6, 9, 6 / 9)


def test_labels_that_break_the_rules_are_read_leniently() -> None:
    assert spans_of(["O", "I-A", "I-A", "I-B"]) == [Span("A", 1, 3), Span("B", 3, 4)]
    assert spans_of(["B-A", "E-A", "E-A", "S-A", "I-A"]) == [
        Span("A", 0, 2), Span("A", 2, 3), Span("A", 3, 4), Span("A", 4, 5),
    ]  # fmt: skip


def test_labels_without_spans_have_an_accuracy_only() -> None:
    parts_of_speech = scored([["NOUN", "VERB"]], [["NOUN", "NOUN"]])
    assert not parts_of_speech.marks_spans
    assert parts_of_speech.words.accuracy == 1 / 2
    outside = LabelResult([["O"]], [["O"]])
    assert (outside.spans.precision, outside.spans.recall, outside.spans.f1) == (0, 0, 0)
    assert scored([["O", "I-A"]], [["O", "B-A"]]).marks_spans


def test_labels_of_other_words_are_refused() -> None:
    with refuses("...the same words...", ValueError):
        LabelResult([["O"]], [["O", "O"]])
