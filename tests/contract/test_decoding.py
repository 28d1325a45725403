"""Laws of decoding, for every family that keeps the decoder protocol."""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.contract.families import FAMILIES, PAIRS, VALUES
from tests.shared.covering import in_turn, one_in
from tests.shared.searching import search_texts
from torch import Tensor

from heedful.base.packed import Packed
from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.constraints.prefix import make_constraints
from heedful.decode.constraints.tokens import NEVER
from heedful.decode.frontiers.beam import Beam
from heedful.decode.frontiers.independent import IndependentRows
from heedful.decode.frontiers.rows import Attended
from heedful.decode.hypothesis import Hypothesis, Shifted, Wu
from heedful.decode.scorer import Ensemble, SingleModel
from heedful.decode.settings import SearchSettings
from heedful.decode.waves import decode
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.protocols import State
from heedful.tasks.translate.model import Translator

WORDS = 24
SOURCES = [[5, 9, 7], [4], [8, 8, 10, 11, 6, 6], [9, 7, 5]]
LONG = ("post-sinusoidal", "llama", "post-relative", "bahdanau-gru", "lstm-to-transformer")
CPU = torch.device("cpu")
ModelOf = Callable[..., EncoderDecoder]
Foresee = Callable[..., list[tuple[Tensor, Tensor]]]


def packed(sources: Sequence[Sequence[int]]) -> Packed:
    """Sources as a search packs them."""
    return Packed.of([[*source, END] for source in sources])


def beam_of(limits: Sequence[int], settings: SearchSettings, sources: Sequence[Sequence[int]]) -> Beam:
    """A beam, also where the settings would make it greedy search."""
    return Beam.begin(limits, settings, make_constraints(settings.rules, [], CPU), CPU, attended_of(settings, sources))


def greedy_of(limits: Sequence[int], settings: SearchSettings, sources: Sequence[Sequence[int]]) -> IndependentRows:
    """Greedy search."""
    return IndependentRows.begin(
        limits, settings, make_constraints(settings.rules, [], CPU), CPU, attended_of(settings, sources)
    )


def attended_of(settings: SearchSettings, sources: Sequence[Sequence[int]]) -> Attended | None:
    return Attended.begin(packed(sources).layout, settings.rows) if settings.attentive else None


# --- stepping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [5, pytest.param(20, marks=pytest.mark.wide)])
@pytest.mark.parametrize(("family", "beams"), in_turn(list(FAMILIES), [1, 3]))
def test_stepping_equals_forward_whatever_the_beams(
    model_of: ModelOf, foresee: Foresee, family: str, beams: int, steps: int
) -> None:
    stepping_equals_forward(model_of(family), foresee, beams, aligned=beams == 1, steps=steps)


@pytest.mark.parametrize(
    "any_family",
    [
        *one_in(3, FAMILIES),
        *VALUES,
        *(pytest.param(name, marks=pytest.mark.wide) for name in PAIRS if name not in VALUES),
    ],
)
def test_stepping_equals_forward_while_rows_change_places_and_sentences_leave(
    model_of: ModelOf, foresee: Foresee, any_family: str
) -> None:
    stepping_equals_forward(model_of(any_family), foresee, beams=2, aligned=True, steps=5)


@pytest.mark.parametrize(
    "family", [name if name in LONG else pytest.param(name, marks=pytest.mark.wide) for name in FAMILIES]
)
def test_stepping_equals_forward_beyond_the_room_that_a_cache_begins_with(
    model_of: ModelOf, foresee: Foresee, family: str
) -> None:
    stepping_equals_forward(model_of(family), foresee, beams=2, aligned=True, steps=20)


