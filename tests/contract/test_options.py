"""Every option of a search, and their combinations, against a search with lists over whole forward passes."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.contract.families import FAMILIES
from tests.shared.covering import in_turn
from tests.shared.examples import examples
from tests.shared.searching import search_texts
from torch import Tensor

from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import END
from heedful.decode.constraints.tokens import NEVER
from heedful.decode.frontiers.token_scores import uniforms
from heedful.decode.hypothesis import Hypothesis, LengthPenalty, Shifted, Wu
from heedful.decode.query import DrawStart
from heedful.decode.scorer import Ensemble
from heedful.decode.settings import SearchSettings
from heedful.models.networks import EncoderDecoder

WORDS = 8  # four pieces beside the special ones: with no repeats allowed, hypotheses soon have nowhere to go
SOURCES = [[5, 6, 7], [4], [7, 7, 4, 5, 6]]
TINY = torch.finfo(torch.float64).tiny
KNOWN: dict[tuple[EncoderDecoder, tuple[int, ...], tuple[int, ...]], tuple[Tensor, Tensor]] = {}
Foresee = Callable[..., list[tuple[Tensor, Tensor]]]
ModelOf = Callable[..., EncoderDecoder]


# --- the reference ----------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """One hypothesis of the reference."""

    places: int  # of the source, `</s>` among them
    tokens: list[int] = field(default_factory=list)  # also `</s>`, where it has ended
    total: float = 0.0
    weights: list[list[float]] = field(default_factory=list)  # over the source, a list a token

    def grown(self, token: int, log_p: float, weights: list[float]) -> "Row":
        return Row(self.places, [*self.tokens, token], self.total + log_p, [*self.weights, weights])

    @property
    def ended(self) -> bool:
        return END in self.tokens

    def hypothesis(self, settings: SearchSettings) -> Hypothesis:
        score = self.total / settings.penalty(max(1, len(self.tokens)))
        if settings.coverage:
            sums = [sum(column) for column in zip(*self.weights, strict=True)] or [0.0] * self.places
            score += settings.coverage * sum(math.log(min(max(share, TINY), 1.0)) for share in sums)
        tokens = tuple(token for token in self.tokens if token != END)
        places = tuple(weights.index(max(weights)) for weights in self.weights[: len(tokens)])
        return Hypothesis(tokens, score, self.total, self.ended, places if settings.aligned else None)


@dataclass
class Reference:
    """Searches one sentence with lists, as the descriptions say."""

    foresee: Foresee
    models: list[EncoderDecoder]
    source: list[int]
    settings: SearchSettings
    prefix: list[int]

    @property
    def limit(self) -> int:
        return len(self.source) + self.settings.max_extra

    def begin(self) -> Row:
        return Row(len(self.source) + 1)

    def continuations(self, *rows: Row) -> list[Row]:
        """All that rows of one length may go on with."""
        said = [self.said(model, rows) for model in self.models]
        grown = []
        for place, row in enumerate(rows):
            p_V = torch.stack([each[place][0] for each in said]).mean(0).tolist()
            weights = torch.stack([each[place][1] for each in said]).mean(0).tolist()
            allowed = [token for token in range(WORDS) if self.allowed(row.tokens, token)]
            grown += [row.grown(token, math.log(p_V[token]), weights) for token in allowed]
        return grown

    def said(self, model: EncoderDecoder, rows: Sequence[Row]) -> list[tuple[Tensor, Tensor]]:
        """The probabilities and the attention behind the last token of each row; asked once and then known."""
        keys = [(model, tuple(self.source), tuple(row.tokens)) for row in rows]
        missing = [key for key in keys if key not in KNOWN]
        if missing:
            seen = self.foresee(model, [self.source] * len(missing), [tokens for _, _, tokens in missing])
            for key, (logits_TV, weights_TL) in zip(missing, seen, strict=True):
                KNOWN[key] = logits_TV[-1].softmax(0), weights_TL[-1]
        return [KNOWN[key] for key in keys]

    def allowed(self, tokens: list[int], token: int) -> bool:
        if len(tokens) < len(self.prefix):
            return token == self.prefix[len(tokens)]
        if token in NEVER or token in self.settings.never:
            return False
        if token == END:
            return len(tokens) >= self.settings.min_length
        size = self.settings.no_repeat
        grams = list(zip(*([*tokens, token][first:] for first in range(size)), strict=False)) if size else []
        return not grams or grams[-1] not in grams[:-1]

    def beam(self) -> list[Hypothesis]:
        live, finished = [self.begin()], list[Hypothesis]()
        settings, beam, nbest = self.settings, self.settings.beam, self.settings.nbest
        for length in range(1, self.limit + 1):
            grown = sorted(self.continuations(*live), key=lambda row: -row.total)
            if not grown:
                break
            finished += [row.hypothesis(settings) for row in grown[:beam] if row.ended]
            finished.sort(key=lambda hypothesis: -hypothesis.score)
            live = [row for row in grown if not row.ended][:beam]
            if not live:
                break
            if len(finished) >= nbest:
                worst, best = finished[nbest - 1].score, live[0].total
                greatest = max(map(settings.penalty, range(1, self.limit + 1)))
                if worst >= best / greatest or (len(finished) >= beam and worst >= best / settings.penalty(length)):
                    return finished[:nbest]
        cut = sorted((row.hypothesis(settings) for row in live), key=lambda hypothesis: -hypothesis.score)
        return [*finished, *cut][:nbest]

    def walk(self, choose: Callable[[list[Row], Row], Row]) -> Hypothesis:
        row = self.begin()
        while len(row.tokens) < self.limit and not row.ended:
            grown = self.continuations(row)
            if not grown:
                break
            row = choose(grown, row)
        return row.hypothesis(self.settings)

    def greedy(self) -> list[Hypothesis]:
        return [self.walk(lambda grown, before: max(grown, key=lambda row: row.total))]

    def samples(self, sampling: Sampling, number: int) -> list[Hypothesis]:
        drawn = uniforms(sampling, [DrawStart(number)], self.limit)[0]
        return [
            self.walk(lambda grown, before, u=u: draw(grown, before, sampling, u[len(before.tokens)]))  # type: ignore[misc]
            for u in drawn.tolist()
        ]


def draw(grown: list[Row], before: Row, sampling: Sampling, uniform: float) -> Row:
    """Invert the distribution function: temper, keep the best k, of these the fewest that have p; go by token ids."""
    shares = [math.exp((row.total - before.total) / sampling.temperature) for row in grown]
    ranked = sorted(shares, reverse=True)[: sampling.top_k or None]
    wanted = sampling.top_p * sum(ranked)
    reached = [place for place, mass in enumerate(accumulate(ranked)) if mass >= wanted * (1 - 1e-12)]
    least = ranked[reached[0]]
    kept = [(share, row) for share, row in zip(shares, grown, strict=True) if share >= least]
    passed = accumulate(share for share, _ in kept)
    aim = uniform * sum(share for share, _ in kept)
    return next(row for mass, (_, row) in zip(passed, kept, strict=True) if mass > aim)


def expected(
    foresee: Foresee,
    models: list[EncoderDecoder],
    settings: SearchSettings,
    prefixes: Sequence[list[int]] = ([], [], []),
    numbers: Sequence[int] = (0, 1, 2),
) -> Iterator[list[Hypothesis]]:
    for source, prefix, number in zip(SOURCES, prefixes, numbers, strict=True):
        reference = Reference(foresee, models, source, settings, prefix)
        if settings.sampling is not None:
            yield reference.samples(settings.sampling, number)
        else:
            yield reference.greedy() if settings.beam == 1 else reference.beam()


def same(found: list[list[Hypothesis]], wanted: Iterator[list[Hypothesis]]) -> bool:
    for mine, theirs in zip(found, wanted, strict=True):
        assert [(best.tokens, best.complete, best.alignment) for best in mine] == [
            (best.tokens, best.complete, best.alignment) for best in theirs
        ]
        assert [best.score for best in mine] == pytest.approx([best.score for best in theirs], abs=1e-9)
        assert [best.log_probability for best in mine] == pytest.approx(
            [best.log_probability for best in theirs], abs=1e-9
        )
    return True


# --- one option at a time ---------------------------------------------------------------------------------------------


ONE_BY_ONE = [
    SearchSettings(beam=1, max_extra=4),
    SearchSettings(beam=2, nbest=2, max_extra=5, penalty=Wu(0.0)),
    SearchSettings(beam=3, nbest=1, max_extra=6, penalty=Wu(0.6)),
    SearchSettings(beam=5, nbest=4, max_extra=3, penalty=Wu(1.0)),
    SearchSettings(beam=3, nbest=3, max_extra=4, penalty=Shifted(0.8, 2.0)),
    SearchSettings(beam=3, nbest=2, max_extra=4, coverage=0.5),
    SearchSettings(beam=2, nbest=2, max_extra=4, no_repeat=2),
    SearchSettings(beam=2, nbest=2, max_extra=6, min_length=4),
    SearchSettings(beam=2, nbest=2, max_extra=4, aligned=True),
    SearchSettings(beam=2, nbest=2, max_extra=4, never=(5, 7)),
    SearchSettings(beam=1, max_extra=4, sampling=Sampling(samples=5, seed=3)),
    SearchSettings(beam=1, max_extra=4, sampling=Sampling(temperature=2.0, top_k=3, top_p=0.8, samples=3)),
    SearchSettings(beam=1, max_extra=4, sampling=Sampling(samples=5), coverage=0.5, aligned=True),
]


@pytest.mark.parametrize("every", [19, pytest.param(1, marks=pytest.mark.wide)], ids=["some", "all"])  # of the families
@pytest.mark.parametrize("settings", ONE_BY_ONE, ids=str)
def test_batched_search_equals_a_naive_one(
    model_of: ModelOf, foresee: Foresee, families: list[str], settings: SearchSettings, every: int
) -> None:
    kinds = set()
    for seed in range(ONE_BY_ONE.index(settings) % every, len(families), every):
        model = model_of(families[seed], seed, WORDS)
        found = search_texts(model, SOURCES, settings, 4096)
        assert same(found, expected(foresee, [model], settings))
        kinds |= {hypothesis.complete for nbest in found for hypothesis in nbest}
    assert every > 1 or kinds == {True, False} or settings.coverage or settings.never  # both ways to end were tried


# --- all together -----------------------------------------------------------------------------------------------------

PIECES = st.integers(4, WORDS - 1)
PENALTIES: st.SearchStrategy[LengthPenalty] = st.one_of(
    st.builds(Wu, st.sampled_from([0.0, 0.6, 2.0])),
    st.builds(Shifted, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 5.0])),
)


@st.composite
def searches(choose: st.DrawFn) -> tuple[SearchSettings, list[list[int]]]:
    """Settings with any of the options, and a prefix for each source."""
    min_length = choose(st.sampled_from([0, 0, 2, 5]))
    options: dict[str, Any] = {
        "max_extra": min_length + choose(st.integers(1, 4)),
        "penalty": choose(PENALTIES),
        "coverage": choose(st.sampled_from([0.0, 0.3, 2.0])),
        "no_repeat": choose(st.integers(0, 3)),
        "min_length": min_length,
        "aligned": choose(st.booleans()),
        "never": tuple(choose(st.sets(PIECES, max_size=4))),
    }
    if choose(st.integers(0, 3)) == 0:
        sampling = st.builds(
            Sampling,
            temperature=st.sampled_from([0.3, 1.0, 3.0]),
            top_k=st.integers(0, 5),
            top_p=st.sampled_from([0.5, 0.9, 1.0]),
            samples=st.integers(1, 3),
            seed=st.integers(0, 9),
        )
        settings = SearchSettings(beam=1, sampling=choose(sampling), **options)
    else:
        beam = choose(st.integers(1, 4))
        settings = SearchSettings(beam=beam, nbest=choose(st.integers(1, beam)), **options)
    prefix = st.lists(st.integers(3, WORDS - 1), max_size=options["max_extra"])
    prefixes: list[list[int]] = choose(st.one_of(st.just([[], [], []]), st.lists(prefix, min_size=3, max_size=3)))
    return settings, prefixes


@pytest.mark.wide
@examples(40)
@given(asked=searches(), seed=st.integers(0, 3), members=st.integers(1, 2), budget=st.sampled_from([8, 4096]))
@example(
    asked=(SearchSettings(beam=3, nbest=3, max_extra=9, no_repeat=1, min_length=8), [[], [4], [4, 4]]),
    seed=1,
    members=1,
    budget=4096,
)
def test_any_options_together_equal_a_naive_search(
    model_of: ModelOf,
    foresee: Foresee,
    families: list[str],
    asked: tuple[SearchSettings, list[list[int]]],
    seed: int,
    members: int,
    budget: int,
) -> None:
    settings, prefixes = asked
    models = [model_of(families[(seed + member) % len(families)], seed + member, WORDS) for member in range(members)]
    model = Ensemble(models) if members > 1 else models[0]
    numbers = [7, 0, 4]
    found = search_texts(model, SOURCES, settings, budget, prefixes=prefixes, numbers=numbers)
    assert same(found, expected(foresee, models, settings, prefixes, numbers))
    assert all(math.isfinite(best.log_probability) for nbest in found for best in nbest)
    assert all(found)


# --- ensembles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "beam"), in_turn(list(FAMILIES), [1, 3]))
def test_an_ensemble_of_one_model_twice_equals_the_model(model_of: ModelOf, family: str, beam: int) -> None:
    model = model_of(family, words=WORDS)
    settings = SearchSettings(beam=beam, nbest=beam, max_extra=5, coverage=0.2, aligned=True)
    found = search_texts(Ensemble([model, model]), SOURCES, settings, 4096)
    assert same(found, iter(search_texts(model, SOURCES, settings, 4096)))


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.wide)], ids=["some", "all"])  # of the families
@pytest.mark.parametrize(
    "settings", [SearchSettings(beam=1, max_extra=6), SearchSettings(beam=3, nbest=2, aligned=True)], ids=str
)
def test_an_ensemble_of_different_models_averages_their_probabilities(
    model_of: ModelOf, foresee: Foresee, families: list[str], settings: SearchSettings, every: int
) -> None:
    settings = replace(settings, max_extra=6 if every == 1 else 3)
    models = [model_of(family, 3 + seed, WORDS) for seed, family in enumerate(families[::every])]
    assert same(search_texts(Ensemble(models), SOURCES, settings, 4096), expected(foresee, models, settings))
