"""What stands on an encoder, beside the equations computed number by number."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.refusals import refuses
from torch import nn

from heedful.base.packed import Layout, Packed
from heedful.config.model.encoder_only import BertModel, ReaderModel, TaggerModel
from heedful.config.model.pooled import ClassifierModel
from heedful.data.batches.tagged import TaggedBatch
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model, build_reader, build_tagger
from heedful.models.heads import Hidden, MaskedHead, OneScore, Pooler
from heedful.models.networks import Classifier, MaskedModel, SpanReader, WordClassifier
from heedful.nn.layers.linear import LayerNorm

WIDTH, WORDS, EPSILON = 6, 11, 1e-3
HEAD: dict[str, Any] = {"encoder": {"family": "recurrent", "width": WIDTH // 2}, "head_hidden": 5}
TEXTS = [[1, 7, 8, 9, 2], [1, 2], [1, 5, 6, 2]]


def randomised(module: nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()


def masked_model(**options: object) -> MaskedModel:
    shape = {"family": "bert", "width": WIDTH, "heads": 2, "layers": 1, "inner": 8, "max_positions": 9}
    model = build_masked_model(BertModel.model_validate({**shape, **options}), WORDS)
    randomised(model)
    return model.eval()


def test_a_pooler_is_tanh_of_a_linear_map() -> None:
    pooler = Pooler(WIDTH)
    randomised(pooler)
    x, weight, bias = (tensor.detach().tolist() for tensor in (torch.randn(3, WIDTH), *pooler.parameters()))
    expected = [
        [math.tanh(sum(w * v for w, v in zip(row, text, strict=True)) + b) for row, b in zip(weight, bias, strict=True)]
        for text in x
    ]
    np.testing.assert_allclose(pooler(torch.tensor(x)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def dense(x: torch.Tensor, layer: nn.Module) -> list[list[float]]:
    """Each number of a linear map by itself."""
    weight, bias = (parameter.tolist() for parameter in layer.parameters())
    return [
        [sum(w * v for w, v in zip(row, vector, strict=True)) + b for row, b in zip(weight, bias, strict=True)]
        for vector in x.tolist()
    ]


def text_classifier(**options: Any) -> Classifier:
    table = {"family": "classifier", "pool": "mean", **HEAD, **options}
    model = build_classifier(ClassifierModel.model_validate(table), WORDS, 3)
    randomised(model)
    return model


def check_hidden(model: Classifier | WordClassifier | SpanReader, vectors: torch.Tensor, found: torch.Tensor) -> None:
    """Compare scores of vectors with relu(W x + b), then another linear map."""
    assert isinstance(model.hidden, Hidden)
    hidden = [[max(0.0, value) for value in row] for row in dense(vectors, model.hidden.linear)]
    np.testing.assert_allclose(found.detach().numpy(), dense(torch.tensor(hidden), model.output), rtol=1e-4, atol=1e-4)


def test_the_hidden_layer_of_a_head_is_relu_of_a_linear_map() -> None:
    text = Packed.of(TEXTS)
    classifier = text_classifier().eval()
    check_hidden(classifier, classifier.pooled(text), classifier(text))
    reader = build_reader(ReaderModel.model_validate({"family": "reader", **HEAD}), WORDS).eval()
    randomised(reader)
    check_hidden(reader, reader.encoder(text).values, reader(text))
    tagger = build_tagger(TaggerModel.model_validate({"family": "tagger", **HEAD}), WORDS, ["A", "B", "C"]).eval()
    randomised(tagger)
    places = torch.tensor([1, 2, 6, 8])
    batch = TaggedBatch(text, Layout.of([2, 0, 2]), places, torch.zeros_like(places), 3, len(text.values), 4)
    check_hidden(tagger, tagger.encoder(text).values[places], tagger(batch))


def test_a_hidden_layer_has_dropout_before_and_after_it() -> None:
    model = text_classifier(dropout=0.9999)
    assert isinstance(model.hidden, Hidden)
    assert isinstance(model.output.bias, nn.Parameter)
    assert isinstance(model.hidden.linear.bias, nn.Parameter)
    encoded = Packed(torch.full((2, WIDTH), 5.0), Layout.of([1, 1]))
    torch.testing.assert_close(model.train().scores(encoded), model.output.bias.expand(2, 3))  # all else is dropped
    model.drop.share = 0.0
    hidden = model.hidden.linear.bias.relu()
    torch.testing.assert_close(model.scores(encoded), model.output(hidden).expand(2, 3))


def test_one_score_of_two_classes_is_the_logit_of_the_second() -> None:
    table = ClassifierModel.model_validate({"family": "classifier", "pool": "mean", "one_score": True, **HEAD})
    model = build_classifier(table, WORDS, 2).eval()
    randomised(model)
    assert isinstance(model.output, OneScore)
    text, x = Packed.of(TEXTS), torch.randn(3, 5)
    logits = [score for (score,) in dense(x, model.output)]
    expected = [[1 / (1 + math.exp(score)), 1 / (1 + math.exp(-score))] for score in logits]
    np.testing.assert_allclose(model.output(x).softmax(1).detach().numpy(), expected, rtol=1e-4)
    assert model(text).shape == (3, 2)
    for label in range(2):  # an explanation by gradients needs them for both classes
        assert model.output(x.requires_grad_())[:, label].sum().backward() is None
        assert x.grad is not None
        assert x.grad.abs().sum() > 0
        x.grad = None
    with refuses("`model.one_score` decides between two classes, but the training data has 3: leave it out."):
        build_classifier(table, WORDS, 3)
    with refuses("`model.one_score` decides ... but the training data has 1: leave it out."):
        build_classifier(table, WORDS, 1)


def test_a_masked_head_is_norm_of_gelu_of_a_linear_map_against_the_embedding() -> None:
    weight, bias = nn.Parameter(torch.randn(WORDS, WIDTH)), nn.Parameter(torch.randn(WORDS))
    norm = LayerNorm(WIDTH, eps=EPSILON)
    head = MaskedHead(WIDTH, weight, bias, norm)
    randomised(head)
    for x in torch.randn(3, WIDTH):
        inner = [
            sum(w * v for w, v in zip(row, x.tolist(), strict=True)) + b
            for row, b in zip(head.linear.weight.tolist(), head.linear.bias.tolist(), strict=True)
        ]
        active = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in inner]  # gelu, not its approximation
        mean = sum(active) / WIDTH
        deviation = math.sqrt(sum((value - mean) ** 2 for value in active) / WIDTH + EPSILON)
        normed = [
            (value - mean) / deviation * scale + shift
            for value, scale, shift in zip(active, norm.weight.tolist(), norm.bias.tolist(), strict=True)
        ]
        expected = [sum(w * v for w, v in zip(row, normed, strict=True)) for row in weight.tolist()]
        scores = head(x.unsqueeze(0))[0].tolist()
        assert scores == pytest.approx([score + b for score, b in zip(expected, bias.tolist(), strict=True)], rel=1e-3)
        assert head.states(x.unsqueeze(0))[0].tolist() == pytest.approx(normed, rel=1e-4, abs=1e-5)


def test_the_head_scores_by_the_embeddings_own_matrix() -> None:
    model = masked_model()
    embedding = model.encoder.embedding
    assert isinstance(embedding, nn.Module)
    assert model.head.output.weight is embedding.weight
    assert "head.output.weight" not in dict(model.named_parameters())
    model.head(torch.randn(2, WIDTH)).sum().backward()
    assert model.head.output.weight.grad is not None


def test_masked_states_are_those_of_the_asked_places() -> None:
    model = masked_model()
    encoded = model(Packed.of(TEXTS))
    places = torch.tensor([8, 1, 1, 5])
    found = model.masked(encoded, places)
    for row, place in enumerate(places.tolist()):
        torch.testing.assert_close(found[row], model.head.states(encoded.values[place : place + 1])[0])


def test_whether_a_text_follows_is_asked_of_the_first_token() -> None:
    model = masked_model()
    assert model.pooler is not None
    assert model.follows is not None
    encoded = model(Packed.of(TEXTS))
    firsts = encoded.values[torch.tensor([0, 5, 7])]
    torch.testing.assert_close(model.following(encoded), model.follows(model.pooler(firsts)))


def test_a_model_without_next_sentences_has_no_head_for_them() -> None:
    model = masked_model(next_sentence=False)
    assert (model.pooler, model.follows) == (None, None)
    assert not [name for name, _ in model.named_parameters() if name.startswith(("pooler", "follows"))]
    with refuses("...a model without next-sentence prediction...", AssertionError):
        model.following(model(Packed.of(TEXTS)))
