"""The decoding loop against a translator that follows a script: the search asks for nothing but the protocol."""

from dataclasses import dataclass, field, replace
from typing import cast

import pytest
import torch
from torch import Tensor

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.constraints.prefix import make_constraints
from heedful.decode.frontiers.beam import Beam
from heedful.decode.frontiers.independent import IndependentRows
from heedful.decode.frontiers.rows import Frontier
from heedful.decode.hypothesis import Wu
from heedful.decode.scorer import Scorer
from heedful.decode.settings import SearchSettings
from heedful.decode.waves import Wave, decode

CPU = torch.device("cpu")
WORDS = 12


@dataclass(frozen=True)
class ScriptState:
    """The sentences that are still there, and how many tokens were decoded."""

    sentences: Tensor
    beams: int
    position: int = 0
    attention_RL: None = None

    def reorder(self, parents_BK: Tensor) -> "ScriptState":
        assert parents_BK.shape == (len(self.sentences), self.beams)
        return self

    def narrow(self, sentences: Tensor) -> "ScriptState":
        assert len(sentences), "nobody is left: there is nothing to narrow to"
        return replace(self, sentences=self.sentences[sentences])


@dataclass
class Script:
    """Says the words of a sentence's script one by one, whatever row asks, and then `</s>`."""

    scripts: list[list[int]]
    asked: list[tuple[list[int], int]] = field(default_factory=list)  # sentences and rows of every step

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> ScriptState:
        assert not aligned, "nobody asked for it"
        return ScriptState(torch.arange(sources.layout.sentences), beams)

    def step(self, tokens_R: Tensor, state: ScriptState) -> tuple[Tensor, ScriptState]:
        sentences = state.sentences.tolist()
        self.asked.append((sentences, len(tokens_R)))
        assert state.position or tokens_R.eq(BEGIN).all()
        logits_RV = torch.zeros(len(tokens_R), WORDS)
        for place, sentence in enumerate(sentences):
            said = [*self.scripts[sentence], END]
            rows = slice(place * state.beams, (place + 1) * state.beams)
            logits_RV[rows, said[min(state.position, len(said) - 1)]] = 20.0
        return logits_RV, replace(state, position=state.position + 1)


def sources(sentences: int) -> Packed:
    return Packed.of([[5]] * sentences)


def beam_of(limits: list[int], settings: SearchSettings) -> Beam:
    return Beam.begin(limits, settings, make_constraints(settings.rules, [], CPU), CPU)


def frontier(kind: str, limits: list[int]) -> Frontier:
    settings = SearchSettings(beam=1)
    greedy = IndependentRows.begin(limits, settings, make_constraints(settings.rules, [], CPU), CPU)
    return greedy if kind == "greedy" else beam_of(limits, SearchSettings(beam=3))


@pytest.mark.parametrize(("kind", "rows"), [("greedy", 1), ("beam", 3)])
def test_finished_sentences_leave_at_once_and_results_keep_their_order(kind: str, rows: int) -> None:
    script = Script([[5, 6, 7], [], [8], [9, 9, 9]])
    found = decode(cast(Scorer, script), sources(4), frontier(kind, [10] * 4))
    assert [nbest[0].tokens for nbest in found] == [(5, 6, 7), (), (8,), (9, 9, 9)]
    assert all(nbest[0].complete for nbest in found)
    there = [sentences for sentences, _ in script.asked]
    assert there == [[0, 1, 2, 3], [0, 2, 3], [0, 3], [0, 3]]
    assert all(asked == rows * len(sentences) for sentences, asked in script.asked)


@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_each_sentence_is_cut_at_its_own_limit_and_says_so(kind: str) -> None:
    script = Script([[5] * 50, [6] * 50, [7]])
    found = decode(cast(Scorer, script), sources(3), frontier(kind, [4, 2, 2]))
    assert [(nbest[0].tokens, nbest[0].complete) for nbest in found] == [
        ((5, 5, 5, 5), False),
        ((6, 6), False),
        ((7,), True),
    ]
    assert len(script.asked) == 4


def test_what_ended_ranks_before_what_was_cut() -> None:
    """Being cut spares a hypothesis the price of its end: that must not make it the best one."""
    script = Script([[5] * 50])
    found = decode(cast(Scorer, script), sources(1), beam_of([3], SearchSettings(beam=9, nbest=9, penalty=Wu(0.0))))
    ended = [best.complete for best in found[0]]
    assert ended == sorted(ended, reverse=True)
    assert set(ended) == {True, False}
    best_cut = next(best for best in found[0] if not best.complete)
    assert best_cut.score > found[0][0].score


def test_the_search_goes_on_while_a_longer_hypothesis_can_still_win() -> None:
    """With a great penalty exponent the second, longer hypothesis wins although the first one ended before."""

    @dataclass
    class Fork(Script):
        def step(self, tokens_R: Tensor, state: ScriptState) -> tuple[Tensor, ScriptState]:
            self.asked.append(([0], len(tokens_R)))
            logits_RV = torch.full((len(tokens_R), WORDS), -50.0)
            if state.position == 0:
                logits_RV[:, END], logits_RV[:, 5] = 0.5, 0.0
            else:
                logits_RV[:, END if state.position == 6 else 5] = 0.0
            return logits_RV, replace(state, position=state.position + 1)

    for alpha, tokens in ((0.0, ()), (2.0, (5,) * 6)):
        fork = Fork([[]])
        found = decode(cast(Scorer, fork), sources(1), beam_of([9], SearchSettings(beam=3, penalty=Wu(alpha))))
        assert found[0][0].tokens == tokens
        assert len(fork.asked) == (1 if alpha == 0 else 7)


@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_every_step_of_a_wave_shows_the_best_tokens_so_far_and_who_is_done(kind: str) -> None:
    wave = Wave(cast(Scorer, Script([[5, 6, 7], [], [8]])), sources(3), frontier(kind, [10] * 3))
    seen = []
    while wave.going:
        done = [(index, best.tokens) for index, (best, *_) in wave.step()]
        seen.append((done, {index: wave.draft(index) for index in wave.going}))
    assert seen == [
        ([(1, ())], {0: [5], 2: [8]}),
        ([(2, (8,))], {0: [5, 6]}),
        ([], {0: [5, 6, 7]}),
        ([(0, (5, 6, 7))], {}),
    ]


@pytest.mark.parametrize(("kind", "rows"), [("greedy", 1), ("beam", 3)])
def test_sentences_that_are_dropped_leave_a_wave_and_the_others_continue(kind: str, rows: int) -> None:
    script = Script([[5, 6], [6, 7, 8], [9, 9, 9]])
    wave = Wave(cast(Scorer, script), sources(3), frontier(kind, [10] * 3))
    assert not wave.step()
    wave.drop({0, 2, 7})
    assert wave.going == [1]
    found = [result for _ in range(3) for result in wave.step()]
    assert [(index, nbest[0].tokens) for index, nbest in found] == [(1, (6, 7, 8))]
    assert script.asked == [([0, 1, 2], 3 * rows), *[([1], rows)] * 3]
    wave.drop({1})  # it is done already
    other = Wave(cast(Scorer, Script([[5, 6]])), sources(1), frontier(kind, [10]))
    other.drop({0})
    assert not other.going
