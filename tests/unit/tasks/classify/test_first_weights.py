"""A bag of n-grams that begins with rarities and the solution of a regression: what its network then computes."""

import numpy as np
import pytest
import torch

from heedful.base.packed import Packed
from heedful.config.model.pooled import ClassifierModel
from heedful.data.batches.texts import TextCollator
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import mark_classes
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.networks import Classifier
from heedful.nn.layers.ngrams import NgramBag
from heedful.tasks.classify.classification import ClassLoss
from heedful.tasks.shared.pooled.first_weights import set_first_weights

STORE = TokenStore.of(
    text=[[5, 6, 7], [8, 6, 7], [5, 9], [8, 9, 9], [5, 7, 7], [8, 7]], label=[[0], [1], [0], [1], [0], [1]]
)


def aims(rows: Indices) -> torch.Tensor:
    return torch.from_numpy(mark_classes([STORE.sentence("label", int(row)).tolist() for row in rows], 2)).float()


def built(**options: object) -> tuple[Classifier, NgramBag]:
    encoder = {"family": "bag", "width": 4, "buckets": 40, "weighting": "rarity"}
    torch.manual_seed(1)
    table = ClassifierModel.model_validate({"family": "classifier", "encoder": encoder, **options})
    network = build_classifier(table, vocabulary=12, classes=2)
    assert isinstance(network.encoder, NgramBag)
    return network.eval(), network.encoder


@torch.no_grad()
def test_words_that_tell_the_class_weigh_more_than_their_rarity_and_rows_without_texts_nothing() -> None:
    network, bag = built()
    set_first_weights(network, bag, TextCollator(30), [STORE], ClassLoss(several=False), aims)
    assert bag.weights is not None
    in_three = np.log(7 / 4) + 1  # of six texts
    in_four = np.log(7 / 5) + 1
    assert float(bag.weights[5]) / in_three == pytest.approx(float(bag.weights[8]) / in_three)  # one class each
    assert float(bag.weights[5]) / in_three > 1.2 * float(bag.weights[7]) / in_four  # 7: two texts of each class
    assert float(bag.weights[10]) == 0


@pytest.mark.parametrize("several", [False, True])
@torch.no_grad()
def test_the_network_begins_as_the_regression(several: bool) -> None:
    network, bag = built(labels="several" if several else "one")
    set_first_weights(network, bag, TextCollator(30, classes=2 if several else 0), [STORE], ClassLoss(several), aims)
    text = TextCollator(30).batch([STORE], np.arange(6)).inputs
    assert isinstance(text, Packed)
    scores = network(text)
    assert scores.argmax(1).tolist() == [0, 1] * 3
    texts, rows, values = bag.features(text)
    assert bag.hashed is not None
    table = torch.cat([bag.embedding.weight, bag.hashed.weight])
    vectors = torch.zeros(6, 4).index_add(0, texts, values.unsqueeze(1) * table[rows])
    assert torch.allclose(network.output(vectors), scores, atol=1e-5)
    assert torch.allclose(torch.zeros(6).index_add(0, texts, values.square()), torch.ones(6))


@torch.no_grad()
def test_a_pool_that_is_not_the_mean_begins_with_rarities_alone() -> None:
    network, bag = built(pool="attention")
    before = network.output.weight.clone()
    set_first_weights(network, bag, TextCollator(30), [STORE], ClassLoss(several=False), aims)
    assert torch.equal(network.output.weight, before)
    assert bag.weights is not None
    assert float(bag.weights[5]) == pytest.approx(np.log(7 / 4) + 1)  # in three of six texts
    assert float(bag.weights[6]) == pytest.approx(np.log(7 / 3) + 1)
    assert float(bag.weights[10]) == 0
