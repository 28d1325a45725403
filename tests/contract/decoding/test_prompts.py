"""Laws of prompts over a memory: starting after them equals stepping through them, for every family."""

from collections.abc import Callable

import pytest
import torch
from tests.shared.refusals import refuses

from heedful.base.packed import Packed
from heedful.config.model.recurrent import RecurrentModel
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder

ModelOf = Callable[..., EncoderDecoder]
SOURCES = Packed.of([[5, 9, 7, END], [4, END], [8, 8, 10, END]])
EVEN = [[BEGIN, 5, 9], [BEGIN, 7, 7], [BEGIN, 8, 10]]
RAGGED = [[BEGIN, 5, 9, 4, 6], [BEGIN], [BEGIN, 8, 10]]


@pytest.mark.parametrize("beams", [1, 2])
@torch.no_grad()
def test_starting_with_a_prompt_equals_stepping_through_it(model_of: ModelOf, family: str, beams: int) -> None:
    model = model_of(family)
    memory = model.encoder(SOURCES)
    stepped = model.decoder.start(memory, beams, aligned=True)
    for column in zip(*EVEN, strict=True):
        _, stepped = model.decoder.step(torch.tensor(column).repeat_interleave(beams), stepped)
    at_once = model.decoder.start(memory, beams, aligned=True, prompt=Packed.of(EVEN))
    assert at_once.attention_RL is None
    for token in (5, 6, 7):
        tokens = torch.full((len(EVEN) * beams,), token)
        one, at_once = model.decoder.step(tokens, at_once)
        other, stepped = model.decoder.step(tokens, stepped)
        torch.testing.assert_close(one, other)
        torch.testing.assert_close(at_once.attention_RL, stepped.attention_RL)


@torch.no_grad()
def test_stepping_after_prompts_of_different_lengths_equals_forward(model_of: ModelOf, family: str) -> None:
    model = model_of(family)
    whole = model(SOURCES, Packed.of([[*prompt, 6] for prompt in RAGGED]))
    ends = torch.tensor([len(prompt) + 1 for prompt in RAGGED]).cumsum(0) - 1
    state = model.decoder.start(model.encoder(SOURCES), prompt=Packed.of(RAGGED))
    found, _ = model.decoder.step(torch.tensor([6] * 3), state)
    torch.testing.assert_close(found, whole[ends])


def test_a_decoder_over_a_memory_needs_one(model_of: ModelOf, family: str) -> None:
    with pytest.raises(ValueError, match=r"^this decoder (attends to|starts from) a memory, but was given none$"):
        model_of(family).decoder.start(None, prompt=Packed.of(EVEN))


def test_a_window_that_moves_with_the_position_needs_prompts_of_one_length() -> None:
    model = build_model(RecurrentModel(family="recurrent", width=8, wiring="luong", window="monotone"), 12, 12).eval()
    memory = model.encoder(SOURCES)
    with refuses("a window that moves with the position needs prompts of one length", ValueError):
        model.decoder.start(memory, prompt=Packed.of(RAGGED))
    assert model.decoder.start(memory, prompt=Packed.of(EVEN))
