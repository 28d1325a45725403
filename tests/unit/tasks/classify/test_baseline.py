"""The line that classifiers have to beat: its equation, what it says, and what it leaves alone."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from heedful.config.recipe import Recipe
from heedful.data.token_store import TokenStore
from heedful.metrics.classification import mark_classes
from heedful.runs.run import RunObserver
from heedful.tasks.classify.classification import ClassLoss
from heedful.tasks.classify.task import ClassifyTask
from heedful.tasks.shared.pooled import ngrams
from heedful.tasks.shared.pooled.ngrams import NgramRegression
from heedful.tasks.shared.pooled.sparse_regression import (
    Features,
    SquaredLoss,
    Trial,
    _close,
    choose_settings,
    cross_validate,
    minimise_with,
)
from heedful.tasks.shared.validation import Asked
from heedful.training.checkpoints import Position

GOOD, BAD, SHARED = 10, 20, 30


def texts(count: int, several: bool = False) -> TokenStore:
    """Texts of shared tokens, with one that tells the class."""
    chance = np.random.default_rng(count)
    rows, labels = [], []
    for number in range(count):
        row = chance.integers(SHARED, SHARED + 9, 6).tolist()
        row[number % 6] = (BAD, GOOD)[number % 2]
        rows.append(row)
        labels.append([0, 1] if several and number % 3 == 0 else [number % 2])
    return TokenStore.of(text=rows, label=labels)


class Line:
    """The line to beat of classifiers on stores."""

    def __init__(
        self, train: list[TokenStore], valid: list[TokenStore], labels: tuple[str, ...], several: bool
    ) -> None:
        self.task, self.prepared = ClassifyTask(), SimpleNamespace(train=train, valid=valid)
        recipe = SimpleNamespace(model=SimpleNamespace(labels="several" if several else "one"))
        self.bundle = SimpleNamespace(recipe=recipe, vocabularies=SimpleNamespace(labels=labels))

    def scores(self, most: int | None, say: Callable[[str], None], metric: str = "accuracy") -> Mapping[str, float]:
        return self.task.baseline(self.bundle, self.prepared, Asked(metric, most), say)  # type: ignore[arg-type]


PAIRS = 2**32  # keys of pairs of tokens begin here


def _marks(labels: Sequence[Sequence[int]], classes: int) -> torch.Tensor:
    return torch.from_numpy(mark_classes(labels, classes)).float()


@pytest.mark.parametrize("several", [False, True])
def test_its_weights_minimise_the_loss_with_an_l2_penalty(several: bool) -> None:
    chance = np.random.default_rng(1)
    rows = [chance.integers(0, 12, 7) + chance.integers(0, 2, 7) * PAIRS for _ in range(40)]
    labels = [[0, 2], [1], [2]] * 13 + [[0]] if several else [[number % 3] for number in range(40)]
    model = NgramRegression.fit(rows, _marks(labels, 3), ClassLoss(several))
    true = torch.zeros(40, 3)
    for number, of_text in enumerate(labels):
        true[number, of_text] = 1
    x = torch.zeros(40, len(model.known))
    for number, row in enumerate(rows):  # tf-idf, text by text
        for column, key in enumerate(model.known):
            texts_with = sum(key in other for other in rows)
            count = int((row == key).sum())
            x[number, column] = (1 + np.log(count)) * (np.log(41 / (1 + texts_with)) + 1) if count else 0
    pairs = torch.from_numpy(model.known >= PAIRS)
    share, strength = choose_settings(_dense(F.normalize(x)), pairs, true, ClassLoss(several))
    x = F.normalize(torch.where(pairs, share * x, x))
    assert torch.allclose(model.scores(rows), x @ model.weights_JC + model.bias_C, atol=1e-5)
    weights, bias = model.weights_JC.clone().requires_grad_(), model.bias_C.clone().requires_grad_()
    scores = x @ weights + bias
    loss = (
        F.binary_cross_entropy_with_logits(scores, true, reduction="sum")
        if several
        else F.cross_entropy(scores, true, reduction="sum")
    )
    (loss / 40 + weights.square().sum() / (2 * strength * 40)).backward()
    assert weights.grad is not None
    assert bias.grad is not None
    assert weights.grad.abs().max() < 1e-4
    assert bias.grad.abs().max() < 1e-4


def test_cross_validation_scores_texts_that_a_regression_has_not_seen() -> None:
    generator = torch.Generator().manual_seed(1)
    x = F.normalize(torch.randn(45, 6, generator=generator))
    numbers = (x[:, 0] + 0.1 * torch.randn(45, generator=generator) > 0).long()
    found = cross_validate(_dense(x), F.one_hot(numbers).float(), ClassLoss(False), (0.5, 2.0))
    for strength, trial in found.items():
        loss, right = 0.0, 0
        for fold in range(3):
            held = torch.arange(1, 46) % 3 == fold
            weights = _solution(x[~held], numbers[~held], strength)
            scores = x[held] @ weights[:6] + weights[6]
            loss += float(F.cross_entropy(scores, numbers[held], reduction="sum"))
            right += int((scores.argmax(1) == numbers[held]).sum())
        assert trial.loss == pytest.approx(loss / 45, abs=1e-3)
        assert trial.right == pytest.approx(right / 45)


@pytest.mark.parametrize("several", [False, True])
def test_features_that_tell_classes_apart_get_larger_factors(several: bool) -> None:
    """Against the definition, class by class and feature by feature; and cross-validation knows its own part alone."""
    chance = np.random.default_rng(2)
    x = torch.from_numpy((chance.random((30, 5)) < 0.5).astype(np.float32))
    x[:3] = 1  # each feature occurs, in each fold too
    labels = [[0, 2], [1], [2], [1, 0]] * 7 + [[0], [2]] if several else [[number * 7 // 5 % 3] for number in range(30)]
    true = _marks(labels, 3)
    ratios = []
    for feature in range(5):
        of_classes = []
        for c in range(3):
            with_c, without_c = true[:, c] == 1, true[:, c] == 0
            shares = [
                (1 + float(x[rows, feature].sum())) / sum(1 + float(x[rows, other].sum()) for other in range(5))
                for rows in (with_c, without_c)
            ]
            of_classes.append(abs(np.log(shares[0] / shares[1])))
        ratios.append(max(of_classes))
    counts = x.sum(0).numpy()
    size = np.sqrt(sum(count * ratio**2 for count, ratio in zip(counts, ratios, strict=True)) / counts.sum())
    kind, expected = ClassLoss(several), [(1 + ratio / size) / 2 for ratio in ratios]
    assert kind.telling(_dense(x), true).tolist() == pytest.approx(expected, rel=1e-5)

    (trial,) = cross_validate(_dense(F.normalize(x)), true, kind, (2.0,), telling=True).values()
    loss = 0.0
    for fold in range(3):
        held = torch.arange(1, 31) % 3 == fold
        factor = kind.telling(_dense(x[~held]), true[~held])
        weights, bias = torch.zeros(5, 3), torch.zeros(3)
        known = _dense(F.normalize(x[~held] * factor))
        minimise_with(known, true[~held], weights, bias, kind, 2.0, 20)
        loss += kind.value(F.normalize(x[held] * factor) @ weights + bias, true[held]) / 3
    assert trial.loss == pytest.approx(loss, rel=1e-4)


def test_features_that_tell_of_numbers_get_larger_factors() -> None:
    x = torch.tensor([[1.0, 0, 1], [0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 0]])
    true = torch.tensor([[3.0], [-1.0], [4.0], [-2.0], [1.0]])  # their mean is 1
    ratios = np.array([(2 + 3 + 0) / 4, (2 + 3 - 0) / 4, abs(2 - 2 + 3 - 3) / 5])
    size = np.sqrt((np.array([3, 3, 4]) * ratios**2).sum() / 10)
    assert SquaredLoss().telling(_dense(x), true).tolist() == pytest.approx(((1 + ratios / size) / 2).tolist())
    assert len(SquaredLoss().telling(_dense(torch.zeros(5, 0)), true)) == 0
    assert len(ClassLoss(False).telling(_dense(torch.zeros(5, 0)), torch.eye(5))) == 0


def test_features_that_are_new_do_not_shrink_the_others_of_a_text_in_cross_validation() -> None:
    known = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(15, 1)
    new = torch.eye(30)  # each of these occurs in one text
    true = F.one_hot(torch.arange(30) % 2).float()
    (alone,) = cross_validate(_dense(known), true, ClassLoss(False), (10.0,)).values()
    x = _dense(torch.cat((known, 1e-6 * new), 1))
    (small,) = cross_validate(x, true, ClassLoss(False), (10.0,)).values()
    large = cross_validate(
        replace(x, value=torch.where(x.value < 1e-3, 3.0, x.value)), true, ClassLoss(False), (10.0,)
    )[10.0]
    assert small.loss == pytest.approx(alone.loss, abs=1e-4)
    assert large.right == 1


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ({1.0: Trial(0.80, 0.5), 2.0: Trial(0.85, 0.6), 3.0: Trial(0.82, 0.4)}, [2.0]),
        ({1.0: Trial(0.80, 0.5), 2.0: Trial(0.85, 0.6), 3.0: Trial(0.849, 0.4)}, [2.0, 3.0]),
        ({1.0: Trial(None, 0.5), 2.0: Trial(None, 0.6), 3.0: Trial(None, 0.4)}, [3.0]),
    ],
)
def test_settings_are_close_to_the_best_by_accuracy(trials: dict[float, Trial], expected: list[float]) -> None:
    assert _close(trials, 400) == expected


def test_pairs_of_tokens_weigh_little_where_single_tokens_tell_the_class_and_much_where_their_order_does() -> None:
    chance = np.random.default_rng(1)
    topics, orders = [], []
    for number in range(120):
        others = (chance.permutation(40)[:6] + 100).tolist()
        topics.append([*others[:3], number % 2 + 2 * int(chance.integers(0, 10)) + 50, *others[3:]])
        orders.append([*others[:3], *([50, 51] if number % 2 else [51, 50]), *others[3:]])
    labels, shares = [[number % 2] for number in range(120)], []
    for rows in (topics, orders):
        keys = [ngrams._ngrams(np.array(row, np.uint16), 0) for row in rows]
        model = NgramRegression.fit(keys, _marks(labels, 2), ClassLoss(False))
        plain = NgramRegression(model.known, np.ones_like(model.rarity), model.weights_JC, model.bias_C)
        x, pairs = plain.features(keys), torch.from_numpy(model.known >= PAIRS)
        shares.append(choose_settings(x, pairs, F.one_hot(torch.arange(120) % 2).float(), ClassLoss(False))[0])
    assert shares[0] < shares[1] == 1


def _dense(x: torch.Tensor) -> Features:
    rows, columns = x.nonzero(as_tuple=True)
    return Features(len(x), rows, columns, x[rows, columns])


def _solution(x: torch.Tensor, numbers: torch.Tensor, strength: float) -> torch.Tensor:
    """The weights of a regression, with its biases in the last row, by steepest descent."""
    inputs, true = torch.cat((x, torch.ones(len(x), 1)), 1), F.one_hot(numbers)
    penalty = torch.tensor([[1.0]] * 6 + [[0.0]]) / (strength * len(x))
    weights = torch.zeros(7, 2)
    for _ in range(400):
        weights = weights - inputs.T @ ((inputs @ weights).softmax(1) - true) / len(x) - penalty * weights
    return weights


@pytest.mark.parametrize("several", [False, True])
def test_it_learns_what_one_word_tells_and_says_so_once(several: bool) -> None:
    said: list[str] = []
    line = Line([texts(30), texts(40)], [texts(20)], ("bad", "good"), several)
    scores = line.scores(None, said.append)
    assert line.scores(None, said.append) == scores
    assert next(iter(scores)) == "accuracy"
    assert scores["accuracy"] == scores["f1"] == 1
    assert scores["loss"] < 0.7
    assert len(said) == 1
    start = "the line to beat: accuracy 1, of logistic regression on n-grams, learned from the 70 training texts ("
    assert said[0].startswith(start)


@pytest.mark.parametrize(
    ("metric", "said"), [("loss", r"loss 0\.\d+, accuracy 1"), ("accuracy", "accuracy 1"), ("my_own", "accuracy 1")]
)
def test_what_is_said_begins_with_the_metric_that_models_are_compared_by(metric: str, said: str) -> None:
    lines: list[str] = []
    Line([texts(30)], [texts(20)], ("bad", "good"), False).scores(None, lines.append, metric)
    assert re.match(f"the line to beat: {said}, of logistic regression", lines[0])


def test_many_texts_are_sampled_and_it_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "MOST_TEXTS", 25)
    said: list[str] = []
    Line([texts(50)], [texts(20)], ("bad", "good"), False).scores(10, said.append)
    assert "n-grams, learned from 25 of 50 training texts" in said[0]


def test_it_draws_nothing_and_can_be_trained_while_gradients_are_off() -> None:
    before = torch.get_rng_state()
    with torch.inference_mode():
        Line([texts(30)], [texts(20)], ("bad", "good"), False).scores(None, print)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_second_texts_of_pairs_are_other_features() -> None:
    def pairs(count: int) -> TokenStore:
        sides = [[[BAD], [GOOD]][:: 1 if number % 2 else -1] for number in range(count)]
        return TokenStore.of(
            text=[side[0] for side in sides], second=[side[1] for side in sides], label=[[n % 2] for n in range(count)]
        )

    scores = Line([pairs(20)], [pairs(8)], ("a", "b"), False).scores(None, lambda line: None)
    assert scores["accuracy"] == 1


@pytest.mark.parametrize(
    ("metric", "score", "line"),
    [
        ("accuracy", 0.78, "its accuracy is 0.78, and that of logistic regression on n-grams is 0.88. Try"),
        ("accuracy", 0.9, None),
        ("loss", 0.9, "its loss is 0.9, and that of logistic regression on n-grams is 0.88. Try"),
        ("loss", 0.5, None),
    ],
)
def test_a_run_says_at_its_end_if_its_model_loses(metric: str, score: float, line: str | None, tmp_path: Path) -> None:
    said: list[str] = []
    data = {"train": {"tsv": "a.tsv", "text": 2, "label": 1}, "valid": {"tsv": "b.tsv", "text": 2, "label": 1}}
    recipe = Recipe.model_validate({"data": data, "model": {"family": "classifier"}})
    run = RunObserver.__new__(RunObserver)
    run.job, run.progress = SimpleNamespace(recipe=recipe), SimpleNamespace(say=said.append)  # type: ignore[assignment]
    run.run = tmp_path
    rows = [(5, score), (10, 0.88)]  # the last model is not the best one
    recorded = ({"part": "valid", "step": step, metric: value, f"baseline_{metric}": 0.88} for step, value in rows)
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in recorded))
    run._tell_if_it_loses(Position(best_step=5))
    assert [told for told in said if line and line in told] == said
    assert len(said) == (line is not None)
