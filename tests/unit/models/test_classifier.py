"""Classifiers: what their recipe builds, their equation part by part, how they begin, and how they are kept."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.base.packed import Layout, Packed
from heedful.config.model.attention import PoolName
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.pooled import ClassifierModel
from heedful.config.recipe import Recipe
from heedful.data.batches.texts import DocumentCollator
from heedful.data.token_store import TokenStore
from heedful.data.tokenize.tokenizer import Tokenizer
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import read_bundle, read_description, write_description, write_weights
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model
from heedful.models.from_recipe.network import build_network
from heedful.models.heads import Pooler
from heedful.models.hierarchical import HierarchicalEncoder, VectorEncoder
from heedful.models.networks import Classifier, MaskedModel, set_precision, store_in
from heedful.models.recurrent.encoder import RecurrentEncoder
from heedful.models.transformer.encoder import TransformerEncoder

TINY = {"width": 8, "heads": 2, "layers": 2, "inner": 12}
ENCODERS: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer", **TINY},
    "recurrent": {"family": "recurrent", "width": 5, "embedding": 7},
    "hierarchical": {"family": "hierarchical", "words": {"family": "recurrent", "width": 5}, "sentences": {"width": 3}},
    "bert": {"family": "bert", **TINY},
}
SENTENCES = [[1, 5, 6, 2], [1, 7, 2], [1, 8, 9, 5, 2]]


def table(encoder: str | dict[str, Any] = "transformer", **options: Any) -> ClassifierModel:
    chosen = ENCODERS[encoder] if isinstance(encoder, str) else encoder
    return ClassifierModel.model_validate({"family": "classifier", "encoder": chosen, **options})


def built(encoder: str | dict[str, Any] = "transformer", **options: Any) -> Classifier:
    return build_classifier(table(encoder, **options), vocabulary=10, classes=3)


# --- what is built ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoder", "kind", "width"),
    [
        ("transformer", TransformerEncoder, 8),
        ("recurrent", RecurrentEncoder, 10),
        ("hierarchical", HierarchicalEncoder, 6),
        ("bert", TransformerEncoder, 8),
    ],
)
def test_a_recipe_builds_its_encoder_with_a_map_to_its_classes(encoder: str, kind: type, width: int) -> None:
    for pool in get_args(PoolName):
        model = built(encoder, pool=pool)
        assert isinstance(model.encoder, kind)
        assert model.output.weight.shape == (3, width)
    assert isinstance(model.pooler, nn.Identity)
    assert isinstance(built(encoder, pooler=True).pooler, Pooler)


def test_words_and_sentences_of_documents_have_networks_of_their_own() -> None:
    encoder = built("hierarchical").encoder
    assert isinstance(encoder, HierarchicalEncoder)
    assert isinstance(encoder.words.encoder, RecurrentEncoder)
    assert isinstance(encoder.sentences, VectorEncoder)
    assert (encoder.words.encoder.stack.output_width, encoder.sentences.stack.output_width) == (10, 6)


def by_definition(name: str, x_LE: Tensor, pool: Any) -> Tensor:
    """One vector of a sentence's."""
    match name:
        case "first":
            return x_LE[0]
        case "last":
            return x_LE[-1]
        case "mean":
            return x_LE.mean(0)
        case "max":
            return x_LE.max(0).values
        case "attention":
            return pool.context(pool.inner(x_LE).tanh()).softmax(0).T[0] @ x_LE
        case _:
            return (pool.out(torch.nn.functional.elu(pool.inner(x_LE))).softmax(0) * x_LE).sum(0)


@pytest.mark.parametrize("pooler", [False, True])
@pytest.mark.parametrize("pool", get_args(PoolName))
@torch.no_grad()
def test_scores_are_the_equation_sentence_by_sentence(pool: str, pooler: bool) -> None:
    model = built(pool=pool, pooler=pooler).double().eval()
    set_precision(model, torch.float64)
    scores = model(Packed.of(SENTENCES))
    for number, sentence in enumerate(SENTENCES):
        y = by_definition(pool, model.encoder(Packed.of([sentence])).values, model.pooled.pool)
        if pooler:
            linear = model.get_submodule("pooler.linear")
            assert isinstance(linear, nn.Linear)
            y = torch.tanh(linear.weight @ y + linear.bias)
        assert torch.allclose(scores[number], model.output.weight @ y + model.output.bias, rtol=1e-10, atol=1e-12)


