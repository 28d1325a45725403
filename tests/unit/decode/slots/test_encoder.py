"""Memories of sentences: encoded in buffers of a few sizes, against the encoder and the projection as they are."""

from collections.abc import Sequence
from typing import cast

import pytest
import torch
from tests.unit.decode.slots.small_searches import DEVICE
from torch import nn

from heedful.base.packed import Packed
from heedful.config.model.transformer import TransformerModel
from heedful.decode.query import Query
from heedful.decode.slots import encoder as memories_module
from heedful.decode.slots.encoder import Memories
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.transformer.slots import SlotDecoder

BOUND = 80


def model_of(positions: str) -> EncoderDecoder:
    config = TransformerModel.model_validate(
        {"width": 16, "heads": 2, "layers": 2, "inner": 24, "positions": positions, "max_positions": BOUND}
    )
    model = build_model(config, 20, 20).double().eval().to(DEVICE)
    set_precision(model, torch.float64)
    return model


def drawn(lengths: Sequence[int]) -> list[list[int]]:
    return [torch.randint(4, 20, (length,)).tolist() for length in lengths]


def check(model: EncoderDecoder, memories: Memories, sentences: list[list[int]]) -> int:
    """Compare all memories with those of the sentences alone; return in how many parts they came."""
    assert isinstance(model.decoder, SlotDecoder)
    waiting, parts = list(sentences), 0
    for projected, lengths in memories.of([Query(sentence, 9) for sentence in sentences]):
        some, waiting = waiting[: len(lengths)], waiting[len(lengths) :]
        expected = model.decoder.project(model.encoder(Packed.of(some).to(DEVICE)))
        assert lengths == [len(sentence) for sentence in some]
        torch.testing.assert_close(projected[:, : sum(lengths)], expected)
        parts += 1
    assert not waiting
    return parts


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rope"])
@torch.no_grad()
def test_gives_what_the_encoder_gives_from_the_same_buffers_again_and_again(positions: str) -> None:
    model = model_of(positions)
    memories = Memories(model, BOUND)
    for lengths in ([3], [5, 9, 1], [64], [2] * 40, [7, BOUND, 3], [65, 63], [1] * 81, [BOUND] * 9):
        assert check(model, memories, drawn(lengths)) <= 2
    assert memories.recordings <= 3  # most share buffers


@torch.no_grad()
def test_what_is_too_much_for_the_largest_buffer_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories_module, "_LARGEST", BOUND)
    model = model_of("sinusoidal")
    memories = Memories(model, BOUND)
    assert check(model, memories, drawn([40, 30, 11, BOUND, 1, 5, 70, 9])) == 5
    assert memories.recordings == 1


@torch.no_grad()
def test_sentences_longer_than_any_buffer_are_encoded_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories_module, "_LARGEST", BOUND - 1)
    model = model_of("sinusoidal")
    memories = Memories(model, BOUND)
    assert check(model, memories, drawn([40, 30, 11, BOUND])) == 1
    monkeypatch.setattr(memories_module, "_AT_ONCE", 64)
    assert check(model, memories, drawn([40, 30, 11, BOUND])) == 3
    assert memories.recordings == 0


@torch.no_grad()
def test_other_encoders_encode_as_they_are() -> None:
    """They may ask the device for sizes, which cannot be recorded."""
    model = model_of("sinusoidal")
    encoder, decoder = cast(nn.Module, model.encoder), cast(nn.Module, model.decoder)
    other = EncoderDecoder(_Wrapped(encoder), decoder)
    memories = Memories(other, BOUND)
    assert check(other, memories, drawn([4, 30, 11])) == 1
    assert memories.recordings == 0


class _Wrapped(torch.nn.Module):
    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.inside = encoder

    def forward(self, source: Packed) -> Packed:
        memory: Packed = self.inside(source)
        return memory