def stepping_equals_forward(
    model: EncoderDecoder, foresee: Foresee, beams: int, aligned: bool, steps: int = 20
) -> None:
    chance = random.Random(3)
    state = model.decoder.start(model.encoder(packed(SOURCES)), beams, aligned)
    longest = max(len(source) for source in SOURCES) + 1
    active = list(range(len(SOURCES)))
    rows: list[list[list[int]]] = [[[] for _ in range(beams)] for _ in SOURCES]
    assert state.attention_RL is None
    for step in range(steps):
        last = torch.tensor([row[-1] if row else BEGIN for sentence in active for row in rows[sentence]])
        logits_RV, state = model.decoder.step(last, state)
        histories = [(SOURCES[sentence], row) for sentence in active for row in rows[sentence]]
        whole = foresee(model, [source for source, _ in histories], [row for _, row in histories])
        close(logits_RV, torch.stack([logits_TV[-1] for logits_TV, _ in whole]))
        weights = [F.pad(weights_TL[-1], (0, longest - weights_TL.shape[1])) for _, weights_TL in whole]
        same_attention(state, weights if aligned else None)
        if step in (2, 11, 12):
            leaving = chance.randrange(len(active))
            staying = [place for place in range(len(active)) if place != leaving]
            state = state.narrow(torch.tensor(staying))
            active = [active[place] for place in staying]
            weights = [weights[place * beams + row] for place in staying for row in range(beams)]
            same_attention(state, weights if aligned else None)
        parents = [[chance.randrange(beams) for _ in range(beams)] for _ in active]
        state = state.reorder(torch.tensor(parents))
        chosen = [place * beams + parent for place, some in enumerate(parents) for parent in some]
        same_attention(state, [weights[row] for row in chosen] if aligned else None)
        for sentence, some in zip(active, parents, strict=True):
            rows[sentence] = [[*rows[sentence][parent], chance.randrange(WORDS)] for parent in some]


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


def same_attention(state: State, expected: list[Tensor] | None) -> None:
    """The state's weights, row by row; they are a distribution, with nothing behind a source's end."""
    if expected is None:
        assert state.attention_RL is None
    else:
        assert state.attention_RL is not None
        close(state.attention_RL, torch.stack(expected))
        close(state.attention_RL.sum(1), torch.ones(len(expected), dtype=torch.float64))


def test_attention_of_a_bfloat16_model_is_float32(model_of: ModelOf) -> None:
    model = deepcopy(model_of("post-sinusoidal")).float()
    set_precision(model, torch.bfloat16)
    state = model.decoder.start(model.encoder(packed(SOURCES)), 2, aligned=True)
    _, state = model.decoder.step(torch.full((8,), BEGIN), state)
    assert state.attention_RL is not None
    assert state.attention_RL.dtype == torch.float32
    torch.testing.assert_close(state.attention_RL.sum(1), torch.ones(8), atol=1e-6, rtol=0)


# --- brute force ------------------------------------------------------------------------------------------------------


def every_hypothesis(
    foresee: Foresee, model: EncoderDecoder, source: list[int], words: int, limit: int, settings: SearchSettings
) -> list[Hypothesis]:
    """All allowed sequences of at most `limit` tokens by score: those that end, then those that are cut."""
    pieces = [token for token in range(words) if token not in (*NEVER, END)]
    targets = [
        tokens
        for length in range(settings.min_length, limit + 1)
        for tokens in itertools.product(pieces, repeat=length)
        if not settings.no_repeat or not repeats(tokens, settings.no_repeat)
    ]
    found = []
    for tokens, (logits_TV, weights_TL) in zip(targets, foresee(model, [source] * len(targets), targets), strict=True):
        complete = len(tokens) < limit
        decoded = (*tokens, END) if complete else tokens
        log_p_TV = logits_TV.log_softmax(1)
        total = sum(float(log_p_TV[place, token]) for place, token in enumerate(decoded))
        covered = sum(math.log(min(1.0, share)) for share in weights_TL[: len(decoded)].sum(0).tolist())
        score = total / settings.penalty(len(decoded)) + settings.coverage * covered
        alignment = tuple(weights_TL[: len(tokens)].argmax(1).tolist())
        found.append(Hypothesis(tokens, score, total, complete, alignment if settings.aligned else None))
    return sorted(found, key=lambda hypothesis: (not hypothesis.complete, -hypothesis.score))


