"""Readers of letters as their tables describe them."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from heedful.base.packed import Packed
from heedful.config.model.encoders import AnyLetters, RecurrentEncoderTable, TransformerEncoderTable
from heedful.data.prepare.letters import letters_of
from heedful.models.from_recipe.encoder_only import build_letters
from heedful.models.from_recipe.recurrent import lone_encoder
from heedful.models.from_recipe.transformer import transformer_encoder
from heedful.models.networks import precision_of, set_precision
from heedful.nn.layers.embedding import make_table

TABLES: list[dict[str, Any]] = [
    {"family": "convolutional", "width": 10, "embedding": 4, "kernel": 5},
    {"family": "recurrent", "width": 6, "embedding": 3, "cell": "gru"},
]


def read(table: dict[str, Any]) -> AnyLetters:
    return TypeAdapter(AnyLetters).validate_python(table)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["family"])
def test_a_reader_makes_vectors_of_the_width_of_embeddings_in_the_models_precision(table: dict[str, Any]) -> None:
    vectors = build_letters(read(table), width=8)
    letters = Packed.of([letters_of(word) for word in ("Eine", "漢字", "ok")])
    assert vectors.reader(letters).shape == (3, table["width"])
    set_precision(vectors, torch.bfloat16)
    assert precision_of(vectors) == torch.bfloat16
    text = vectors(replace(Packed.of([[5, 6, 7]]), letters=letters))
    assert (text.added.shape, text.added.dtype) == ((3, 8), torch.bfloat16)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"family": "convolutional", "kernel": 4}, "`kernel` must be odd, so that it is centred on a letter, but is 4"),
        ({"family": "recurrent", "width": 25}, "`width` must be even, as each direction gives one half, but is 25"),
    ],
)
def test_what_cannot_be_built_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        read(table)


@pytest.mark.parametrize("family", ["transformer", "recurrent"])
def test_encoders_add_vectors_to_the_embeddings_of_their_tokens(family: str) -> None:
    torch.manual_seed(0)
    weight = make_table(9, 8)
    encoder = (
        lone_encoder(RecurrentEncoderTable(width=8), weight)
        if family == "recurrent"
        else transformer_encoder(TransformerEncoderTable(width=8, heads=2, layers=1, inner=8), weight, 0)
    ).eval()
    plain = Packed.of([[1, 5, 2], [1, 7, 2]])
    added = torch.zeros(6, 8)
    added[1] = (weight[6] - weight[5]).detach() * 8**0.5  # token 5 becomes token 6
    with torch.inference_mode():
        found = encoder(Packed(plain.values, plain.layout, added=added))
        torch.testing.assert_close(found.values, encoder(Packed.of([[1, 6, 2], [1, 7, 2]])).values)
    assert found.added is None
