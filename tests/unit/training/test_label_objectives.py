"""What training a classifier minimises, against torch's losses of each text alone."""

import math
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.base.packed import IGNORED, Packed
from heedful.config.model.pooled import ClassifierModel
from heedful.data.batches.texts import TextBatch, TextCollator
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.networks import Classifier, set_precision
from heedful.tasks.classify.objective import OneLabel, SeveralLabels

CLASSES = 4
TEXTS = [[4, 5, 6], [7], [8, 9, 4, 4], [5, 6]]
LABELS = [[2], [0], [3], [0]]
SEVERAL = [[2, 0], [], [3], [0, 1, 2, 3]]
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
STATIC = StaticShape.around(tokens=40, max_sentences=6, longest=8)


@pytest.fixture
def model() -> Classifier:
    """In float64, without dropout."""
    encoder = {"family": "transformer", "width": 8, "heads": 2, "layers": 1, "inner": 8}
    config = ClassifierModel.model_validate({"family": "classifier", "encoder": encoder})
    made = build_classifier(config, 10, CLASSES).double().eval()
    set_precision(made, torch.float64)
    torch.nn.init.normal_(made.output.bias)
    return made


def batch_of(labels: list[list[int]], rows: list[int], classes: int = 0, **shape: Any) -> TextBatch:
    store = TokenStore.of(text=TEXTS, label=labels)
    return TextCollator(8, classes=classes).batch([store], np.array(rows), **shape)


@torch.no_grad()
def scores_alone(model: Classifier, row: int) -> Tensor:
    """Of one text in a batch of its own."""
    return cast(Tensor, model(Packed.of([[1, *TEXTS[row], 2]])))[0].float()


def one_label(scores_C: Tensor, label: int, smoothing: float, weights_C: Tensor | None) -> float:
    """- sum over classes of q log p, q = (1 - s) [c = label] + s / C, each term with its class's weight"""
    logs = scores_C.log_softmax(0)
    weights_C = torch.ones(CLASSES) if weights_C is None else weights_C
    aims = [(1 - smoothing) * (number == label) + smoothing / CLASSES for number in range(CLASSES)]
    return -sum(float(w) * q * float(p) for w, q, p in zip(weights_C, aims, logs, strict=True))


def several_labels(scores_C: Tensor, labels: list[int], smoothing: float, weights_C: Tensor | None) -> float:
    """- sum over classes of w q log sigmoid(x) + (1 - q) log sigmoid(-x), 1 smoothed to 1 - s/2 and 0 to s/2"""
    weights_C = torch.ones(CLASSES) if weights_C is None else weights_C
    total = 0.0
    for number, (score, weight) in enumerate(zip(scores_C.tolist(), weights_C.tolist(), strict=True)):
        aim = 1 - smoothing / 2 if number in labels else smoothing / 2
        total -= weight * aim * math.log(1 / (1 + math.exp(-score)))
        total -= (1 - aim) * math.log(1 / (1 + math.exp(score)))
    return total


# --- one label --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS.float()], ids=["", "weighted"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_one_label_is_the_sum_of_what_each_text_alone_has(
    model: Classifier, smoothing: float, weights: Tensor | None
) -> None:
    rows = [3, 0, 2, 1]
    sums = OneLabel(smoothing, weights)(model, batch_of(LABELS, rows))
    alone = [scores_alone(model, row) for row in rows]
    labels = [LABELS[row][0] for row in rows]
    expected = sum(one_label(s, label, smoothing, weights) for s, label in zip(alone, labels, strict=True))
    assert float(sums.loss.detach()) == pytest.approx(expected, rel=1e-5)
    library = [
        F.cross_entropy(s[None], torch.tensor([label]), weights, label_smoothing=smoothing, reduction="sum")
        for s, label in zip(alone, labels, strict=True)
    ]
    assert float(sums.loss.detach()) == pytest.approx(float(sum(library)), rel=1e-5)
    likelihood = -sum(float(s.log_softmax(0)[label]) for s, label in zip(alone, labels, strict=True))
    assert float(sums.likelihood) == pytest.approx(likelihood, rel=1e-5)


# --- several labels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS.float()], ids=["", "weighted"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_several_labels_are_the_sum_over_classes_of_what_each_text_alone_has(
    model: Classifier, smoothing: float, weights: Tensor | None
) -> None:
    rows = [3, 0, 2, 1]
    sums = SeveralLabels(smoothing, weights)(model, batch_of(SEVERAL, rows, CLASSES))
    alone = {row: scores_alone(model, row) for row in rows}
    expected = sum(several_labels(scores, SEVERAL[row], smoothing, weights) for row, scores in alone.items())
    assert float(sums.loss.detach()) == pytest.approx(expected, rel=1e-5)
    likelihood = sum(several_labels(scores, SEVERAL[row], 0.0, None) for row, scores in alone.items())
    assert float(sums.likelihood) == pytest.approx(likelihood, rel=1e-5)


# --- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", [OneLabel(0.1, WEIGHTS.float()), SeveralLabels(0.1, WEIGHTS.float())])
@pytest.mark.parametrize("shape", [{"static": STATIC}, {"multiple": 64}], ids=["static", "filled"])
def test_dummies_count_nothing_and_change_no_gradient(
    model: Classifier, objective: OneLabel, shape: dict[str, Any]
) -> None:
    several = isinstance(objective, SeveralLabels)
    labels, classes = (SEVERAL, CLASSES) if several else (LABELS, 0)
    plain, filled = batch_of(labels, [0, 1, 2], classes), batch_of(labels, [0, 1, 2], classes, **shape)
    assert len(filled.labels) > len(plain.labels)
    tallies, gradients = [], []
    for batch in (plain, filled):
        model.zero_grad()
        sums = objective(model, batch)
        sums.loss.backward()
        tallies.append((float(sums.loss.detach()), float(sums.likelihood)))
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    assert tallies[0] == pytest.approx(tallies[1], rel=1e-6)
    assert all(torch.allclose(one, two, rtol=1e-6, atol=1e-7) for one, two in zip(*gradients, strict=True))
    assert objective.units(filled) == objective.units(plain) == 3
    assert objective.tokens(filled) == objective.tokens(plain) == sum(len(text) + 2 for text in TEXTS[:3])


@pytest.mark.parametrize("objective", [OneLabel(0.0), SeveralLabels(0.0)])
def test_a_batch_of_dummies_alone_has_no_loss(model: Classifier, objective: OneLabel) -> None:
    several = isinstance(objective, SeveralLabels)
    batch = batch_of(SEVERAL if several else LABELS, [0, 1], CLASSES if several else 0)
    nothing = TextBatch(batch.inputs, torch.full_like(batch.labels, IGNORED), 0, 0)
    sums = objective(model, nothing)
    assert float(sums.loss.detach()) == float(sums.likelihood) == 0


def test_the_likelihood_has_no_gradient_and_the_loss_has(model: Classifier) -> None:
    sums = OneLabel(0.1)(model, batch_of(LABELS, [0, 1]))
    assert sums.loss.requires_grad
    assert not sums.likelihood.requires_grad


@pytest.mark.parametrize("kind", [OneLabel, SeveralLabels])
def test_weights_of_classes_move_to_the_models_device_and_stay_there(model: Classifier, kind: type[OneLabel]) -> None:
    several = kind is SeveralLabels
    objective, device = kind(0.1, WEIGHTS.float()), torch.device("meta")
    batch = batch_of(SEVERAL if several else LABELS, [0, 1], CLASSES if several else 0)
    objective(model.to(device), batch.to(device))
    assert objective.weights_C is not None
    assert objective.weights_C.device == device
