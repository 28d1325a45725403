"""Translators go to `transformers` and come back to the same bytes; there they answer as here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.interop.pairs.translators import write_translator

from heedful.interop.exports.exporting import CLOSE, export_model
from heedful.interop.importing import import_model
from heedful.models.bundle import read_bundle

TRANSLATORS: Mapping[str, dict[str, Any]] = {
    "MarianMT": {},
    "Pegasus": {"model": {"norm": "pre"}},
    "sines before cosines": {"model": {"positions": "sinusoidal_halves", "norm": "pre"}},
    "biases of words": {"model": {"output_bias": True, "activation": "gelu_tanh"}},
    "a matrix for the source": {"model": {"tie": "decoder", "embedding_scale": False}},
    "no matrix shared": {"model": {"tie": "none"}, "tokenizer": {"kind": "char"}},
    "vocabularies of their own": {"tokenizer": {"kind": "bpe", "size": 200, "target": {"kind": "word", "size": 90}}},
    "pieces of words": {"tokenizer": {"kind": "wordpiece"}, "model": {"activation": "silu"}},
    "one language": {"languages": ("de",), "tokenizer": {"kind": "unigram"}},
    "several languages": {"languages": ("de", "fr"), "tokenizer": {"kind": "unigram"}},
    "the text's form": {"data": {"nfc": True, "lowercase": True, "max_length": 99}, "decode": {"max_extra": 7}},
}


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_goes_out_and_comes_back_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    ours = write_translator(tmp_path / "ours", **TRANSLATORS[name])
    found = export_model(tmp_path / "ours", "transformers", tmp_path / "theirs")
    assert found.comparison is not None
    assert found.comparison.count == 7
    assert found.comparison.unequal == 0
    assert found.comparison.difference < CLOSE
    import_model(tmp_path / "theirs", tmp_path / "back")
    back = read_bundle(tmp_path / "back")
    expected = dict(ours.model.named_parameters())
    assert expected.keys() == dict(back.model.named_parameters()).keys()
    assert all(torch.equal(parameter, expected[key]) for key, parameter in back.model.named_parameters())
    for side in ("source", "target"):
        assert back.vocabularies[side].fingerprint == ours.vocabularies[side].fingerprint
    assert back.recipe.model.model_dump(exclude={"decoder_layers"}) == ours.recipe.model.model_dump(
        exclude={"decoder_layers"}
    )
    assert back.recipe.tokenizer.joint == ours.recipe.tokenizer.joint
    for key in ("nfc", "lowercase", "max_length"):
        assert getattr(back.recipe.data, key) == getattr(ours.recipe.data, key)
    for key in ("beam", "max_extra", "length_penalty", "length_penalty_kind", "no_repeat"):
        assert getattr(back.recipe.decode, key) == getattr(ours.recipe.decode, key)
