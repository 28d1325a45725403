"""Texts and tokens as vectors, of every kind of encoder, beside a plain loop over one text at a time."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.shared.refusals import refuses
from tests.unit.tasks.masked_models import masked_bundle

from heedful.base.errors import UserError
from heedful.base.packed import Nested, Packed
from heedful.config.corpora.containers import Tsv
from heedful.config.data import Data
from heedful.config.model.pooled import ClassifierModel
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import ByteBpe, Words
from heedful.data.corpora.sentence_splitting import split_sentences
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import Bundle
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.hierarchical import HierarchicalEncoder
from heedful.models.networks import LanguageEncoder
from heedful.models.transformer.encoder import TransformerEncoder
from heedful.tasks.classify.model import TextClassifier
from heedful.tasks.fill.model import MaskFiller
from heedful.tasks.shared.embeddings import Embeds

TEXTS = [
    "the cat sat .",
    "the dog saw the ball . the cat sat on the mat . a ball",
    "dog",
    "the mat the mat the mat the mat , the cat",
    "Saw ☃",
] * 3
TRANSFORMER = {"family": "transformer", "width": 16, "heads": 2, "layers": 3, "inner": 24, "norm": "pre"}
ENCODERS: dict[str, dict[str, Any]] = {
    "transformer": TRANSFORMER,
    "gru": {"family": "recurrent", "width": 8},
    "lstm one way": {"family": "recurrent", "cell": "lstm", "width": 12, "bidirectional": False, "layers": 2},
    "bert": {"family": "bert", "preset": "tiny", "width": 16, "inner": 16},
}
HIERARCHICAL = {
    "family": "hierarchical",
    "words": {"family": "recurrent", "width": 6},
    "sentences": {"family": "recurrent", "width": 5},
    "max_sentence": 4,
}


def classifier(encoder: dict[str, Any], lowercase: bool = False, max_length: int = 24) -> TextClassifier:
    recipe = Recipe(
        data=Data(
            train=(Tsv(tsv="a.tsv", text=1, label=2),),
            max_length=max_length,
            batch_tokens=40,
            cut="middle",
            lowercase=lowercase,
        ),
        tokenizer=Words(kind="word"),
        model=ClassifierModel.model_validate({"family": "classifier", "encoder": encoder}),
    )
    assert isinstance(recipe.model, ClassifierModel)
    tokenizer = train_tokenizer(recipe.tokenizer, TEXTS)
    network = build_classifier(recipe.model, tokenizer.size, 2)
    return TextClassifier(Bundle(recipe, Vocabularies({"text": tokenizer}, ("no", "yes")), network))


def any_reader(name: str) -> Embeds[Any]:
    return MaskFiller(masked_bundle()) if name == "masked" else classifier(ENCODERS[name])


all_readers = pytest.mark.parametrize("name", ["masked", *ENCODERS])


def encoder_of(model: Embeds[Any]) -> torch.nn.Module:
    encoder = model.network.encoder
    assert isinstance(encoder, torch.nn.Module)
    return encoder


def states(model: Embeds[Any], text: str) -> NDArray[np.float32]:
    """Of one text alone, markers included."""
    ids = [BEGIN, *model.vocabularies["text"].encode(text), END]
    encoded: NDArray[np.float32] = evaluated(model, encoder_of(model), Packed.of([ids])).numpy()
    return encoded


@torch.no_grad()
def evaluated(model: Embeds[Any], encoder: torch.nn.Module, text: Packed | Nested) -> torch.Tensor:
    model.network.eval()
    values: torch.Tensor = encoder(text).values
    model.network.train()
    return values


def assert_close(found: NDArray[np.float32], expected: NDArray[np.float32] | Sequence[NDArray[np.float32]]) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# --- texts ------------------------------------------------------------------------------------------------------------


@all_readers
@pytest.mark.parametrize("pool", ["mean", "max", "first"])
@pytest.mark.parametrize("markers", [False, True])
def test_vectors_of_texts_are_those_of_each_text_alone(
    name: str, pool: Literal["mean", "max", "first"], markers: bool
) -> None:
    model = any_reader(name)
    inner = slice(None) if markers else slice(1, -1)
    of_pool = {
        "mean": lambda x: x[inner].mean(axis=0),
        "max": lambda x: x[inner].max(axis=0),
        "first": lambda x: x[0],
    }
    found = model.embed(TEXTS, pool=pool, markers=markers)
    assert found.dtype == np.float32
    assert_close(found, [of_pool[pool](states(model, text)) for text in TEXTS])
    assert model.network.training  # as it was


def test_the_mean_without_markers_is_the_default() -> None:
    model = any_reader("masked")
    assert np.array_equal(model.embed(TEXTS), model.embed(TEXTS, "text", pool="mean", layer=-1, markers=False))


def test_one_text_and_none_are_rows_too() -> None:
    model = any_reader("gru")
    assert_close(model.embed(TEXTS[0]), model.embed([TEXTS[0]]))
    assert model.embed(TEXTS[0]).shape == (1, 16)
    assert model.embed([]).shape == (0, 16)
    assert model.embed([], of="tokens") == []


@all_readers
@pytest.mark.parametrize("markers", [False, True])
@pytest.mark.parametrize("pool", ["mean", "max", "first"])
def test_a_blank_text_is_zeros_and_has_no_tokens(
    name: str, pool: Literal["mean", "max", "first"], markers: bool
) -> None:
    model = any_reader(name)
    for texts in (["", "the cat", " \t"], ["", " "]):
        found = model.embed(texts, pool=pool, markers=markers)
        assert not found[[0, -1]].any()
        assert len(texts) == 2 or found[1].any()
    assert found.shape == (2, 16 if name != "lstm one way" else 12)
    first, _, last = model.embed(["", "the cat", " "], of="tokens")
    assert first.pieces == last.pieces == []
    assert first.vectors.shape == (0, found.shape[1])


def test_white_space_alone_is_blank_even_where_spaces_are_pieces() -> None:
    filler = MaskFiller(masked_bundle(ByteBpe(size=300)))
    assert not filler.embed(["  "]).any()
    assert filler.embed(["  "], of="tokens")[0].pieces == []


def test_a_masked_model_embeds_tokens() -> None:
    filler = MaskFiller(masked_bundle())
    assert filler.embed("the cat", of="tokens")[0].pieces == ["the", "cat"]


def test_texts_are_given_their_form_and_cut_as_in_training() -> None:
    model = classifier(TRANSFORMER, lowercase=True, max_length=7)
    assert_close(model.embed(["THE Cat"]), model.embed(["the cat"]))
    long, short = model.embed(["the cat sat on the mat dog", "the cat sat mat dog"], of="tokens")  # cut in the middle
    assert long.pieces == short.pieces == ["the", "cat", "sat", "mat", "dog"]
    assert_close(long.vectors, short.vectors)


# --- tokens -----------------------------------------------------------------------------------------------------------


@all_readers
def test_vectors_of_tokens_are_those_of_each_text_alone(name: str) -> None:
    model = any_reader(name)
    tokenizer = model.vocabularies["text"]
    for text, (pieces, vectors) in zip(TEXTS, model.embed(TEXTS, of="tokens"), strict=True):
        assert pieces == tokenizer.pieces(tokenizer.encode(text))
        assert vectors.dtype == np.float32
        assert_close(vectors, states(model, text)[1:-1])
    marked = model.embed(TEXTS[0], of="tokens", markers=True)[0]
    assert marked.pieces == ["<s>", "the", "cat", "sat", ".", "</s>"]
    assert_close(marked.vectors, states(model, TEXTS[0]))


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["masked", "transformer", "bert"])
def test_a_layer_is_what_a_block_puts_out(name: str) -> None:
    model = any_reader(name)
    encoder = encoder_of(model)
    assert isinstance(encoder, TransformerEncoder)
    seen: list[torch.Tensor] = []
    parts = [encoder.embedding, *encoder.blocks]
    hooks = [part.register_forward_hook(lambda module, given, out: seen.append(out)) for part in parts]
    last = states(model, TEXTS[1])
    for hook in hooks:
        hook.remove()
    blocks = len(encoder.blocks)
    expected = [*(state.numpy() for state in seen[:-1]), last]  # with the norm at the end
    for layer in range(blocks + 1):
        for number in (layer, layer - blocks - 1):
            (found,) = model.embed(TEXTS[1], of="tokens", markers=True, layer=number)
            assert_close(found.vectors, expected[layer])
    assert not np.allclose(expected[-1], expected[-2], atol=1e-3)
    assert_close(model.embed(TEXTS[1], layer=1), [expected[1][1:-1].mean(axis=0)])


# --- documents --------------------------------------------------------------------------------------------------------


def nested(model: Embeds[Any], text: str) -> Nested:
    """Sentences of four words at most, each with its end marker."""
    sentences = [model.vocabularies["text"].encode(sentence) for sentence in split_sentences(text)]
    parts = [sentence[begin : begin + 4] for sentence in sentences for begin in range(0, len(sentence), 4)]
    return Nested.of([[[*part, END] for part in parts]])


def test_a_documents_vector_is_made_of_its_sentences() -> None:
    model = classifier(HIERARCHICAL)
    texts = [*TEXTS, "", "dog . cat"]
    for pool in ("mean", "max", "first"):
        found = model.embed(texts, pool=pool)
        assert found.shape == (len(texts), 10)
        for text, vector in zip(texts, found, strict=True):
            sentences = evaluated(model, encoder_of(model), nested(model, text)).numpy()
            expected = {"mean": np.mean, "max": np.max, "first": lambda x, axis: x[0]}[pool]
            assert_close(vector, expected(sentences, axis=0) if len(sentences) else np.zeros(10, np.float32))  # type: ignore[operator]


def test_a_documents_tokens_are_those_of_its_sentences() -> None:
    model = classifier(HIERARCHICAL)
    encoder = encoder_of(model)
    assert isinstance(encoder, HierarchicalEncoder)
    texts = [*TEXTS, "", "dog . cat"]
    for text, (pieces, vectors), (marked, all_vectors) in zip(
        texts, model.embed(texts, of="tokens"), model.embed(texts, of="tokens", markers=True), strict=True
    ):
        document = nested(model, text).words
        expected = evaluated(model, encoder.words.encoder, document).numpy() if text else np.zeros((0, 12), np.float32)
        words = document.values.numpy() != END
        assert pieces == model.vocabularies["text"].pieces(document.values[words].tolist())
        assert_close(vectors, expected[words])
        assert marked == model.vocabularies["text"].pieces(document.values.tolist())
        assert_close(all_vectors, expected)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def refusal(model: Embeds[Any], **options: object) -> str:
    with pytest.raises(UserError) as caught:
        model.embed(["the cat"], **options)  # type: ignore[call-overload]
    return str(caught.value)


def test_what_cannot_be_asked_is_refused() -> None:
    model = any_reader("masked")
    assert refusal(model, of="words") == '`of` is "words", but must be "text" or "tokens".'
    assert refusal(model, pool="sum") == '`pool` is "sum", but must be "mean", "first", "max", "last" or "context".'
    for layer in (3, -4):
        assert refusal(model, layer=layer) == (
            f"`layer` is {layer}, but the encoder has 2 layers: use 0, the embedding, to 2, or -1 for the last."
        )
    for encoder in (ENCODERS["gru"], HIERARCHICAL):
        assert refusal(classifier(encoder), layer=1) == (
            "`layer` is 1, but only Transformers have layers to choose from: leave it out."
        )


# --- a language model as the encoder ----------------------------------------------------------------------------------

GPT = {"family": "language", "decoder": {**TRANSFORMER, "positions": "rope"}}


def test_vectors_of_a_classifier_on_a_language_model_are_its_states_after_any_layer() -> None:
    model = classifier(GPT)
    model.network.eval()
    text = Packed.of([[BEGIN, *model.vocabularies["text"].encode(TEXTS[0]), END]])
    with torch.no_grad():
        (found,) = model.embed([TEXTS[0]], of="tokens", markers=True)
        np.testing.assert_allclose(found.vectors, model.network.encoder(text).values.numpy(), rtol=1e-4, atol=1e-5)
        (below,) = model.embed([TEXTS[0]], of="tokens", markers=True, layer=0)
    assert found.pieces[-1] == "</s>"
    assert isinstance(model.network.encoder, LanguageEncoder)
    extract = model.network.encoder.markers[1].detach().numpy()
    np.testing.assert_allclose(below.vectors[-1], extract, rtol=1e-4, atol=1e-5)


def test_the_first_vector_of_a_language_model_as_an_encoder_says_nothing() -> None:
    with refuses('`pool` is "first", but the...'):
        classifier(GPT).embed(["a"], pool="first")
    with refuses("`layer` is 4, but the decoder has 3 layers..."):
        classifier(GPT).embed(["a"], layer=4)
