"""Encoding in classes of sizes, against the encoder as it is."""

import pytest
import torch

from heedful.base.packed import Packed
from heedful.config.model.transformer import TransformerModel
from heedful.decode.slots import encoder as static_encoding
from heedful.decode.slots.encoder import StaticEncoding
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision
from heedful.models.transformer.encoder import TransformerEncoder

CPU = torch.device("cpu")


def encoder_of(positions: str) -> TransformerEncoder:
    torch.manual_seed(1)
    config = TransformerModel.model_validate(
        {"width": 16, "heads": 2, "layers": 2, "inner": 24, "positions": positions, "max_positions": 80}
    )
    model = build_model(config, 20, 20).double().eval()
    set_precision(model, torch.float64)
    encoder = model.encoder
    assert isinstance(encoder, TransformerEncoder)
    return encoder


def drawn(lengths: list[int]) -> list[list[int]]:
    return [torch.randint(4, 20, (length,)).tolist() for length in lengths]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rope"])
@torch.no_grad()
def test_gives_what_the_encoder_gives_from_the_same_buffers_again_and_again(positions: str) -> None:
    encoder = encoder_of(positions)
    encoding = StaticEncoding(encoder, CPU)
    for lengths in ([3], [5, 9, 1], [64], [2] * 40, [7, 80, 3], [65, 63]):
        sentences = drawn(lengths)
        made, expected = encoding(sentences), encoder(Packed.of(sentences))
        torch.testing.assert_close(made.values[: sum(lengths)], expected.values)
        assert made.layout.offsets[: len(lengths) + 1].tolist() == expected.layout.offsets.tolist()
        assert made.layout.tokens == made.values.shape[0] == int(made.layout.offsets[-1])
    assert len(encoding._sizes) < 6  # some share buffers


@torch.no_grad()
def test_what_is_too_large_for_a_class_is_encoded_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_encoding, "_LARGEST", 64)
    encoder = encoder_of("sinusoidal")
    encoding, sentences = StaticEncoding(encoder, CPU), drawn([40, 30])
    torch.testing.assert_close(encoding(sentences).values, encoder(Packed.of(sentences)).values)
    assert not encoding._sizes
