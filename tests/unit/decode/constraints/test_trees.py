"""The constraint of trees: it allows every tree over the words, and nothing that cannot become one."""

from collections.abc import Iterator
from itertools import product
from typing import cast

import pytest
import torch
from tests.shared.refusals import refuses
from tests.unit.decode.constraints.random_scores import Noise, search_of

from heedful.base.packed import Packed
from heedful.base.trees import from_sequence
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.tokens import Never
from heedful.decode.constraints.trees import Brackets, Trees, TreeTokens
from heedful.decode.query import Query
from heedful.decode.scorer import Scorer
from heedful.decode.waves import decode

CPU = torch.device("cpu")
TOKENS, VOCABULARY = TreeTokens(opening=(4, 5), closing=(6, 7), words=(8,)), 10
NAMES = {4: "(S", 5: "(NP", 6: ")S", 7: ")NP", 8: "w"}


def constraint(words: list[int], limits: list[int], tokens: TreeTokens = TOKENS) -> Brackets:
    counted = enumerate(zip(words, limits, strict=True))
    queries = [Query([], limit, words=count, number=number) for number, (count, limit) in counted]
    return Trees(tokens, VOCABULARY)(queries, CPU)


def is_tree(tokens: tuple[int, ...], words: int) -> bool:
    if any(token not in NAMES for token in tokens):
        return False
    return from_sequence([NAMES[token] for token in tokens], ["a"] * words) is not None


def allowed_targets(rule: Brackets, target: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """All targets that the rule allows; a prefix that nothing may follow fails."""
    scores = torch.zeros(1, VOCABULARY)
    rule.forbid(scores, torch.tensor([[1, *target]]))
    following = scores[0].isfinite().nonzero().flatten().tolist()
    assert following, f"{target} cannot be completed"
    for token in following:
        if token == END:
            yield target
        else:
            yield from allowed_targets(rule.follow(None, torch.tensor([[token]])), (*target, token))


@pytest.mark.parametrize(("words", "limit"), [(1, 4), (1, 8), (2, 6), (2, 8), (3, 8)])
def test_all_trees_that_fit_are_allowed_and_nothing_else(words: int, limit: int) -> None:
    found = list(allowed_targets(constraint([words], [limit])))
    trees = {
        tokens
        for length in range(words + 2, limit)
        for tokens in product(NAMES, repeat=length)
        if tokens.count(8) == words and is_tree(tokens, words)
    }
    assert len(found) == len(set(found))
    assert set(found) == trees


def test_each_word_is_read_as_one_of_several_tokens() -> None:
    tagged = TreeTokens(opening=(4,), closing=(6,), words=(8, 9))
    rule = constraint([2], [6], tagged)
    assert set(allowed_targets(rule)) == {(4, first, second, 6) for first in (8, 9) for second in (8, 9)}


def test_without_words_the_target_is_empty() -> None:
    assert list(allowed_targets(constraint([0], [9]))) == [()]


@pytest.mark.parametrize(("kind", "beam"), [("greedy", 1), ("beam", 1), ("beam", 4), ("beam", 21), ("sampling", 1)])
def test_searches_find_trees_over_exactly_the_words(kind: str, beam: int) -> None:
    words = [0, 1, 7, 200, 2, 31]
    limits = [9, 4, 10, 500, 60, 400]  # some leave room for one bracket alone
    began = search_of(kind, beam, limits, (Never.of((), CPU), constraint(words, limits)))
    found = decode(cast(Scorer, Noise(vocabulary=VOCABULARY)), Packed.of([[5]] * len(words)), began)
    for count, limit, nbest in zip(words, limits, found, strict=True):
        assert nbest
        for hypothesis in nbest:
            assert hypothesis.complete
            assert len(hypothesis.tokens) < limit
            assert is_tree(tuple(hypothesis.tokens), count) or (not count and not hypothesis.tokens)


def test_a_limit_that_no_tree_fits_is_refused() -> None:
    with refuses(
        "Sentence 2 has 12 words, but its tree may have 14 tokens only, and needs at least 15: raise `max_extra`."
    ):
        constraint([1, 12], [9, 14])
