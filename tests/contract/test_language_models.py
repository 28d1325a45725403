"""Laws of decoding without a memory, for every family that keeps the decoder protocol."""

import random
from collections.abc import Sequence

import pytest
import torch
from tests.models.language import EVEN_PROMPTS, LANGUAGE_MODELS, WORDS, language_model
from tests.shared.covering import in_turn
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN
from heedful.models.networks import LanguageModel
from heedful.models.protocols import State

RAGGED = [[BEGIN, 5, 9, 7], [BEGIN], [], [BEGIN, 8, 8, 10, 11, 6]]
EVEN = [[BEGIN, 5, 9], [BEGIN, 7, 7], [BEGIN, 8, 10], [BEGIN, 4, 6]]


@pytest.fixture(params=LANGUAGE_MODELS)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def prompts_of(family: str) -> list[list[int]]:
    return EVEN if family in EVEN_PROMPTS else RAGGED


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def last_scores(model: LanguageModel, texts: Sequence[Sequence[int]]) -> Tensor:
    """The scores after each text, by one forward pass."""
    packed = Packed.of(texts)
    return model(packed)[packed.layout.offsets[1:].long() - 1]


def follow(model: LanguageModel, state: State, histories: list[list[list[int]]], steps: int, seed: int = 3) -> None:
    """Step, reorder and narrow at random, and compare every step with whole forward passes."""
    chance = random.Random(seed)
    for step in range(steps):
        for history in (row for rows in histories for row in rows):
            history.append(chance.randrange(4, WORDS) if history else BEGIN)
        last = torch.tensor([row[-1] for rows in histories for row in rows])
        with torch.no_grad():
            logits_RV, state = model.decoder.step(last, state)
        close(logits_RV, last_scores(model, [row for rows in histories for row in rows]))
        assert state.attention_RL is None
        if step in (2, 5):
            kept = [index for index in range(len(histories)) if index != step % len(histories)]
            state, histories = state.narrow(torch.tensor(kept)), [histories[index] for index in kept]
        parents = [[chance.randrange(len(rows)) for _ in rows] for rows in histories]
        state = state.reorder(torch.tensor(parents))
        histories = [[list(rows[parent]) for parent in mine] for rows, mine in zip(histories, parents, strict=True)]


@pytest.mark.parametrize(("family", "beams"), in_turn(LANGUAGE_MODELS, [1, 3]))
def test_stepping_after_a_prompt_equals_forward_while_rows_change_and_sentences_leave(family: str, beams: int) -> None:
    model, prompts = language_model(family), prompts_of(family)
    state = model.decoder.start(None, beams, prompt=Packed.of(prompts))
    follow(model, state, [[list(prompt) for _ in range(beams)] for prompt in prompts], steps=20)


@pytest.mark.parametrize(("family", "beams"), in_turn(LANGUAGE_MODELS, [2, 1]))
def test_stepping_from_nothing_equals_forward(family: str, beams: int) -> None:
    model = language_model(family)
    state = model.decoder.start(None, beams, prompt=Packed.of([[], [], []]))
    follow(model, state, [[[] for _ in range(beams)] for _ in range(3)], steps=8)


@pytest.mark.parametrize("beams", [1, 3])
def test_starting_with_a_prompt_equals_stepping_through_it(family: str, beams: int) -> None:
    model = language_model(family)
    stepped = model.decoder.start(None, beams, prompt=Packed.of([[]] * len(EVEN)))
    with torch.no_grad():
        for column in zip(*EVEN, strict=True):
            _, stepped = model.decoder.step(torch.tensor(column).repeat_interleave(beams), stepped)
        at_once = model.decoder.start(None, beams, prompt=Packed.of(EVEN))
        for token in (5, 6, 7):
            tokens = torch.full((len(EVEN) * beams,), token)
            one, at_once = model.decoder.step(tokens, at_once)
            other, stepped = model.decoder.step(tokens, stepped)
            close(one, other)


def test_a_neighbour_of_another_length_changes_nothing(family: str) -> None:
    if family in EVEN_PROMPTS:
        pytest.skip("its prompts have one length")
    model, last = language_model(family), torch.tensor([6])
    with torch.no_grad():
        together, _ = model.decoder.step(last.repeat(len(RAGGED)), model.decoder.start(None, prompt=Packed.of(RAGGED)))
        for scores, prompt in zip(together, RAGGED, strict=True):
            alone, _ = model.decoder.step(last, model.decoder.start(None, prompt=Packed.of([prompt])))
            close(scores, alone[0])


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_decoder_without_memory_refuses_one(family: str) -> None:
    decoder, memory = language_model(family).decoder, Packed.of(EVEN).with_values(torch.zeros(12, 16).double())
    for ask in (
        lambda: decoder.states(Packed.of(EVEN), memory),
        lambda: decoder.start(memory, prompt=Packed.of(EVEN)),
    ):
        with refuses("this decoder has no attention over a memory, but was given one", ValueError):
            ask()


def test_a_decoder_without_memory_needs_a_prompt(family: str) -> None:
    decoder = language_model(family).decoder
    with refuses("a decoder without memory starts with a prompt, which may be empty", ValueError):
        decoder.start(None)
    with refuses("a decoder without memory has no weights over it to align with", ValueError):
        decoder.start(None, aligned=True, prompt=Packed.of(EVEN))


def test_alignments_by_place_refuse_prompts_of_different_lengths() -> None:
    decoder = language_model("location").decoder
    state = decoder.start(None, prompt=Packed.of(RAGGED))
    with refuses("an alignment by place counts from the start: its prompts must have one length", ValueError):
        decoder.step(torch.tensor([5] * len(RAGGED)), state)
