"""Laws of searches with shortlists, for every family, and for int8 decoders that kernels run.

The reference is an ordinary search in which all tokens that are not on a sentence's list are forbidden, and log P is
normalised again.
"""

import math
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.contract.families import FAMILIES
from tests.shared.covering import in_turn, one_in
from torch import Tensor

from heedful.base.packed import Packed
from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import UNKNOWN
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query, text_queries
from heedful.decode.scorer import Ensemble, Scorer, SingleModel
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.protocols import State
from heedful.native.decoder import NativeDecoder
from heedful.native.encoder import use_native_blocks
from heedful.native.int8 import Int8Output, to_int8
from heedful.native.library import library
from heedful.nn.layers.embedding import Output

WORDS = 24
WIDE = 150  # words of models whose lists have several lengths after rounding up
SOURCES = [[5, 9, 7], [4], [8, 8, 10, 11, 6, 6], [9, 7, 5]]
ModelOf = Callable[..., EncoderDecoder]
SETTINGS = {
    "beam": SearchSettings(beam=3, nbest=2, max_extra=6),
    "every option": SearchSettings(
        beam=3, nbest=2, max_extra=6, coverage=0.5, no_repeat=2, min_length=2, aligned=True, never=(7, 11)
    ),
    "greedy": SearchSettings(beam=1, max_extra=6, coverage=0.5, no_repeat=1, min_length=2, aligned=True),
    "sampling": SearchSettings(
        beam=1, max_extra=6, sampling=Sampling(0.7, top_k=9, top_p=0.9, samples=3), aligned=True, no_repeat=2
    ),
}


def queries_of(
    shortlists: Sequence[Sequence[int]] | None, prefixes: Sequence[Sequence[int]] | None = None
) -> list[Query]:
    queries = text_queries(SOURCES, 6, prefixes)
    if shortlists is None:
        return queries
    lists = [
        np.union1d([*range(UNKNOWN + 1), *query.prefix], some) for query, some in zip(queries, shortlists, strict=True)
    ]
    return [replace(query, shortlist=some.astype(np.int64)) for query, some in zip(queries, lists, strict=True)]


def some_lists(words: int, seed: int = 3) -> list[list[int]]:
    """Lists of several lengths."""
    chance = random.Random(seed)
    return [chance.sample(range(words), round(words * share)) for share in (0.9, 0.3, 0.6, 0.5)]


def found_by(
    scorer: EncoderDecoder | Scorer, queries: Sequence[Query], settings: SearchSettings
) -> list[list[Hypothesis]]:
    return search(scorer, queries, settings, batch_tokens=4096)


