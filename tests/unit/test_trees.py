"""Trees are read, written, cleaned and turned into sequences and back without loss."""

from random import Random

import pytest
from tests.shared.random_trees import random_tree
from tests.shared.refusals import like, refuses

from heedful.base.trees import DEEPEST, TOP, Leaf, Tree, clean, from_sequence, linearize, read_tree, without_function
from heedful.config.decode import LEAST_OF_TREE

DOG = "(S (NP (DT a) (NN dog)) (VP (VBZ barks)))"


def test_a_tree_that_is_written_is_read_again() -> None:
    random = Random(0)
    for words in range(1, 60):
        tree = random_tree(random, words)
        assert read_tree(str(tree), "here") == tree
        assert len(tree.words) == words


def test_the_sequence_of_a_tree_is_the_tree_again() -> None:
    random = Random(1)
    for words in range(1, 60):
        tree = random_tree(random, words)
        tags = [leaf.tag for leaf in tree.leaves]
        assert from_sequence(linearize(tree), tree.words, tags) == tree
        assert from_sequence(linearize(tree, lambda leaf: "w"), tree.words, tags) == tree


def test_a_sequence_has_typed_brackets_and_words_or_one_symbol() -> None:
    tree = read_tree(DOG, "here")
    assert linearize(tree) == ["(S", "(NP", "a", "dog", ")NP", "(VP", "barks", ")VP", ")S"]
    assert linearize(tree, lambda leaf: "w") == ["(S", "(NP", "w", "w", ")NP", "(VP", "w", ")VP", ")S"]
    untagged = from_sequence(linearize(tree, lambda leaf: "w"), ["the", "cat", "sleeps"])
    assert str(untagged) == "(S (NP (XX the) (XX cat)) (VP (XX sleeps)))"


@pytest.mark.parametrize(
    "sequence",
    [
        "",
        "w",
        "(S w )NP",
        "(S w",
        "(S )S",
        "(S w )S )S",
        "(S w )S w",
        "(S w w )S",
        ")S",
        "(S (NP )NP w )S",
    ],
)
def test_a_sequence_that_is_no_tree_over_the_words_is_none(sequence: str) -> None:
    assert from_sequence(sequence.split(), ["dog"]) is None
    assert from_sequence(["(S", "w", ")S"], ["dog"]) == Tree("S", (Leaf("XX", "dog"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP (NN dog))", "a.trees, line 3: 1 bracket not closed: every `(` needs a `)`."),
        ("((S (NN dog)", like("a.trees, line 3: 2 brackets not closed: ...")),
        ("(S (NN dog)) )", "a.trees, line 3 continues with `)` after the end of its tree: remove it."),
        ("(S (NN dog)) (S (NN cat))", "a.trees, line 3 has 2 trees, but must have one."),
        (")", "a.trees, line 3 begins with `)`, but a tree begins with an opening bracket."),
        ("dog", like("a.trees, line 3 begins with `dog`, but a tree begins with ...")),
        ("", "a.trees, line 3 has no tree."),
        ("(S ())", "a.trees, line 3: the bracket `()` has neither a word nor other brackets."),
        ("(S (NP))", like("a.trees, line 3: the bracket `(NP)` has neither a word nor ...")),
        ("(S ((NN dog)))", "a.trees, line 3: an inner bracket has no label: write `(NP ...)`."),
        ("(S (NN a dog))", "a.trees, line 3: the word `dog` needs a bracket of its own, with its tag."),
        ("(S (NN dog) barks)", like("a.trees, line 3: the word `barks` needs a bracket of its ...")),
        ("(S dog (NN cat))", like("a.trees, line 3: the word `dog` needs a bracket of its ...")),
        ("(S " * 201 + "dog" + ")" * 201, "a.trees, line 3: the tree has more than 200 levels, the maximum."),
    ],
)
def test_a_text_that_is_no_tree_is_refused_with_its_place(text: str, message: str) -> None:
    with refuses(message):
        read_tree(text, "a.trees, line 3")


def test_an_outermost_bracket_needs_no_label_and_a_word_alone_is_a_tree() -> None:
    assert read_tree(f"( {DOG} )", "here") == Tree(TOP, (read_tree(DOG, "here"),))
    assert read_tree("(NN dog)", "here") == Tree(TOP, (Leaf("NN", "dog"),))


def test_the_deepest_tree_can_be_used() -> None:
    text = "(S " * (DEEPEST - 1) + "(NN dog)" + ")" * (DEEPEST - 1)
    tree = read_tree(text, "here")
    assert str(tree) == text
    assert from_sequence(linearize(tree), tree.words, ["NN"]) == tree
    assert clean(tree) == tree


def test_cleaning_removes_traces_and_functions() -> None:
    text = "(S (NP-SBJ-1 (-NONE- *)) (NP-TMP=2 (DT this) (-LRB- -LRB-)) (VP (VB go) (S (NP (-NONE- *T*)))))"
    assert str(clean(read_tree(text, "here"))) == "(S (NP (DT this) (-LRB- -LRB-)) (VP (VB go)))"
    assert clean(read_tree("(S (NP (-NONE- *)))", "here")) is None
    assert [without_function(label) for label in ("NP", "NP-SBJ-1", "PP=2", "-LRB-", "S-NOM=3")] == [
        "NP", "NP", "PP", "-LRB-", "S"
    ]  # fmt: skip


def test_the_smallest_sequence_has_two_brackets_and_an_end_besides_its_words() -> None:
    for words in (1, 3):
        tree = Tree("S", tuple(Leaf("NN", f"w{number}") for number in range(words)))
        assert len([*linearize(tree), "</s>"]) == words + LEAST_OF_TREE
