"""What may follow, against rules written with lists; and hypotheses that nothing may follow."""

import math
from dataclasses import dataclass
from typing import cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.decode.constraints.random_scores import SAMPLES, Noise, frontier
from torch import Tensor

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.constraints.prefix import Prefix, make_constraints
from heedful.decode.constraints.protocol import Constraint
from heedful.decode.constraints.tokens import NEVER, MinLength, Never, NoRepeat, PenaliseRepetition
from heedful.decode.frontiers.beam import Beam
from heedful.decode.query import Query
from heedful.decode.scorer import Scorer
from heedful.decode.settings import SearchSettings
from heedful.decode.waves import decode

CPU = torch.device("cpu")
WORDS = 8
PIECES = st.integers(4, WORDS - 1)


def forbidden(constraint: Constraint, rows: list[list[int]]) -> list[set[int]]:
    """What may not follow each row; what may keeps its score."""
    scores_RV = torch.randn(len(rows), WORDS)
    before_RV = scores_RV.clone()
    constraint.forbid(scores_RV, torch.tensor([[BEGIN, *row] for row in rows]))
    gone_RV = scores_RV == -math.inf
    assert torch.equal(scores_RV[~gone_RV], before_RV[~gone_RV])
    return [set(gone_V.nonzero().flatten().tolist()) for gone_V in gone_RV]


@given(
    rows=st.integers(0, 9).flatmap(
        lambda length: st.lists(st.lists(PIECES, min_size=length, max_size=length), min_size=1, max_size=4)
    ),
    size=st.integers(1, 4),
)
def test_no_n_gram_stands_twice(rows: list[list[int]], size: int) -> None:
    def repeats(tokens: list[int]) -> bool:
        grams = [tokens[place : place + size] for place in range(len(tokens) - size + 1)]
        return grams[-1] in grams[:-1] if grams else False

    expected = [{token for token in range(WORDS) if repeats([BEGIN, *row, token])} for row in rows]
    assert forbidden(NoRepeat(size), rows) == expected
    assert all(END not in gone for gone in expected)


def test_a_sentence_does_not_end_before_its_least_length() -> None:
    assert forbidden(MinLength(2), [[]]) == [{END}]
    assert forbidden(MinLength(2), [[4], [5]]) == [{END}, {END}]
    assert forbidden(MinLength(2), [[4, 5]]) == [set()]


def test_some_tokens_never_follow() -> None:
    assert forbidden(Never.of((5, 7, 5), CPU), [[4], [6]]) == [{*NEVER, 5, 7}] * 2


def test_targets_begin_with_their_prefixes_and_go_on_freely() -> None:
    prefix = Prefix.of([[4, 5], [], [6]], CPU)
    everything = set(range(WORDS))
    assert forbidden(prefix, [[]] * 6) == [everything - {4}] * 2 + [set()] * 2 + [everything - {6}] * 2
    assert forbidden(prefix, [[4], [4], [7]]) == [everything - {5}, set(), set()]
    assert forbidden(prefix, [[4, 5], [4, 4], [7, 7]]) == [set()] * 3
    some = prefix.select(torch.tensor([2, 0]))
    assert forbidden(some, [[], []]) == [everything - {6}, everything - {4}]


def test_other_constraints_hold_behind_a_prefix_not_inside_it() -> None:
    others = (Never.of((7,), CPU), NoRepeat(1), MinLength(3))
    prefix = Prefix.of([[3, 7, 7], [4]], CPU, others)
    everything, never = set(range(WORDS)), {*NEVER, 7}
    assert forbidden(prefix, [[3, 7], [4, 5]]) == [everything - {7}, never | {4, 5, END}]
    assert forbidden(prefix, [[3, 7, 7], [4, 5, 6]]) == [never, never | {4, 5, 6}]
    assert forbidden(prefix.select(torch.tensor([1])), [[4, 5]]) == [never | {4, 5, END}]


def test_constraints_of_settings_are_those_that_are_asked_for() -> None:
    def kinds(settings: SearchSettings, *prefixes: list[int]) -> list[type]:
        return [
            type(constraint)
            for constraint in make_constraints(settings.rules, [Query([5], 9, prefix) for prefix in prefixes], CPU)
        ]

    assert kinds(SearchSettings()) == [Never]
    assert kinds(SearchSettings(no_repeat=2, min_length=1), [], []) == [Never, NoRepeat, MinLength]
    assert kinds(SearchSettings(no_repeat=2), [], [4]) == [Prefix]


# --- a constraint with a memory ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """Carries the sum of each row's tokens, and forbids those that would make it a multiple of three."""

    sums_BK: Tensor

    def forbid(self, scores_RV: Tensor, tokens_RT: Tensor) -> None:
        assert torch.equal(self.sums_BK.flatten(), tokens_RT[:, 1:].sum(1))
        wrong_RV = (self.sums_BK.view(-1, 1) + torch.arange(scores_RV.shape[1])) % 3 == 0
        scores_RV.masked_fill_(wrong_RV, -math.inf)

    def follow(self, parents_BK: Tensor | None, last_BK: Tensor) -> "Sums":
        return Sums((self.sums_BK if parents_BK is None else self.sums_BK.gather(1, parents_BK)) + last_BK)

    def select(self, sentences: Tensor) -> "Sums":
        return Sums(self.sums_BK[sentences])


KINDS = [("beam", 3), ("greedy", 1), ("sampling", 1)]


