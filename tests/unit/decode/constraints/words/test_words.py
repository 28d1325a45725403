"""Words that must appear, or must not, against the definition: whole words of the decoded text."""

from itertools import product
from typing import cast

import pytest
import torch
from tests.unit.decode.constraints.random_scores import Noise, search_of
from tests.unit.decode.constraints.words.vocabularies import SMALLEST, USUAL, smallest, tokenizer_of, usual
from torch import Tensor

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.prefix import make_constraints
from heedful.decode.constraints.protocol import Constraint
from heedful.decode.constraints.tokens import Never
from heedful.decode.constraints.words.constraint import Words
from heedful.decode.constraints.words.in_slots import words
from heedful.decode.constraints.words.planner import WordPlanner
from heedful.decode.constraints.words.spelling import occurs
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.scorer import Scorer
from heedful.decode.waves import decode

CPU = torch.device("cpu")


def allowed_targets(rule: Words, size: int) -> list[tuple[int, ...]]:
    """All targets that the rule allows, found by length; a prefix that nothing may follow fails."""
    found: list[tuple[int, ...]] = []
    targets: list[tuple[int, ...]] = [()]
    while targets:
        scores_RV = torch.zeros(len(targets), size)
        scores_RV[:, END] = -1  # not the best: rows do not come to their ends early
        tokens_RT = torch.tensor([[1, *target] for target in targets])
        Never.of((), CPU).forbid(scores_RV, tokens_RT)
        rule.forbid(scores_RV, tokens_RT)
        allowed_RV = scores_RV.isfinite()
        stuck = [target for target, allowed in zip(targets, allowed_RV.any(1).tolist(), strict=True) if not allowed]
        assert not stuck, f"{stuck[0]} cannot be completed"
        pairs = allowed_RV.nonzero().tolist()
        found += [targets[row] for row, token in pairs if token == END]
        going = [(row, token) for row, token in pairs if token != END]
        parents_BK, last_BK = (torch.tensor([[pair[part] for pair in going]]) for part in range(2))
        targets = [(*targets[row], token) for row, token in going]
        if targets:
            rule = rule.follow(parents_BK, last_BK)
    return found


RULES = [
    (("ab",), (), 5),
    (("a", "b"), (), 5),
    (("ab a",), (), 5),
    ((), ("ab",), 4),
    ((), ("ab", "a", "b a"), 4),
    ((), (".", "a"), 4),
    (("a",), ("ab", "b a"), 4),
    (("a", "ab"), ("a ab",), 5),
]


@pytest.mark.parametrize("kind", SMALLEST)
@pytest.mark.parametrize(("required", "forbidden", "limit"), RULES)
def test_every_allowed_prefix_can_be_completed_to_a_text_with_all_words_and_no_forbidden_one(
    kind: str, required: tuple[str, ...], forbidden: tuple[str, ...], limit: int
) -> None:
    planner = smallest(kind)
    tokenizer = tokenizer_of(planner)
    automaton = planner.plan(required, forbidden)
    limit = max(limit, automaton.left)
    found = allowed_targets(Words.of([automaton], [limit], CPU), tokenizer.size)
    assert found
    assert len(found) == len(set(found))

    def is_sound(tokens: tuple[int, ...]) -> bool:
        text = tokenizer.decode(tokens)
        return all(occurs(text, word) for word in required) and not any(occurs(text, word) for word in forbidden)

    assert all(map(is_sound, found))
    assert all(map(automaton.accepts, found))
    # nothing is forbidden needlessly: all sound texts that are short enough to leave room are found
    pieces = range(tokenizer.markers, tokenizer.size)
    short = limit - automaton.left
    targets = [tokens for size in range(short + 1) for tokens in product(pieces, repeat=size)]
    expected = set(filter(is_sound, targets))
    assert expected <= set(found)
    assert expected == set(filter(automaton.accepts, targets))
    assert expected or required


def parts_of_characters(planner: WordPlanner) -> list[int]:
    return [token for token, text in enumerate(planner.spelling.texts) if "\ufffd" in text.decode(errors="replace")]


