"""What stands on an encoder, beside the equations computed number by number."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from heedful.config.model.bert import BertModel
from heedful.models.build.encoder_only import build_masked_model
from heedful.models.heads import MaskedHead, Pooler
from heedful.models.networks import MaskedModel
from heedful.nn.layers.linear import LayerNorm
from heedful.packed import Packed

WIDTH, WORDS, EPSILON = 6, 11, 1e-3
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
    with pytest.raises(AssertionError, match="a model without next-sentence prediction"):
        model.following(model(Packed.of(TEXTS)))