def repeats(tokens: Sequence[int], size: int) -> bool:
    grams = [tuple(tokens[place : place + size]) for place in range(len(tokens) - size + 1)]
    return len(grams) > len(set(grams))


def same(found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 1e-9) -> bool:
    assert [hypothesis.tokens for hypothesis in found] == [hypothesis.tokens for hypothesis in expected]
    for mine, wanted in zip(found, expected, strict=True):
        assert (mine.complete, mine.alignment) == (wanted.complete, wanted.alignment)
        assert mine.score == pytest.approx(wanted.score, abs=tolerance)
        assert mine.log_probability == pytest.approx(wanted.log_probability, abs=tolerance)
    return True


def up_and_down(length: int) -> float:
    """A penalty that favours a length in the middle."""
    return {1: 1.0, 2: 1.3, 3: 2.5, 4: 0.7}[length]


EXHAUSTIVE: list[dict[str, Any]] = [
    {"penalty": Wu(0.0)},
    {"penalty": Wu(0.6), "aligned": True},
    {"penalty": Wu(1.0)},
    {"penalty": up_and_down},
    {"penalty": Shifted(1.0, 3.0)},
    {"penalty": Wu(1.0), "coverage": 0.4},
    {"penalty": Shifted(0.6), "coverage": 3.0, "aligned": True},
    {"no_repeat": 1, "min_length": 2, "coverage": 0.2},
    {"no_repeat": 2, "min_length": 1, "penalty": up_and_down},
]


@pytest.mark.parametrize(
    ("options", "seed"),
    in_turn(EXHAUSTIVE, [1, 2, 3]),
    ids=lambda given: "-".join(given) if isinstance(given, dict) else str(given),  # the same in every process
)
def test_a_wide_enough_beam_equals_brute_force(
    model_of: ModelOf, foresee: Foresee, families: list[str], options: dict[str, Any], seed: int
) -> None:
    words, limit = 7, 4  # three pieces beside the special ones: 40 sequences that end and 81 that are cut
    model = model_of(families[seed], seed, words)
    sources = [[4, 6], [5], [6, 6, 5]]
    expected = [
        every_hypothesis(foresee, model, source, words, limit, SearchSettings(beam=128, **options))
        for source in sources
    ]
    for nbest in (1, 7, 121):
        settings = SearchSettings(beam=128, nbest=nbest, **options)
        found = decode(SingleModel(model), packed(sources), beam_of([limit] * 3, settings, sources))
        for mine, wanted in zip(found, expected, strict=True):
            assert same(mine, wanted[:nbest])


# --- equal searches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_greedy_search_equals_a_beam_of_one_whatever_the_penalty(model_of: ModelOf, alpha: float) -> None:
    model = SingleModel(model_of("post-sinusoidal"))
    limits = [7, 3, 12, 7]
    for settings in (
        SearchSettings(beam=1, penalty=Wu(alpha)),
        SearchSettings(beam=1, penalty=Wu(alpha), no_repeat=1, min_length=4, aligned=True),
    ):
        greedy = decode(model, packed(SOURCES), greedy_of(limits, settings, SOURCES))
        beam = decode(model, packed(SOURCES), beam_of(limits, settings, SOURCES))
        plain = decode(model, packed(SOURCES), greedy_of(limits, replace(settings, penalty=Wu(0.0)), SOURCES))
        for mine, other, unscaled in zip(greedy, beam, plain, strict=True):
            assert same(mine, other)
            assert mine[0].tokens == unscaled[0].tokens


# --- neighbours -------------------------------------------------------------------------------------------------------


SETTINGS = {
    "plain": SearchSettings(beam=3, nbest=2, max_extra=6),
    "every option": SearchSettings(
        beam=3, nbest=2, max_extra=6, coverage=0.5, no_repeat=2, min_length=2, aligned=True, never=(7, 11)
    ),
    "greedy": SearchSettings(beam=1, max_extra=6, coverage=0.5, no_repeat=1, min_length=2, aligned=True),
    "sampling": SearchSettings(
        beam=1, max_extra=6, sampling=Sampling(0.7, top_k=9, top_p=0.9, samples=3), aligned=True, no_repeat=2
    ),
}