@pytest.mark.parametrize(
    ("kind", "beam", "pieces"),
    [
        *(("beam", 4, pieces) for pieces in USUAL),
        ("greedy", 1, "byte_bpe"),
        ("sampling", 1, "char"),
        ("beam", 2, "bpe"),
    ],
)
def test_searches_find_all_words_and_no_forbidden_ones(kind: str, beam: int, pieces: str) -> None:
    planner = usual(pieces)
    tokenizer = tokenizer_of(planner)
    rules: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (("cat", "dog"), ()),
        ((), ("the", "a", "dog")),
        (("mat", "cats", "catalog", "hot dog"), ("cat", "the dog")),
        ((), ()),
        (("Höchste",), ("the",)),
    ]
    automata = [planner.plan(*rule) for rule in rules]
    limits = [automata[0].left + 8, 9, automata[2].left, 9, automata[4].left + 2]  # some leave room for the words alone
    never = Never.of(parts_of_characters(planner), CPU)  # noise would join them to what is not UTF-8
    began = search_of(kind, beam, limits, (never, Words.of(automata, limits, CPU)))
    found = decode(cast(Scorer, Noise(vocabulary=tokenizer.size)), Packed.of([[5]] * len(rules)), began)
    for (required, forbidden), limit, nbest in zip(rules, limits, found, strict=True):
        assert nbest
        for hypothesis in nbest:
            text = tokenizer.decode(hypothesis.tokens)
            assert len(hypothesis.tokens) + hypothesis.complete <= limit
            assert hypothesis.complete or not (required or forbidden)
            assert all(occurs(text, word) for word in required), text
            assert not any(occurs(text, word) for word in forbidden), text


def test_a_prefix_counts_and_what_must_follow_has_room_after_it() -> None:
    planner = usual("char")
    tokenizer = tokenizer_of(planner)
    prefix = tokenizer.encode("the cat s")
    automaton = planner.plan(["cat", "mat"], ["dog"])
    query = Query([END], len(prefix) + automaton.left_after(prefix), prefix)
    assert automaton.left_after(prefix) == len(" mat") + 1
    made = make_constraints([words({0: automaton})], [query], CPU)
    began = search_of("beam", 3, [query.limit], (Never.of((), CPU), *made))
    (nbest,) = decode(cast(Scorer, Noise(vocabulary=tokenizer.size)), Packed.of([[5]]), began)
    assert all(tokenizer.decode(found.tokens)[9:].endswith("mat") for found in nbest)


def test_rows_that_come_to_their_end_get_the_missing_words_at_once() -> None:
    planner = usual("word")
    tokenizer = tokenizer_of(planner)
    cat, dog = tokenizer.encode("cat dog")
    rule = Words.of([planner.plan(["cat", "dog"], [])], [50], CPU)
    for _ in range(2):
        scores = torch.zeros(1, tokenizer.size)
        scores[0, END], scores[0, dog] = 2, 1
        Never.of((), CPU).forbid(scores, torch.tensor([[1]]))
        rule.forbid(scores, torch.tensor([[1]]))
        following = scores[0].isfinite().nonzero().flatten().tolist()
        expected = [cat] if rule.met_BKC.any() or rule.used else sorted([cat, dog])
        assert following == expected
        rule = rule.follow(None, torch.tensor([[dog if not rule.used else cat]]))
    scores = torch.zeros(1, tokenizer.size)
    rule.forbid(scores, torch.tensor([[1, dog, cat]]))
    assert scores[0, END] == 0
    assert scores[0].isfinite().sum() > 2  # the row is free again


class LastToken(Noise):
    """A translator whose scores depend on the last token alone."""

    def step(self, tokens_R: Tensor, state: Noise) -> tuple[Tensor, Noise]:
        table_VV = torch.randn(self.vocabulary, self.vocabulary, generator=torch.Generator().manual_seed(5))
        return table_VV[tokens_R], state


@pytest.mark.parametrize(("kind", "beam"), [("greedy", 1), ("beam", 4), ("sampling", 1)])
def test_sentences_without_words_are_searched_as_if_no_other_sentence_had_any(kind: str, beam: int) -> None:
    planner = usual("wordpiece")
    free, bound = planner.plan([], []), planner.plan(["catalog"], ["the"])
    limits = [9, 20, 7, 15]

    def search(*rules: Constraint) -> list[list[Hypothesis]]:
        began = search_of(kind, beam, limits, (Never.of((), CPU), *rules))
        scorer = LastToken(vocabulary=tokenizer_of(planner).size)
        return decode(cast(Scorer, scorer), Packed.of([[5]] * len(limits)), began)

    plain, mixed = search(), search(Words.of([free, bound, free, bound], limits, CPU))
    assert [mixed[0], mixed[2]] == [plain[0], plain[2]]
    assert mixed[1] != plain[1]