@pytest.mark.parametrize(("kind", "beam"), KINDS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_constraint_carries_what_it_knows_of_each_row(kind: str, beam: int, wrapped: bool) -> None:
    settings, sentences = SearchSettings(beam=beam, nbest=beam), 6
    sums = Sums(torch.zeros(sentences, SAMPLES if kind == "sampling" else beam, dtype=torch.int64))
    constraints: tuple[Constraint, ...] = (Never.of((), CPU), sums)
    if wrapped:
        constraints = (Prefix.of([[]] * 5 + [[4, 4]], CPU, constraints),)
    began = frontier(kind, settings, [5, 9, 7, 12, 3, 8], constraints)
    found = decode(cast(Scorer, Noise()), Packed.of([[5]] * sentences), began)
    assert all(found)
    for hypothesis in (best for nbest in found for best in nbest):
        tokens = [*hypothesis.tokens, END] if hypothesis.complete else list(hypothesis.tokens)
        free = tokens[2:] if wrapped and tokens[:2] == [4, 4] else tokens
        assert all(sum(tokens[: len(tokens) - left]) % 3 for left in range(len(free)))


# --- nothing may follow -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "beam"), KINDS)
def test_a_sentence_that_nothing_may_follow_is_finished_as_it_stands(kind: str, beam: int) -> None:
    """Four pieces, none twice, and five are wanted: after four there is nothing left."""
    settings = SearchSettings(beam=beam, nbest=beam, no_repeat=1, min_length=5)
    began = frontier(kind, settings, [20, 20, 3], make_constraints(settings.rules, [], CPU))
    found = decode(cast(Scorer, Noise()), Packed.of([[5]] * 3), began)
    assert all(found)
    for hypothesis in (*found[0], *found[1]):
        assert sorted(hypothesis.tokens) == [4, 5, 6, 7]
        assert not hypothesis.complete
        assert math.isfinite(hypothesis.score)
        assert hypothesis.score == pytest.approx(hypothesis.log_probability / settings.penalty(4))
    assert [len(hypothesis.tokens) for hypothesis in found[2]] == [3] * len(found[2])


@pytest.mark.parametrize(("kind", "beam"), KINDS)
def test_a_sentence_that_nothing_may_begin_is_empty(kind: str, beam: int) -> None:
    settings = SearchSettings(beam=beam, min_length=1, never=(4, 5, 6, 7))
    began = frontier(kind, settings, [20], make_constraints(settings.rules, [], CPU))
    found = decode(cast(Scorer, Noise()), Packed.of([[5]]), began)
    assert {(best.tokens, best.log_probability, best.complete) for best in found[0]} == {((), 0.0, False)}


def test_a_row_that_nothing_may_follow_is_dropped_while_others_go_on() -> None:
    """Nothing may follow 5, so that the likelier beginnings lead nowhere; after three tokens there is but the end."""

    class Forked(Noise):
        def step(self, tokens_R: Tensor, state: Noise) -> tuple[Tensor, Noise]:
            logits_RV = torch.zeros(len(tokens_R), WORDS, dtype=torch.float64)
            logits_RV[:, 5], logits_RV[:, 4] = 5.0, 4.0
            return logits_RV, state

    class DeadEnd:
        def forbid(self, scores_RV: Tensor, tokens_RT: Tensor) -> None:
            scores_RV[tokens_RT[:, -1] == 5] = -math.inf
            scores_RV[:, [4, 5, 6, 7] if tokens_RT.shape[1] > 3 else [END, 6, 7]] = -math.inf

        def follow(self, parents_BK: Tensor | None, last_BK: Tensor) -> "DeadEnd":
            return self

        def select(self, sentences: Tensor) -> "DeadEnd":
            return self

    constraints = (Never.of((), CPU), DeadEnd())
    began = Beam.begin([6], SearchSettings(beam=2, nbest=2), constraints, CPU)
    found = decode(cast(Scorer, Forked()), Packed.of([[5]]), began)
    assert [(best.tokens, best.complete) for best in found[0]] == [((4, 4, 4), True)]


def test_a_beam_that_can_only_end_ends() -> None:
    settings = SearchSettings(beam=3, nbest=3, never=(4, 5, 6, 7))
    found = decode(
        cast(Scorer, Noise()),
        Packed.of([[5]]),
        Beam.begin([9], settings, make_constraints(settings.rules, [], CPU), CPU),
    )
    assert [(best.tokens, best.complete) for best in found[0]] == [((), True)]


# --- repetition -------------------------------------------------------------------------------------------------------


def test_a_repetition_penalty_lowers_the_scores_of_what_occurred_in_source_and_row() -> None:
    scores = torch.tensor([[1.0, -1.0, 2.0, -2.0, 0.0, 4.0]] * 4)
    rule = PenaliseRepetition(2.0)([Query([0, 3], 5), Query([1], 5)], CPU)  # two rows per sentence
    rule.forbid(scores, torch.tensor([[3, 5], [3, 3], [1, 2], [1, 1]]))
    assert scores.tolist() == [
        [0.5, -1.0, 2.0, -4.0, 0.0, 2.0],
        [0.5, -1.0, 2.0, -4.0, 0.0, 4.0],
        [1.0, -2.0, 1.0, -2.0, 0.0, 4.0],
        [1.0, -2.0, 2.0, -2.0, 0.0, 4.0],
    ]


def test_a_repetition_penalty_follows_its_sentences_and_keeps_what_is_forbidden() -> None:
    made = PenaliseRepetition(3.0)([Query([4], 5), Query([1, 2], 5)], CPU)
    kept = made.follow(None, torch.tensor([[1], [2]])).select(torch.tensor([1]))
    scores = torch.tensor([[3.0, 3.0, -math.inf, 3.0, 3.0]])
    kept.forbid(scores, torch.tensor([[2]]))
    assert scores.tolist() == [[3.0, 1.0, -math.inf, 3.0, 3.0]]
