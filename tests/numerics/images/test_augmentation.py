"""Augmentation against definitions in NumPy, pixel by pixel."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from heedful.base.packed import IGNORED, Images
from heedful.nn.layers.images.augmentation import (
    Augmentation,
    Moves,
    draw_maps,
    draw_weights,
    mix,
    resample,
    shares_of,
)

Image = NDArray[np.float64]


def _images(count: int = 3, height: int = 7, width: int = 9, channels: int = 3) -> torch.Tensor:
    drawn = np.random.default_rng(5).integers(0, 256, (count, height, width, channels))
    return torch.from_numpy(drawn.astype(np.uint8))


def _at(image: Image, down: float, right: float) -> Image:
    """The value between pixels, linearly interpolated; black outside."""
    top, left = math.floor(down), math.floor(right)
    total = np.zeros(image.shape[2])
    for y in (top, top + 1):
        for x in (left, left + 1):
            if 0 <= y < image.shape[0] and 0 <= x < image.shape[1]:
                total += (1 - abs(down - y)) * (1 - abs(right - x)) * image[y, x]
    return total


def _each(moves: Moves, pixels: torch.Tensor, number: int, of) -> None:  # type: ignore[no-untyped-def]
    """Compare one resampled image with `of(image, y, x)`, its value at each pixel."""
    found = resample(pixels, moves.maps())[number].numpy()
    image = pixels[number].numpy().astype(np.float64)
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            np.testing.assert_allclose(found[y, x], of(image, y, x), atol=2e-2)


def test_without_moves_images_stay_as_they_are() -> None:
    pixels = _images()
    torch.testing.assert_close(resample(pixels, Moves.none(3).maps()), pixels.float(), atol=1e-3, rtol=0)


def test_a_shift_moves_every_pixel_down_and_right() -> None:
    moves = replace(Moves.none(3), shift_B2=torch.tensor([[2.0, -3.0], [0.0, 0.0], [-1.0, 1.0]]))
    pixels = _images()
    _each(moves, pixels, 0, lambda image, y, x: _at(image, y - 2, x + 3))
    _each(moves, pixels, 2, lambda image, y, x: _at(image, y + 1, x - 1))


@pytest.mark.parametrize("degrees", [15.0, -40.0])
def test_a_rotation_turns_counter_clockwise_around_the_middle(degrees: float) -> None:
    moves = replace(Moves.none(3), turn_B=torch.tensor([0.0, math.radians(degrees), 0.0]))

    def turned(image: Image, y: int, x: int) -> Image:
        middle_y, middle_x = (image.shape[0] - 1) / 2, (image.shape[1] - 1) / 2
        # A point that was at an angle a above the horizontal, seen from the middle, is now at a + degrees.
        up, right = middle_y - y, x - middle_x
        angle, reach = math.atan2(up, right) - math.radians(degrees), math.hypot(up, right)
        return _at(image, middle_y - reach * math.sin(angle), middle_x + reach * math.cos(angle))

    _each(moves, _images(), 1, turned)


def test_a_quarter_turn_is_that_of_numpy() -> None:
    pixels = _images(height=6, width=6)
    found = resample(pixels, replace(Moves.none(3), turn_B=torch.full((3,), math.pi / 2)).maps())
    np.testing.assert_allclose(found[0].numpy(), np.rot90(pixels[0].numpy()), atol=1e-2)


def test_a_crop_is_enlarged_to_the_size_of_the_image() -> None:
    part, centre = (0.5, 0.75), (1.0, -0.8)
    moves = replace(Moves.none(3), part_B2=torch.tensor([part] * 3), centre_B2=torch.tensor([centre] * 3))

    def cropped(image: Image, y: int, x: int) -> Image:
        height, width = image.shape[:2]
        top, left = height / 2 + centre[0] - part[0] * height / 2, width / 2 + centre[1] - part[1] * width / 2
        return _at(image, top + (y + 0.5) * part[0] - 0.5, left + (x + 0.5) * part[1] - 0.5)

    _each(moves, _images(), 2, cropped)


def test_a_flip_exchanges_left_and_right() -> None:
    pixels = _images()
    found = resample(pixels, replace(Moves.none(3), mirror_B=torch.tensor([-1.0, 1.0, -1.0])).maps()).numpy()
    np.testing.assert_allclose(found[0], pixels[0].numpy()[:, ::-1], atol=1e-2)
    np.testing.assert_allclose(found[1], pixels[1].numpy(), atol=1e-2)


def test_all_moves_together_are_one_after_the_other() -> None:
    moves = Moves(
        torch.tensor([[1.0, -2.0]] * 3),
        torch.full((3,), 0.3),
        torch.tensor([[0.8, 0.9]] * 3),
        torch.tensor([[0.3, -0.2]] * 3),
        -torch.ones(3),
    )

    def moved(image: Image, y: int, x: int) -> Image:
        middle = np.array([(side - 1) / 2 for side in image.shape[:2]])
        place = np.array([y, x]) - middle
        place = place * [1, -1] * [0.8, 0.9] + [0.3, -0.2]  # mirrored, then the crop
        turn = np.array([[math.cos(0.3), math.sin(0.3)], [-math.sin(0.3), math.cos(0.3)]])
        place = turn @ place - [1, -2]
        return _at(image, *(place + middle))

    _each(moves, _images(), 1, moved)


def test_mixup_weighs_images_and_labels_alike() -> None:
    pixels, labels = _images(4), torch.tensor([2, 0, 1, IGNORED])
    weights = torch.tensor([0.7, 0.6, 0.9, 0.8])
    found, shares = mix(pixels, shares_of(labels, 3), weights)
    one_hot = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]])
    for number, before in ((1, 0), (2, 1)):
        w = float(weights[number])
        np.testing.assert_allclose(
            found[number], w * pixels[number].numpy() + (1 - w) * pixels[before].numpy(), atol=1e-3
        )
        np.testing.assert_allclose(shares[number], w * one_hot[number] + (1 - w) * one_hot[before], atol=1e-6)
    np.testing.assert_allclose(found[0], pixels[0].numpy(), atol=1e-3)  # the image before it does not count
    assert shares[0].tolist() == [0, 0, 1]


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_what_is_drawn_stays_within_its_bounds_and_reaches_them() -> None:
    torch.manual_seed(1)
    shift = draw_maps(Augmentation(shift=2), 500, 8, 8, torch.device("cpu"))[:, :, 2]
    assert {*shift.flatten().tolist()} == {-2.0, -1.0, 0.0, 1.0, 2.0}
    turn = torch.acos(draw_maps(Augmentation(rotation=30.0), 500, 8, 8, torch.device("cpu"))[:, 0, 0])
    assert 25 < math.degrees(turn.max()) <= 30.01
    crop = draw_maps(Augmentation(crop=0.5), 500, 8, 12, torch.device("cpu"))
    area = crop[:, 0, 0] * crop[:, 1, 1]
    assert 0.4 < area.min() < 0.6
    assert area.max() <= 1
    edge = crop[:, :, 2].abs() + (crop[:, :, :2].diagonal(dim1=1, dim2=2)) * torch.tensor([4.0, 6.0])
    assert (edge <= torch.tensor([4.0, 6.0]) + 1e-4).all()  # a crop is inside of the image
    mirror = draw_maps(Augmentation(flip=True), 500, 8, 8, torch.device("cpu"))[:, 1, 1]
    assert 0.4 < (mirror < 0).float().mean() < 0.6
    weights = draw_weights(0.2, 500, torch.device("cpu"))
    assert weights.min() >= 0.5
    assert weights.max() <= 1


def test_the_seed_decides_what_is_drawn() -> None:
    everything = Augmentation(shift=1, rotation=10.0, crop=0.8, flip=True, mixup=0.5)
    images, labels = Images.of([*_images(3), *_images(2, 5, 4)], 4, False), torch.tensor([0, 1, 1, 0, 1])

    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        changed, shares = everything(images, labels, 2)
        assert changed.runs == images.runs
        torch.testing.assert_close(shares.sum(1), torch.ones(5))
        return torch.cat([changed.pixels.flatten(), shares.flatten()])

    assert torch.equal(drawn(3), drawn(3))
    assert not torch.equal(drawn(3), drawn(4))


def test_without_augmentation_nothing_is_computed() -> None:
    images, labels = Images.of([*_images()], 4, False), torch.tensor([0, 1, 0])
    same, same_labels = Augmentation()(images, labels, 2)
    assert same is images
    assert same_labels is labels


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_augmentation_can_be_recorded_in_a_cuda_graph() -> None:
    device = torch.device("cuda")
    everything = Augmentation(shift=1, rotation=10.0, crop=0.8, flip=True, mixup=0.5)
    images = Images.of([*_images(3)], 4, False).to(device)
    labels = torch.tensor([0, 1, 1], device=device)
    everything(images, labels, 2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        changed, shares = everything(images, labels, 2)
    torch.manual_seed(3)
    graph.replay()
    first = changed.pixels.clone()
    graph.replay()
    assert not torch.equal(first, changed.pixels)
    torch.testing.assert_close(shares.sum(1), torch.ones(3, device=device))