def test_vectors_are_dropped_before_the_map_to_classes_in_training_alone() -> None:
    model = built(dropout=0.9, encoder=ENCODERS["transformer"] | {"dropout": 0.0})
    text = Packed.of(SENTENCES)
    assert not torch.equal(model(text), model(text))
    model.eval()
    assert torch.equal(model(text), model(text))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_gpu_holds_matrices_in_the_type_it_computes_in_and_scores_come_in_it(encoder: str) -> None:
    model = built(encoder).eval()
    set_precision(model, torch.bfloat16)
    text: Any = Packed.of(SENTENCES)
    if encoder == "hierarchical":
        store = TokenStore.of(text=[[5, 6, 7], [8]], sentences=[[2, 1], [1]])
        text = DocumentCollator(9, 9).batch([store], np.arange(2)).inputs
    before = model(text)
    assert before.dtype == torch.bfloat16
    store_in(model, torch.bfloat16)
    assert torch.allclose(model(text).float(), before.float(), atol=0.06)
    kept = {p.dtype for module in model.modules() if isinstance(module, nn.LayerNorm) for p in module.parameters()}
    assert kept <= {torch.float32}


# --- segments ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_the_embedding_adds_position_and_segment_and_is_normed() -> None:
    """x = N(W[token] + P(position) + S[segment])      Devlin et al. 2019, 3"""
    encoder = built("bert").eval().encoder
    assert isinstance(encoder, TransformerEncoder)
    embedding = encoder.embedding
    tokens, segments = torch.tensor([1, 5, 2, 6, 2, 1, 7]), torch.tensor([0, 0, 0, 1, 1, 0, 0])
    layout = Layout.of([5, 2])
    assert embedding.segments is not None
    assert embedding.positions is not None
    positions = embedding.positions.get_parameter("weight")[layout.positions]
    x = embedding.weight[tokens] + positions + embedding.segments[segments]
    expected = (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-12).sqrt()
    assert torch.allclose(embedding(tokens, layout, segments), expected, atol=1e-5)
    assert torch.equal(embedding(tokens, layout), embedding(tokens, layout, torch.zeros_like(segments)))


@torch.no_grad()
def test_without_vectors_of_segments_they_say_nothing() -> None:
    plain, told = built().eval(), built(encoder=ENCODERS["transformer"] | {"segments": 2}).eval()
    text = Packed.of(SENTENCES)
    other = Packed(text.values, text.layout, torch.ones_like(text.values))
    assert torch.equal(plain(text), plain(other))
    assert not torch.allclose(told(text), told(other), atol=1e-4)


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [ENCODERS["recurrent"], ENCODERS["transformer"]], ids=["recurrent", "transformer"])
@pytest.mark.parametrize("lengths", [[[]], [[], []], [[], [2, 1], []]])
def test_documents_without_a_word_have_scores_and_do_no_harm_to_gradients(
    words: dict[str, Any], lengths: list[list[int]]
) -> None:
    model = built(encoder={"family": "hierarchical", "words": words, "sentences": {"width": 3}})
    store = TokenStore.of(text=[[5] * sum(each) for each in lengths], sentences=lengths)
    scores = model(DocumentCollator(9, 9).batch([store], np.arange(len(lengths))).inputs)
    assert scores.shape == (len(lengths), 3)
    scores.sum().backward()
    assert torch.equal(scores.detach()[0], model.output.bias.detach())  # nothing was read
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


# --- how weights begin ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: build_classifier(table("bert", pooler=True), 500, 3),
        lambda: build_masked_model(BertModel.model_validate(ENCODERS["bert"]), 500),
    ],
    ids=["classifier", "masked"],
)
def test_bert_begins_with_small_normal_weights_biases_at_zero_and_norms_at_one(make: Callable[[], nn.Module]) -> None:
    model = make()
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            assert parameter.abs().max() <= 0.04, name  # two deviations
            expected = 0.02 * 0.8796  # of a normal distribution that ends at two deviations
            assert float(parameter.detach().std()) == pytest.approx(expected, rel=4 / math.sqrt(parameter.numel())), (
                name
            )
        elif name.endswith("bias"):
            assert not parameter.any(), name
        else:
            assert (parameter == 1).all(), name


