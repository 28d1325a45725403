"""Search with a decoder without memory: greedy search, beams and sampling continue a prompt."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from tests.models.language import LANGUAGE_MODELS, language_model
from tests.shared.covering import in_turn, one_in
from tests.shared.refusals import refuses
from tests.shared.searching import prompt_queries
from tests.unit.decode.slots.small_searches import engine_in_slots, run_in_slots
from torch import Tensor

from heedful.base.packed import Packed
from heedful.config.decode import Sampling
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.decode.constraints.tokens import NEVER
from heedful.decode.hypothesis import Hypothesis
from heedful.decode.query import Query
from heedful.decode.scorer import Ensemble
from heedful.decode.search import search
from heedful.decode.settings import SearchSettings
from heedful.decode.slots.lanes import SlotLanes
from heedful.models.networks import LanguageModel
from heedful.nn.kernels import without_kernels

PROMPTS = [[5, 9, 7], [], [4], [8, 8, 10, 11, 6, 6]]
EVEN = [[5, 9], [7, 7], [8, 10]]


@pytest.fixture(params=LANGUAGE_MODELS)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def prompts_of(family: str) -> list[list[int]]:
    return EVEN if family == "location" else PROMPTS


@torch.no_grad()
def log_p(model: LanguageModel, text: Sequence[int]) -> Tensor:
    """The log probabilities of the token after a text, by one forward pass."""
    return model(Packed.of([[BEGIN, *text]]))[-1].log_softmax(0)


def total(model: LanguageModel, prompt: Sequence[int], tokens: Sequence[int]) -> float:
    """The log probability of a continuation, by one forward pass."""
    with torch.no_grad():
        log_p_TV = model(Packed.of([[BEGIN, *prompt, *tokens]])).log_softmax(1)[len(prompt) :]
    return sum(float(log_p_TV[step, token]) for step, token in enumerate(tokens))


def said(hypothesis: Hypothesis) -> list[int]:
    return [*hypothesis.tokens, END] if hypothesis.complete else list(hypothesis.tokens)


def close(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> bool:
    return all(
        (mine.tokens, mine.complete) == (wanted.tokens, wanted.complete)
        and math.isclose(mine.score, wanted.score, abs_tol=1e-4)
        for some, others in zip(found, expected, strict=True)
        for mine, wanted in zip(some, others, strict=True)
    )


@pytest.mark.parametrize("family", one_in(2, LANGUAGE_MODELS))
def test_greedy_search_takes_the_best_token_at_every_step(family: str) -> None:
    model, prompts = language_model(family), prompts_of(family)
    found = search(model, prompt_queries(prompts, 7), SearchSettings(beam=1), 4096)
    for prompt, (best,) in zip(prompts, found, strict=True):
        text: list[int] = []
        while len(text) < 7 and END not in text:
            scores = log_p(model, [*prompt, *text])
            scores[list(NEVER)] = -math.inf
            text.append(int(scores.argmax()))
        assert said(best) == text
        assert best.log_probability == pytest.approx(total(model, prompt, text))


@pytest.mark.parametrize("family", ["post-sinusoidal", "rope", "lstm"])
def test_a_wide_enough_beam_equals_brute_force(family: str) -> None:
    model, limit, settings = language_model(family, words=7), 3, SearchSettings(beam=64, nbest=13)
    prompts = [[4, 6], [], [5]]
    found = search(model, prompt_queries(prompts, limit), settings, 100_000)
    pieces = range(max(NEVER) + 1, 7)
    for prompt, hypotheses in zip(prompts, found, strict=True):
        every = [(*some, END) for size in range(limit) for some in itertools.product(pieces, repeat=size)]
        scores = sorted((total(model, prompt, some) / settings.penalty(len(some)) for some in every), reverse=True)
        assert [best.score for best in hypotheses] == pytest.approx(scores[:13])
        assert all(best.complete for best in hypotheses)


@pytest.mark.parametrize("family", one_in(2, LANGUAGE_MODELS, first=1))
def test_samples_are_texts_of_the_model_whatever_their_neighbours(family: str) -> None:
    model, prompts = language_model(family), prompts_of(family)
    settings = SearchSettings(beam=1, sampling=Sampling(samples=3, seed=5))
    queries = prompt_queries(prompts, 6)
    together = search(model, queries, settings, 4096)
    for prompt, query, drawn in zip(prompts, queries, together, strict=True):
        assert close(search(model, [query], settings, 4096), [drawn])
        for sample in drawn:
            assert sample.log_probability == pytest.approx(total(model, prompt, said(sample)))


@pytest.mark.parametrize("beam", [1, 3])
def test_an_ensemble_of_one_language_model_twice_equals_the_model(beam: int) -> None:
    model, settings = language_model("gru"), SearchSettings(beam=beam)
    queries = prompt_queries(PROMPTS, 6)
    assert close(search(Ensemble([model, model]), queries, settings, 4096), search(model, queries, settings, 4096))


# --- slots ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "family"),
    in_turn(
        [
            SearchSettings(beam=1),
            SearchSettings(beam=3, nbest=2),
            SearchSettings(beam=2, min_length=3),
            SearchSettings(beam=1, sampling=Sampling(0.9, top_p=0.95, seed=4)),
        ],
        ["post-sinusoidal", "pre-learned", "rope"],
    ),
    ids=str,
)
@pytest.mark.parametrize("slots", [1, pytest.param(2, marks=pytest.mark.wide), 16])
def test_slots_find_what_states_find(family: str, settings: SearchSettings, slots: int) -> None:
    """Where slots are few, sentences begin where others stood, while others are under way."""
    model, queries = language_model(family), prompt_queries([*PROMPTS, [7] * 9, [6, 5]], 8)
    found = run_in_slots(engine_in_slots(model, slots), queries, settings)
    with without_kernels():
        assert close(found, search(model, queries, settings, 4096))


@pytest.mark.parametrize("family", ["alibi", "additive", "gru"])
def test_other_language_models_are_left_to_states(family: str) -> None:
    assert not SlotLanes(language_model(family)).takes(SearchSettings())


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "settings", "message"),
    [
        (Query([], 5), SearchSettings(), "Sentence 1 has no token to continue: start it with `<s>`."),
        (
            Query([BEGIN] * 41, 5, number=1204),
            SearchSettings(),
            "Sentence 1,205 has 41 tokens with its marker, but the model has positions for 40 (`model.max_positions`): "
            "shorten it.",
        ),
        (
            Query([BEGIN], 5),
            SearchSettings(aligned=True),
            "`aligned` and `coverage` need a source that the model attends to, but this model continues its source: "
            "leave them out.",
        ),
    ],
)
def test_what_cannot_be_continued_is_refused(query: Query, settings: SearchSettings, message: str) -> None:
    with refuses(message):
        search(language_model("pre-learned"), [query], settings, 4096)


def test_prompt_and_continuation_share_the_positions() -> None:
    model = language_model("pre-learned")
    queries = [replace(query, limit=9) for query in prompt_queries([[5] * 36, [5] * 39, [5]], 9)]
    found = search(model, queries, SearchSettings(beam=1, never=()), 4096)
    lengths = [best.length for (best,) in found]
    assert lengths[0] <= 4
    assert lengths[1] == 1
