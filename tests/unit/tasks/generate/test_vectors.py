"""Texts as vectors of a language model: what its decoder knows after each token."""

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from tests.unit.tasks.text_generators import language_bundle

from heedful.base.packed import Packed
from heedful.data.tokenize.tokenizer import BEGIN
from heedful.tasks.generate.model import TextGenerator

TEXTS = ("the cat", "a", "the dog saw it")


@pytest.fixture(scope="module", params=[False, True], ids=["transformer", "recurrent"])
def model(request: pytest.FixtureRequest) -> TextGenerator:
    return TextGenerator(language_bundle(recurrent=request.param))


@torch.no_grad()
def states(model: TextGenerator, text: str) -> np.ndarray:
    """The vectors of the tokens of one text, by itself."""
    model.network.eval()
    tokens = [BEGIN, *model.vocabularies["text"].encode(text)]
    found: np.ndarray = model.network.decoder.states(Packed.of([tokens]), None)[1:].numpy()
    return found


def test_vectors_are_the_last_states_of_tokens_pooled(model: TextGenerator) -> None:
    alone = [states(model, text) for text in TEXTS]
    np.testing.assert_allclose(model.embed(TEXTS), [each.mean(0) for each in alone], atol=1e-5)
    np.testing.assert_allclose(model.embed(TEXTS, pool="last"), [each[-1] for each in alone], atol=1e-5)
    np.testing.assert_allclose(model.embed(TEXTS, pool="max"), [each.max(0) for each in alone], atol=1e-5)
    for found, expected in zip(model.embed(TEXTS, of="tokens"), alone, strict=True):
        np.testing.assert_allclose(found.vectors, expected, atol=1e-5)
    assert model.embed("a", of="tokens")[0].pieces == ["a"]
    assert not model.embed([""]).any()


def test_the_vector_of_a_token_does_not_know_what_follows(model: TextGenerator) -> None:
    (short,) = model.embed("the cat", of="tokens")
    (long,) = model.embed("the cat sat", of="tokens")
    np.testing.assert_allclose(long.vectors[: len(short.vectors)], short.vectors, atol=1e-5)


def test_the_first_vector_says_nothing(model: TextGenerator) -> None:
    with refuses(
        '`pool` is "first", but the first vector of a language model is the same for every text: use "last" or "mean".'
    ):
        model.embed(TEXTS, pool="first")


def test_layers_are_those_of_a_transformers_decoder() -> None:
    model = TextGenerator(language_bundle())
    embedding = model.network.decoder.embedding  # type: ignore[attr-defined]
    tokens = Packed.of([[BEGIN, *model.vocabularies["text"].encode("cat")]])
    with torch.no_grad():
        model.network.eval()
        expected = embedding(tokens.values, tokens.layout)[1:].numpy()
    np.testing.assert_allclose(model.embed("cat", of="tokens", layer=0)[0].vectors, expected, atol=1e-6)
    np.testing.assert_array_equal(model.embed("cat", layer=2), model.embed("cat", layer=-1))
    assert (model.embed("cat", layer=1) != model.embed("cat", layer=2)).any()
    with refuses("`layer` is 3, but the decoder has 2 layers: use 0, the embedding, to 2, or -1 for the last."):
        model.embed("cat", layer=3)
