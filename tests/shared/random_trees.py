"""Random trees, with punctuation, traces, functions and chains of single children."""

from random import Random

from heedful.base.trees import Leaf, Tree

LABELS = ("S", "NP", "NP-SBJ", "VP", "PP=2", "ADVP", "PRT", "SBAR", "TOP", "ROOT")
TAGS = ("DT", "NN", "VBZ", ",", ".", "``", "''", ":", "-NONE-", "-LRB-", "IN")


def random_tree(random: Random, words: int, deepest: int = 8) -> Tree:
    """A tree over words w0, w1 and so on, some of them traces."""
    leaves = [Leaf(random.choice(TAGS), f"w{number}") for number in range(words)]
    return Tree(random.choice(LABELS), _divided(random, leaves, deepest))


def regrouped(random: Random, tree: Tree) -> Tree:
    """Another tree over the same words and tags, which shares some of its constituents by chance."""
    leaves = list(tree.leaves)
    return Tree(random.choice(LABELS), _divided(random, leaves, 8))


def _divided(random: Random, leaves: list[Leaf], deepest: int) -> tuple[Tree | Leaf, ...]:
    children: list[Tree | Leaf] = []
    start = 0
    while start < len(leaves):
        size = random.randint(1, len(leaves) - start)
        part = leaves[start : start + size]
        if deepest and (size > 1 or random.random() < 0.4):
            children.append(Tree(random.choice(LABELS), _divided(random, part, deepest - 1)))
        else:
            children.extend(part)
        start += size
    return tuple(children)