@pytest.mark.parametrize(("family", "kind"), in_turn(list(FAMILIES), list(SETTINGS)))
def test_neighbours_change_nothing_in_float64(model_of: ModelOf, family: str, kind: str) -> None:
    settings = SETTINGS[kind]
    model = Ensemble([model_of(family), model_of("post-sinusoidal", seed=5)])
    prefixes = [[4, 4], [], [10], [9, 8, 9]] if settings.no_repeat else [[]] * 4
    together = search_texts(model, SOURCES, settings, 4096, prefixes=prefixes)
    for place, (source, prefix, found) in enumerate(zip(SOURCES, prefixes, together, strict=True)):
        assert same(search_texts(model, [source], settings, 4096, prefixes=[prefix], numbers=[place])[0], found)
        assert all(list(hypothesis.tokens[: len(prefix)]) == prefix for hypothesis in found)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_neighbour_in_the_batch_cannot_change_a_translation(
    reversing: Translator, sentences: Callable[[int], list[str]], beam: int
) -> None:
    """The law for users: a trained model in float32 on the CPU."""
    texts = sentences(60)
    together = reversing.translate_detailed(texts, nbest=beam, beam=beam, batch_tokens=100_000)
    small = reversing.translate_detailed(texts, nbest=beam, beam=beam, batch_tokens=60)
    alone = [reversing.translate_detailed([text], nbest=beam, beam=beam)[0] for text in texts]
    for one, other in ((together, alone), (small, alone)):
        for mine, wanted in zip(one, other, strict=True):
            assert mine[0].tokens == wanted[0].tokens
            assert mine[0].score == pytest.approx(wanted[0].score, abs=1e-4)
            assert [best.tokens for best in mine] == [best.tokens for best in wanted]


def test_a_trained_model_attends_to_the_word_that_it_translates(
    reversing: Translator, sentences: Callable[[int], list[str]]
) -> None:
    """Coverage and alignment on the model that turns sentences round: word t stands t places before the end."""
    sources = reversing.encode(sentences(30))
    found = search_texts(reversing.network, sources, SearchSettings(beam=3, coverage=0.1, aligned=True), 4096)
    pairs = [
        (place, len(source) - 1 - step)
        for source, (best,) in zip(sources, found, strict=True)
        if list(best.tokens) == source[::-1] and best.alignment is not None
        for step, place in enumerate(best.alignment)
    ]
    assert len(pairs) > 60
    assert sum(place == wanted for place, wanted in pairs) > 0.7 * len(pairs)  # by chance a quarter


# --- stopping ---------------------------------------------------------------------------------------------------------


class Confident:
    """A translator that wants `4 4 4 4 </s>`, and at every step before gives `</s>` a small chance."""

    attention_RL = None

    def begin(self, sources: Packed, beams: int = 1, aligned: bool = False) -> "Confident":
        self.length = 0
        return self

    def step(self, tokens_R: Tensor, state: "Confident") -> tuple[Tensor, "Confident"]:
        self.length += 1
        chances = torch.full((len(tokens_R), WORDS), 1e-6, dtype=torch.float64)
        chances[:, 4], chances[:, END] = (0.9, 0.02) if self.length < 5 else (1e-6, 0.9)
        return chances.log(), state

    def reorder(self, parents_BK: Tensor) -> "Confident":
        return self

    def narrow(self, sentences: Tensor) -> "Confident":
        return self


@pytest.mark.parametrize("beam", [1, 2, 3, 4])
def test_poor_hypotheses_that_end_early_do_not_end_the_search(beam: int) -> None:
    settings = SearchSettings(beam=beam, penalty=Wu(0.6))
    found = decode(Confident(), packed([[4]]), beam_of([20], settings, [[4]]))  # type: ignore[arg-type]
    assert found[0][0].tokens == (4, 4, 4, 4)
