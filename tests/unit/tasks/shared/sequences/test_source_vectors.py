"""Vectors of translators and parsers, beside a plain loop over one source at a time."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from tests.shared.refusals import Refusal, each, refuses

import heedful
from heedful.base.packed import Packed
from heedful.config.model.mixed import MixedModel
from heedful.data.tokenize.tokenizer import END
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.network import build_model
from heedful.tasks.parse.model import Parser
from heedful.tasks.translate.model import Translator

BUNDLES: Final = Path(__file__).parents[4] / "golden" / "bundles"
TEXTS: Final = ["the dog sees a cat", "a cat sees the dog", "", "the small dog", "dog"]


def load(name: str) -> Any:
    return heedful.load(BUNDLES / name, device="cpu")


@torch.no_grad()
def memory(model: Any, text: str) -> Any:
    """What the decoder gets of one source."""
    model.network.eval()
    return model.network.encoder(Packed.of([[*model.encode([text])[0], END]]))


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["transformer", "recurrent-bahdanau", "recurrent-luong-local"])
def test_a_translator_that_attends_has_the_mean_of_its_states(name: str) -> None:
    model = load(name)
    vectors = model.embed(TEXTS)
    assert vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        close(vector, memory(model, text).values[:-1].mean(dim=0) if text else np.zeros_like(vector))
    marked = model.embed(TEXTS, markers=True, pool="last")
    close(marked[0], memory(model, TEXTS[0]).values[-1])


@pytest.mark.parametrize("name", ["recurrent-sutskever", "recurrent-cho"])
def test_a_translator_without_attention_has_its_context(name: str) -> None:
    model = load(name)
    vectors = model.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        last = memory(model, text).last.hidden if text else None
        directions = 1 if last is None else vectors.shape[1] // last.shape[2]
        expected = np.zeros_like(vector) if last is None else last[-directions:, 0].flatten()
        close(vector, expected)
    assert np.array_equal(vectors, model.embed(TEXTS, pool="context"))
    close(model.embed(TEXTS[0], pool="mean")[0], memory(model, TEXTS[0]).values[:-1].mean(dim=0))


def test_tokens_have_vectors_too_and_a_blank_source_has_none() -> None:
    model = load("recurrent-bahdanau")
    first, _, blank, *_ = model.embed(TEXTS, of="tokens")
    assert first.pieces == model.vocabularies["source"].pieces(model.encode(TEXTS[:1])[0])
    close(first.vectors, memory(model, TEXTS[0]).values[:-1])
    assert (blank.pieces, blank.vectors.shape) == ([], (0, first.vectors.shape[1]))
    assert model.embed([]).shape == (0, first.vectors.shape[1])


def test_the_tag_of_a_target_language_is_a_marker_that_the_encoder_reads() -> None:
    model = load("transformer-languages")
    german, spanish = (model.embed(TEXTS[:1], to=language)[0] for language in ("de", "es"))
    states = memory(model, f"<2de> {TEXTS[0]}").values
    close(german, states[1:-1].mean(dim=0))
    close(model.embed([f"<2de> {TEXTS[0]}"])[0], german)
    assert not np.allclose(german, spanish)
    with refuses("texts, line 2 does not say its target language: ..."):
        model.embed(["", TEXTS[0]])


def test_a_parser_has_vectors_of_the_words_that_it_reads() -> None:
    model = load("parser")
    assert isinstance(model, Parser)
    vectors = model.embed(["a bird ( the girl ) sings", "a bird -LRB- the girl -RRB- sings"])
    assert vectors.any()
    assert np.array_equal(*vectors)


def mixed() -> Translator:
    """A Transformer that reads, and a decoder without attention, which gets the mean of its states."""
    bundle = load("transformer").bundle
    table = MixedModel.model_validate(
        {
            "family": "mixed",
            "encoder": {"family": "transformer", "width": 8, "heads": 2, "layers": 1, "inner": 8},
            "decoder": {"family": "recurrent", "wiring": "cho", "width": 8},
        }
    )
    recipe = bundle.recipe.model_copy(update={"model": table})
    sizes = (bundle.vocabularies["source"].size, bundle.vocabularies["target"].size)
    return Translator(Bundle(recipe, bundle.vocabularies, build_model(table, *sizes)))


def test_the_context_of_an_encoder_that_is_not_recurrent_is_the_mean_of_its_states() -> None:
    model = mixed()
    close(model.embed(TEXTS[0])[0], memory(model, TEXTS[0]).values.mean(dim=0))


@each(
    [
        Refusal(
            "the context of a model that attends",
            lambda attending: attending.embed("ant", pool="context"),
            '`pool` is "context", but only a translator or a parser without attention has one vector for a text: use '
            '"mean", "max" or "last".',
        ),
        Refusal(
            "a marker that sources do not have",
            lambda attending: attending.embed("ant", pool="first"),
            '`pool` is "first", the vector of `<s>`, but a source has none: use "mean" or "last".',
        ),
        Refusal(
            "a layer of a context",
            lambda _: mixed().embed("dog", layer=0),
            "`layer` is 0, but the context is made by the last one: leave it out.",
        ),
        Refusal(
            "a target language of a classifier",
            lambda _: load("classifier-transformer").embed("good", to="de"),
            "`to` is `de`, but only translators have target languages: leave it out.",
        ),
    ]
)
def test_mistakes(refusal: Refusal, reversing: Translator) -> None:
    refusal.check(reversing)
