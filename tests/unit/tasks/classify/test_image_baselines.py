"""The lines that classifiers of images and answerers of questions about them have to beat, against definitions."""

from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from heedful.data.prepare.images import image_streams
from heedful.data.token_store import TokenStore
from heedful.tasks.classify import baseline
from heedful.tasks.classify.baseline import _choose_strength, _fit, logistic_on_pixels, usual_answers
from heedful.tasks.classify.classification import ClassLoss
from heedful.tasks.shared import pixels
from heedful.tasks.shared.pixels import pixels_of, sample_images, side_of

ONE = ClassLoss(several=False)


def images_of(images: list[tuple[int, int, int]]) -> TokenStore:
    """Grey images of a height, a width and a brightness."""
    return TokenStore(image_streams([np.full((height, width, 1), value, np.uint8) for height, width, value in images]))


def marked(classes: list[int], count: int = 3) -> torch.Tensor:
    return F.one_hot(torch.tensor(classes), count).float()


def test_the_weights_are_those_that_gradient_descent_finds() -> None:
    x, true = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), [number % 3 for number in range(30)]
    ((weights, bias),) = _fit(x, marked(true), ONE, [10.0], iterations=200)
    layer = torch.nn.Linear(4, 3)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(1500):
        optimizer.zero_grad()
        loss = F.cross_entropy(layer(x), torch.tensor(true)) + layer.weight.square().sum() / (2 * 10.0 * 30)
        loss.backward()
        optimizer.step()
    assert torch.allclose(weights.T, layer.weight, atol=1e-3)
    assert torch.allclose((x @ weights + bias).softmax(1), layer(x).softmax(1), atol=1e-3)


def test_noise_is_penalised_more_than_what_tells_the_class() -> None:
    chance = torch.Generator().manual_seed(1)
    x, true = torch.randn(60, 8, generator=chance), torch.arange(60) % 2
    noise = _choose_strength(x / 8**0.5, marked(true.tolist(), 2), ONE)
    told = torch.where(true[:, None] == 1, 1.0, -1.0).expand(60, 8)
    clear = _choose_strength(told, marked(true.tolist(), 2), ONE)
    assert noise == 1.0
    assert clear == 1000.0
    assert _choose_strength(x[:5], marked(true[:5].tolist(), 2), ONE) == 1.0  # too few to be divided


@pytest.mark.parametrize("sizes", [[(4, 4)], [(40, 36)], [(4, 4), (40, 50), (3, 9)]])
def test_brightness_tells_classes_whatever_the_sizes_of_images(sizes: list[tuple[int, int]]) -> None:
    bright = [number % 2 for number in range(24)]
    train = images_of([(*sizes[number % len(sizes)], 40 + 150 * one) for number, one in enumerate(bright)])
    valid = images_of([(*sizes[0], 50), (*sizes[-1], 180)])
    aims = marked(bright, 2)
    scores, sample = logistic_on_pixels([train], [valid], np.arange(2), lambda rows: aims[rows], ONE)
    assert scores.argmax(1).tolist() == [0, 1]
    assert sample == "the 24 training images"


def asked(*images: list[tuple[str, int]]) -> TokenStore:
    """Images with questions, whose words are letters, and answers by number."""
    return TokenStore.of(
        words=[[ord(letter) for question, _ in image for letter in question] for image in images],
        lengths=[[len(question) for question, _ in image] for image in images],
        label=[[answer for _, answer in image] for image in images],
    )


def test_answers_are_those_of_the_same_question_else_of_the_same_beginning_else_of_all() -> None:
    train = asked([("abc", 1), ("abc", 1), ("abc", 2)], [("abd", 2), ("abd", 2), ("xy", 0)], [("xy", 0)])
    valid = asked([("abc", 0), ("abd", 0)], [("abe", 0), ("x", 0), ("q", 0), ("", 0)])
    scores, sample = usual_answers([train], [valid], np.arange(2), 3)
    # Of the questions that begin with "ab", three have the answer 2 and two the answer 1.
    assert scores.argmax(1).tolist() == [1, 2, 2, 0, 2, 2]
    assert torch.allclose(scores.exp().sum(1), torch.ones(6))
    assert sample == "the 3 training images"


def test_frequencies_are_smoothed_by_those_of_all_answers() -> None:
    train = asked([("a", 0), ("a", 0), ("a", 1), ("b", 1)])
    scores, _ = usual_answers([train], [train], np.arange(1), 2)
    share = {0: 0.5, 1: 0.5}
    own = Counter({0: 2, 1: 1})
    expected = [(own[answer] + 0.1 * share[answer]) / 3.1 for answer in (0, 1)]
    assert scores[0].exp().tolist() == pytest.approx(expected, abs=1e-3)


def test_of_many_images_some_at_equal_distances_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "_MOST_ASKED", 2)
    train = asked([("a", 0)], [("a", 1)], [("a", 1)], [("a", 1)])
    scores, sample = usual_answers([train], [train], np.arange(1), 2)
    assert sample == "2 of 4 training images"
    assert scores[0, 0] == pytest.approx(scores[0, 1])


def test_large_images_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    store = images_of([(4, 4, 0)] * 10)
    assert sample_images([store])[1] == "the 10 training images"
    monkeypatch.setattr(pixels, "_MOST_PIXELS", 5 * 16)
    rows, sample = sample_images([store])
    assert (rows.tolist(), sample) == ([0, 2, 4, 6, 8], "5 of 10 training images")


def test_pixels_are_means_of_areas() -> None:
    image = np.arange(64 * 64, dtype=np.uint8).reshape(64, 64, 1)
    small = np.full((3, 5, 1), 7, np.uint8)
    store = TokenStore(image_streams([small, image, image]))
    found = pixels_of([store], np.array([1, 0]), side_of([store])) * 255
    assert torch.allclose(found[0], torch.from_numpy(image.reshape(32, 2, 32, 2).mean(axis=(1, 3))).float().flatten())
    assert torch.allclose(found[1], torch.full((32 * 32,), 7.0))
