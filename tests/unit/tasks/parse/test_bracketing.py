"""Scores of trees, against the published algorithm as a loop over characters and brackets."""

from random import Random

import pytest
from tests.shared.random_trees import random_tree, regrouped

from heedful.base.trees import Tree, read_tree
from heedful.tasks.parse.bracketing import score_trees

DELETE = ["TOP", "ROOT", "-NONE-", ",", ":", "``", "''", "."]


def scan(text: str) -> tuple[int, list[list[object]]]:
    """The words that are not deleted and the brackets [label, start, end], read from left to right."""
    brackets: list[list[object]] = []
    stack: list[int] = []
    words, place = 0, 0
    while place < len(text):
        if text[place] == "(":
            stop = place + 1
            while text[stop] not in " ()":
                stop += 1
            label = text[place + 1 : stop]
            if text[stop] == " " and text[stop + 1] != "(":
                words += label not in DELETE
                place = text.index(")", stop) + 1
                continue
            brackets.append([label, words, -1])
            stack.append(len(brackets) - 1)
            place = stop
        elif text[place] == ")":
            brackets[stack.pop()][2] = words
        place += 1
    return words, brackets


def by_loop(predicted: str, true: str) -> tuple[int, int, int]:
    """Right, predicted and true brackets: every true one takes the first equal one that is not taken."""
    sides = []
    for text in (predicted, true):
        kept = []
        for label, start, end in scan(text)[1]:
            name = str(label)
            for mark in "-=":
                name = name.split(mark)[0]
            if start != end and name not in DELETE:
                kept.append(["ADVP" if name == "PRT" else name, start, end, False])
        sides.append(kept)
    right = 0
    for wanted in sides[1]:
        for found in sides[0]:
            if not found[3] and found[:3] == wanted[:3]:
                found[3] = True
                right += 1
                break
    return right, len(sides[0]), len(sides[1])


@pytest.mark.parametrize("trees", [500, pytest.param(5000, marks=pytest.mark.wide)])
def test_brackets_count_as_in_the_published_program_on_random_trees(trees: int) -> None:
    random = Random(trees)
    for number in range(trees):
        true = random_tree(random, 1 + number % 25)
        predicted = regrouped(random, true)
        (found,) = score_trees([predicted], [true]).sentences
        assert (found.right, found.predicted, found.true) == by_loop(str(predicted), str(true))
        (same,) = score_trees([true], [true]).sentences
        assert same.exact
        assert same.right == same.true


def tree(text: str) -> Tree:
    return read_tree(text, "here")


DOG = tree("(TOP (S (NP-SBJ (DT the) (NN dog)) (VP (VBD sat) (PRT (RP down))) (. .)))")


def test_scores_of_a_sentence_by_hand() -> None:
    """S, NP and ADVP for PRT are right; VP has other words. The full stop and TOP do not count."""
    said = tree("(TOP (S (NP (DT the) (NN dog)) (VP (VBD sat)) (ADVP (RP down)) (. .)))")
    scores = score_trees([said, DOG], [DOG, DOG])
    assert [(one.right, one.predicted, one.true) for one in scores.sentences] == [(3, 4, 4), (4, 4, 4)]
    assert scores.brackets.f1 == pytest.approx(7 / 8)
    assert scores.exact_match == 0.5
    assert scores.unparsed == 0


@pytest.mark.parametrize("said", [None, tree("(TOP (S (NN cat)))")])
def test_a_missing_tree_or_one_over_other_words_misses_every_bracket(said: Tree | None) -> None:
    scores = score_trees([said], [DOG])
    assert (scores.brackets.right, scores.brackets.predicted, scores.brackets.true) == (0, 0, 4)
    assert scores.brackets.f1 == 0
    assert scores.unparsed == 1
    assert scores.exact_match == 0


def test_long_sentences_can_be_left_out_and_traces_do_not_make_them_long() -> None:
    short, traced = tree("(S (NN a) (NN b))"), tree("(S (NN a) (-NONE- *) (NN b))")
    longest, long = (tree(f"(S {'(NN a) ' * words})") for words in (40, 41))
    trees = [short, traced, longest, long]
    scores = score_trees(trees, trees)
    assert [one.words for one in scores.sentences] == [2, 2, 40, 41]
    assert [one.words for one in scores.short.sentences] == [2, 2, 40]


def test_nothing_has_a_score_of_zero() -> None:
    scores = score_trees([], [])
    assert scores.exact_match == scores.brackets.f1 == 0


def test_what_is_predicted_for_words_needs_no_tags() -> None:
    untagged = tree("(TOP (S (NP (XX the) (XX dog)) (VP (XX sat) (PRT (XX down))) (XX .)))")
    assert score_trees([untagged], [DOG]).exact_match == 1
