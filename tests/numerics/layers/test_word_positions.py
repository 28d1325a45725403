"""Numbers of words in front of tokens, and what models do with them."""

import pytest
import torch
from tests.unit.decode.slots.small_searches import assert_the_same, in_slots, model_of, search, sources_of

from heedful.base.packed import Packed
from heedful.decode.settings import SearchSettings
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.nn.layers.positions import Sinusoidal, WordPositions

ENDS = torch.tensor([False, False, True, False, True])
SENTENCES = [[0, 2, 1, 4, 2], [], [4], [3, 3, 2, 0]]


@pytest.mark.parametrize("itself", [False, True])
def test_words_are_counted_in_each_sentence_by_itself(itself: bool) -> None:
    packed = Packed.of(SENTENCES)
    counts = WordPositions(ENDS, 8, counts_itself=itself).count(packed.values, packed.layout)
    expected = [
        sum(bool(ENDS[token]) for token in sentence[: place + itself])
        for sentence in SENTENCES
        for place in range(len(sentence))
    ]
    assert counts.tolist() == expected


def test_a_number_of_words_has_the_vector_of_that_position() -> None:
    counts = torch.tensor([0, 3, 700])
    assert torch.equal(WordPositions(ENDS, 8, counts_itself=True)(counts, 700), Sinusoidal(8)(counts, 701))


def test_positions_and_words_have_half_of_the_width_each() -> None:
    encoder = model_of(word_positions=True).encoder
    assert isinstance(encoder, TransformerEncoder)
    embedding = encoder.embedding
    with torch.no_grad():
        embedding.weight.zero_()
    tokens = Packed.of([[3, 4, 3, 4]]).to(embedding.weight.device)  # of which the threes end words
    found = embedding(tokens.values, tokens.layout).cpu()
    waves = Sinusoidal(8)
    assert torch.equal(found[:, :8], waves(torch.arange(4), 4))
    assert torch.equal(found[:, 8:], waves(torch.tensor([0, 1, 1, 2]), 4))


def test_steps_count_words_as_forward_does_after_a_prompt_too() -> None:
    model = model_of(word_positions=True)
    decoder = model.decoder
    assert isinstance(decoder, TransformerDecoder)
    device = decoder.output.weight.device
    rows = torch.tensor([[1, 6, 5, 9, 4], [1, 5, 7, 8, 12]], device=device)
    memory = model.encoder(Packed.of([[5, 6, 7], [9]]).to(device))
    with torch.no_grad():
        whole = decoder(Packed.of(rows.tolist()).to(device), memory).unflatten(0, (2, -1))
        state = decoder.start(memory, prompt=Packed.of(rows[:, :2].tolist()).to(device))
        for place in range(2, 5):
            scores, state = decoder.step(rows[:, place], state)
            assert torch.allclose(scores, whole[:, place], atol=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_slots_count_the_words_of_each_hypothesis(beam: int) -> None:
    model = model_of(word_positions=True)
    settings = SearchSettings(beam=beam, max_extra=6, nbest=beam)
    sources = sources_of(12)
    assert_the_same(in_slots(model, sources, settings), search(model, sources, settings, 4096))
