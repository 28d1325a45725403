"""The line that parsers have to beat: right-branching trees with usual labels."""

from collections import Counter
from random import Random

import pytest
from tests.shared.random_trees import random_tree

from heedful.base.trees import Leaf, Tree, linearize, read_tree
from heedful.config.tokenizer import Words
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.training import train_tokenizer
from heedful.tasks.parse import baseline
from heedful.tasks.parse.baseline import RightBranching, right_branching

TRAIN = [
    "(ROOT (S (NP (DT a) (NN dog)) (VP (VBZ sees) (NP (PRP you)))))",
    "(ROOT (S (NP (PRP you)) (VP (VBP run) (ADVP (RB so) (RB fast)))))",
    "(ROOT (NP (DT the) (JJ old) (NN dog)))",
]


def of_texts(texts: list[str]) -> tuple[RightBranching, str]:
    sequences = [linearize(read_tree(text, "here"), lambda leaf: "XX") for text in texts]
    target = train_tokenizer(Words(kind="word"), [" ".join(sequence) for sequence in sequences])
    store = TokenStore.of(target=target.encode_batch([" ".join(sequence) for sequence in sequences]))
    return right_branching([store], target)


def test_trees_branch_to_the_right_with_the_usual_labels() -> None:
    trees, sample = of_texts(TRAIN)
    assert sample == "the 3 training trees"
    assert str(trees.tree(["you", "see", "old", "dogs"])) == (
        "(ROOT (S (XX you) (VP (XX see) (ADVP (XX old) (XX dogs)))))"
    )  # two words are as often ADVP, NP and VP, of which the first in the alphabet is taken
    assert str(trees.tree(["Stop"])) == "(ROOT (S (XX Stop)))"
    assert str(trees.tree(["you", ",", "dogs", "run", "."])) == (
        "(ROOT (S (XX you) (XX ,) (VP (XX dogs) (ADVP (XX run) (XX .)))))"
    )


def spans(tree: Tree | Leaf, start: int = 0) -> list[tuple[str, int, int]]:
    if isinstance(tree, Leaf):
        return []
    found, place = [(tree.label, start, start + len(tree.leaves))], start
    for child in tree.children:
        found += spans(child, place)
        place += 1 if isinstance(child, Leaf) else len(child.leaves)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_labels_are_those_of_constituents_of_as_many_words(seed: int) -> None:
    random = Random(seed)
    train = [random_tree(random, random.randint(1, 9)) for _ in range(20)]
    trees, _ = of_texts(list(map(str, train)))
    labels = {1: Counter[str](), 2: Counter[str](), 3: Counter[str](), 4: Counter[str]()}
    for tree in train:
        for label, start, end in spans(tree):
            if end - start < len(tree.leaves) and end - start in labels:
                labels[end - start][label] += 1
    made = {end - start: label for label, start, end in spans(trees.tree(["a", "b", "c", "d", "e"])) if end - start < 5}
    assert sorted(made) == [2, 3, 4]
    for words, label in made.items():
        if labels[words]:
            assert label == min(labels[words], key=lambda one: (-labels[words][one], one))


def test_a_long_sentence_is_no_deeper_than_python_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    trees, _ = of_texts(TRAIN)
    assert len(trees.tree(["dog"] * 3_000).leaves) == 3_000
    assert str(of_texts(["(TOP (NN dog))"])[0].tree(["a", "b", "c"])) == "(TOP (XX a) (TOP (XX b) (XX c)))"
    monkeypatch.setattr(baseline, "_MOST_TREES", 2)
    assert of_texts(TRAIN)[1] == "2 of 3 training trees"
