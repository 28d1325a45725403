"""Exact match and F1 of answers against the rules of SQuAD's official program, written out a second time."""

import re
from collections import Counter

import pytest

from heedful.tasks.answer.metrics import exact_match, normalize_answer, score_answers, token_f1

TEXTS = (
    "",
    "the",
    "The Tower",
    "tower",
    "a big, big tower!",
    "big tower",
    "An end.",
    "Élan vital",
    "it's",
    "theatre 12",
)


def naive_normal(text: str) -> list[str]:
    """Return the words that count, by deleting one thing after the other."""
    text = text.lower()
    for mark in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~":
        text = text.replace(mark, "")
    for article in ("a", "an", "the"):
        text = re.sub(rf"(?<!\w){article}(?!\w)", " ", text)
    return text.split()


def naive_f1(said: str, answers: list[str]) -> float:
    best = 0.0
    for answer in [each for each in answers if naive_normal(each)] or [""]:
        ours, theirs = naive_normal(said), naive_normal(answer)
        same = sum(min(count, theirs.count(word)) for word, count in Counter(ours).items())
        if not ours or not theirs:
            best = max(best, float(ours == theirs))
        elif same:
            precision, recall = same / len(ours), same / len(theirs)
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


@pytest.mark.parametrize("said", TEXTS)
@pytest.mark.parametrize("true", TEXTS)
def test_scores_equal_the_rules_written_out(said: str, true: str) -> None:
    answers = [true, "some other words"]
    assert token_f1(said, answers) == pytest.approx(naive_f1(said, answers))
    assert exact_match(said, [true]) == (naive_normal(said) == naive_normal(true))


def test_case_articles_punctuation_and_spaces_do_not_count() -> None:
    assert normalize_answer("  The  Eiffel-Tower, an icon. ") == "eiffeltower icon"
    assert exact_match("the Eiffel tower", ["Eiffel Tower!"])
    assert not exact_match("theatre", ["atre"])  # an article is a whole word


def test_the_nearest_acceptable_answer_counts() -> None:
    assert token_f1("in the old harbour", ["mill", "old harbour"]) == pytest.approx(0.8)
    assert exact_match("harbour", ["mill", "the harbour"])


def test_questions_without_an_answer_are_right_only_if_left_without_one() -> None:
    result = score_answers(["", "x", "a mill", ""], [[], [], ["mill"], ["mill"]])
    assert (result.questions, result.answerable) == (4, 2)
    assert (result.exact_match, result.f1) == (0.5, 0.5)
    assert (result.answerable_exact_match, result.answerable_f1, result.unanswerable_right) == (0.5, 0.5, 0.5)
    assert score_answers(["x"], [["x"]]).unanswerable_right is None