def same(some: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> bool:
    for one, other in zip(some, others, strict=True):
        assert (one.tokens, one.complete, one.alignment) == (other.tokens, other.complete, other.alignment)
        assert one.score == pytest.approx(other.score)
        assert one.log_probability == pytest.approx(other.log_probability)
    return True


def list_of(query: Query) -> list[int]:
    assert query.shortlist is not None
    return [*query.shortlist.tolist()]


# --- what a list is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "kind"), in_turn(list(FAMILIES), list(SETTINGS)))
def test_with_lists_of_the_whole_vocabulary_a_search_is_the_ordinary_one(
    model_of: ModelOf, family: str, kind: str
) -> None:
    prefixes = [[4, 4], [], [10], [9, 8, 7]]
    ordinary = found_by(model_of(family), queries_of(None, prefixes), SETTINGS[kind])
    listed = found_by(model_of(family), queries_of([range(WORDS)] * 4, prefixes), SETTINGS[kind])
    assert all(same(*each) for each in zip(listed, ordinary, strict=True))


@dataclass(frozen=True)
class Masked(SingleModel):
    """One sentence's list as a mask over the vocabulary: the reference."""

    kept: tuple[int, ...]

    def step(self, tokens_R: Tensor, state: State) -> tuple[Tensor, State]:
        logits_RV, after = super().step(tokens_R, state)
        kept = torch.tensor(self.kept)
        return torch.full_like(logits_RV, -math.inf).index_copy(1, kept, logits_RV.index_select(1, kept)), after


@pytest.mark.parametrize(("family", "kind"), in_turn(list(FAMILIES), list(SETTINGS)))
def test_a_translation_has_tokens_of_its_own_list_only(model_of: ModelOf, family: str, kind: str) -> None:
    model, settings = model_of(family), SETTINGS[kind]
    queries = queries_of(some_lists(WORDS), [[], [4], [], [7, 7]])
    for query, found in zip(queries, found_by(model, queries, settings), strict=True):
        masked = Masked(model, tuple(list_of(query)))
        assert same(found, found_by(masked, [replace(query, shortlist=None)], settings)[0])
        assert all(set(hypothesis.tokens) <= {*list_of(query)} for hypothesis in found)


def test_further_constraints_search_the_whole_vocabulary(model_of: ModelOf) -> None:
    model = model_of("post-sinusoidal")
    settings = replace(SETTINGS["beam"], constraints=(lambda queries, device: FirstIs(WORDS - 1),))
    for (best, *_), *_ in [found_by(model, [query], settings) for query in queries_of([[4]] * 4)]:
        assert best.tokens[0] == WORDS - 1


@dataclass(frozen=True)
class FirstIs:
    """Every target begins with a token."""

    token: int

    def forbid(self, scores_RV: Tensor, tokens_RT: Tensor) -> None:
        if tokens_RT.shape[1] == 1:
            scores_RV[:, torch.arange(scores_RV.shape[1]) != self.token] = -math.inf

    def follow(self, parents_BK: Tensor | None, last_BK: Tensor) -> "FirstIs":
        return self

    def select(self, sentences: Tensor) -> "FirstIs":
        return self


# --- neighbours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "kind"), in_turn(list(FAMILIES), list(SETTINGS)))
def test_neighbours_change_nothing(model_of: ModelOf, family: str, kind: str) -> None:
    model = Ensemble([model_of(family, words=WIDE), model_of("post-sinusoidal", seed=5, words=WIDE)])
    queries = queries_of(some_lists(WIDE), [[4, 4], [], [100], [90, 8, 99]])
    together = found_by(model, queries, SETTINGS[kind])
    assert all(
        same(found_by(model, [query], SETTINGS[kind])[0], found) for query, found in zip(queries, together, strict=True)
    )


@pytest.mark.parametrize("kind", SETTINGS)
def test_neighbours_change_no_bit_of_what_kernels_find(model_of: ModelOf, kind: str) -> None:
    scorer = SingleModel(in_int8(model_of("post-sinusoidal", words=WIDE)))
    if library() is None:
        pytest.skip("there are no kernels")
    assert isinstance(scorer.decoder, NativeDecoder)
    settings = replace(SETTINGS[kind], aligned=False, coverage=0.0)
    queries = [query for seed in range(6) for query in queries_of(some_lists(WIDE, seed), [[4, 4], [], [100], [90, 8]])]
    queries = [replace(query, number=number) for number, query in enumerate(queries)]
    together = found_by(scorer, queries, settings)
    assert together == [found_by(scorer, [query], settings)[0] for query in queries]


# --- output layers ----------------------------------------------------------------------------------------------------


def in_int8(model: EncoderDecoder) -> EncoderDecoder:
    made = deepcopy(model).float()
    set_precision(made, torch.float32)
    to_int8(made)
    use_native_blocks(made)
    return made


@pytest.mark.parametrize("family", one_in(4, FAMILIES))
def test_int8_decoders_search_lists_as_the_reference_does(model_of: ModelOf, family: str) -> None:
    model = in_int8(model_of(family, words=WIDE))
    for query in queries_of(some_lists(WIDE)):  # one by one: what kernels do not run may round otherwise in a batch
        (found,) = found_by(model, [query], SETTINGS["beam"])
        masked = Masked(model, tuple(list_of(query)))
        expected = found_by(masked, [replace(query, shortlist=None)], SETTINGS["beam"])[0]
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("rows", "width"), [(1, 64), (7, 24), (70, 100)])
def test_an_output_layer_of_some_words_gives_their_logits(rows: int, width: int, bias: bool) -> None:
    torch.manual_seed(1)
    whole = Output(
        torch.nn.Parameter(torch.randn(WIDE, width)), torch.nn.Parameter(torch.randn(WIDE)) if bias else None
    )
    x, words = torch.randn(rows, width), torch.tensor(sorted(random.Random(2).sample(range(WIDE), 77)))
    torch.testing.assert_close(whole.select(words)(x), whole(x)[:, words])
    int8 = Int8Output(whole)
    assert torch.equal(int8.select(words)(x), int8(x)[:, words])
    assert torch.equal(int8.map.select(words)._by_equation(x), int8.map._by_equation(x)[:, words])


class Doubled(torch.nn.Module):
    """A decoder of the caller's that does not use its output layer as ours do."""

    def __init__(self, decoder: Any) -> None:
        super().__init__()
        self.inner: Any = decoder
        self.output, self.longest = decoder.output, None

    def states(self, tokens: Packed, memory: Packed | None) -> Tensor:
        states: Tensor = self.inner.states(tokens, memory)
        return states

    def start(
        self, memory: Packed | None, beams: int = 1, aligned: bool = False, prompt: Packed | None = None
    ) -> State:
        state: State = self.inner.start(memory, beams, aligned, prompt)
        return state

    def step(self, tokens_R: Tensor, state: State) -> tuple[Tensor, State]:
        logits_RV, after = self.inner.step(tokens_R, state)
        return 2 * logits_RV, after


def test_a_decoder_that_scores_all_words_anyway_may_have_lists(model_of: ModelOf) -> None:
    model = model_of("bahdanau-gru")
    doubled = EncoderDecoder(cast(torch.nn.Module, model.encoder), Doubled(model.decoder))
    queries = queries_of(some_lists(WORDS))
    for query, found in zip(queries, found_by(doubled, queries, SETTINGS["beam"]), strict=True):
        masked = Masked(doubled, tuple(list_of(query)))
        assert same(found, found_by(masked, [replace(query, shortlist=None)], SETTINGS["beam"])[0])