def test_other_encoders_begin_as_everywhere() -> None:
    model = built("transformer", pool="attention")
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            bound = math.sqrt(6 / sum(module.weight.shape))
            assert module.weight.abs().max() <= bound, name
            assert module.bias is None or not module.bias.any(), name
    assert model.output.weight.abs().max() > 0.1


def test_a_masked_model_scores_with_its_embedding() -> None:
    model = build_masked_model(BertModel.model_validate(ENCODERS["bert"]), 10)
    assert isinstance(model.encoder, TransformerEncoder)
    assert model.head.output.weight is model.encoder.embedding.weight
    names = [name for name, _ in model.named_parameters()]
    assert "encoder.embedding.weight" in names
    assert "head.output.weight" not in names


def test_a_model_that_is_not_asked_what_follows_has_no_head_for_it() -> None:
    model = build_masked_model(BertModel.model_validate({**ENCODERS["bert"], "next_sentence": False}), 10)
    assert (model.pooler, model.follows) == (None, None)


# --- bundles ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = Recipe.model_validate({"data": {"train": {"source": "a", "target": "b"}}, "tokenizer": {"kind": "word"}})
    return train_tokenizer(config.tokenizer, ["ant bee cat dog"])


def bundle(folder: Path, tokenizer: Tokenizer, encoder: str = "transformer") -> Classifier:
    """A classifier with fresh weights on disk."""
    corpus = {"tsv": "a.tsv", "text": 2, "label": 1}
    recipe = Recipe.model_validate(
        {"data": {"train": corpus}, "tokenizer": {"kind": "word"}, "model": table(encoder, pooler=True)}
    )
    vocabularies = Vocabularies({"text": tokenizer}, labels=("no", "Ünsure", "yes, of course"))
    model = build_network(recipe.model, vocabularies)
    assert isinstance(model, Classifier)
    write_description(folder, recipe, vocabularies)
    write_weights(folder, model)
    return model


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_classifier_comes_back_with_its_classes(tmp_path: Path, tokenizer: Tokenizer, encoder: str) -> None:
    model = bundle(tmp_path, tokenizer, encoder)
    read = read_bundle(tmp_path, Classifier)
    assert read.vocabularies.labels == ("no", "Ünsure", "yes, of course")
    assert read.recipe.model == table(encoder, pooler=True)
    for name, parameter in model.named_parameters():
        assert torch.equal(read.model.get_parameter(name), parameter), name


def test_a_bundle_of_another_kind_is_refused_with_its_verb(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle(tmp_path, tokenizer)
    message = r" is a model that classifies: load it with `heedful\.TextClassifier\.load\(\S+\)`\.$"
    with pytest.raises(UserError, match=message):
        read_bundle(tmp_path)
    with pytest.raises(UserError, match=message):
        read_bundle(tmp_path, MaskedModel)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "must be there for a ..."),
        ([], "must be there for a ..."),
        ("no", "must be a list of names"),
        (["no", 1, "yes"], "must be a list of names"),
    ],
)
def test_damaged_names_of_classes_are_refused(
    tmp_path: Path, tokenizer: Tokenizer, labels: object, message: str
) -> None:
    bundle(tmp_path, tokenizer)
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop("labels")
    (tmp_path / "config.json").write_text(json.dumps(config | ({} if labels is None else {"labels": labels})))
    with refuses(f"{tmp_path / 'config.json'}: `labels` {message}: restore it from a copy of the model."):
        read_description(tmp_path)


def test_classes_that_the_weights_do_not_have_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bundle(tmp_path, tokenizer)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"labels": ["no", "yes"]}))
    with refuses("...does not fit its config.json: `output.weight` is (3, 8) there, but must be..."):
        read_bundle(tmp_path, Classifier)


def test_names_of_classes_are_of_classifiers_alone(tmp_path: Path, tokenizer: Tokenizer) -> None:
    values = {"data": {"train": {"text": "a"}}, "tokenizer": {"kind": "word"}, "model": ENCODERS["bert"]}
    write_description(tmp_path, Recipe.model_validate(values), Vocabularies({"text": tokenizer}))
    config = json.loads((tmp_path / "config.json").read_text())
    assert "labels" not in config
    assert read_description(tmp_path)[1].labels == ()
    (tmp_path / "config.json").write_text(json.dumps(config | {"labels": ["a"]}))
    with refuses("...`labels` must be there for a classifier, and for nothing else..."):
        read_description(tmp_path)
