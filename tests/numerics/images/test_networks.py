"""Networks that read images: their parts against definitions, and packed images against single ones."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.packed import Images, Run, runs_of
from heedful.config.model.pooled import ImageClassifierModel
from heedful.models.from_recipe.images import build_image_classifier
from heedful.models.networks import Classifier, set_precision
from heedful.nn.layers.images.positions import LearnedGrid, SinusoidalGrid
from heedful.nn.layers.images.stems import Convolution, Convolutions, Patches

_TINY = {"width": 16, "heads": 2, "layers": 2, "inner": 24, "patch": 4, "grid": 3, "channels": 3}
NETWORKS: dict[str, dict[str, Any]] = {
    "class-token": {"encoder": _TINY},
    "mean-sinusoidal": {"encoder": {**_TINY, "class_token": False, "positions": "sinusoidal"}},
    "attention-pool": {"encoder": {**_TINY, "class_token": False}, "pool": "attention"},
    "convolutional-stem": {"encoder": {**_TINY, "stem": "convolutions"}, "pool": "max"},
    "convolutional": {"encoder": {"family": "convolutional", "width": 16, "stages": 2, "channels": 3}},
}
SIZES = ((12, 12), (12, 12), (8, 20), (5, 7), (12, 12))


def classifier(name: str) -> tuple[ImageClassifierModel, Classifier]:
    torch.manual_seed(2)
    options = NETWORKS[name]
    encoder = {"family": "vit", **options["encoder"]}
    table = ImageClassifierModel.model_validate({"family": "image_classifier", **options, "encoder": encoder})
    network = build_image_classifier(table, 5).eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)  # large enough that everything matters, biases and norms too
    return table, network


def _images(sizes: tuple[tuple[int, int], ...] = SIZES) -> list[Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [torch.randint(0, 256, (*size, 3), generator=generator, dtype=torch.uint8) for size in sizes]


def _packed(table: ImageClassifierModel, images: list[Tensor]) -> Images:
    return Images.of(images, table.encoder.patch, table.encoder.class_token)


@pytest.mark.parametrize("name", NETWORKS)
def test_neighbours_of_any_size_cannot_change_what_an_image_is(name: str) -> None:
    table, network = classifier(name)
    images = _images()
    together = network(_packed(table, images))
    alone = torch.cat([network(_packed(table, [image])) for image in images])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(together[0], together[1], atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_weight_gets_a_gradient_and_bfloat16_is_close(name: str) -> None:
    table, network = classifier(name)
    packed = _packed(table, _images())
    exact = network(packed)
    exact.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    set_precision(network, torch.bfloat16)
    rounded = network(packed)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, atol=0.15, rtol=0.15)


@pytest.mark.parametrize("name", ["class-token", "convolutional"])
def test_images_are_read_where_their_parts_are(name: str) -> None:
    """An image and the same image with two of its patches exchanged are different to a network with positions."""
    table, network = classifier(name)
    (image,) = _images(((12, 12),))
    swapped = image.clone()
    swapped[:4, :4], swapped[4:8, 8:12] = image[4:8, 8:12], image[:4, :4]
    one, other = network(_packed(table, [image, swapped]))
    assert not torch.allclose(one, other, atol=1e-4)


# --- stems ------------------------------------------------------------------------------------------------------------


def test_patches_are_a_convolution_with_the_stride_of_its_kernel() -> None:
    stem = Patches(4, 3, 7)
    x = torch.randn(2, 8, 12, 3)
    kernel = stem.project.weight.view(7, 4, 4, 3).permute(0, 3, 1, 2)
    convolved = F.conv2d(x.permute(0, 3, 1, 2), kernel, stem.project.bias, stride=4)
    torch.testing.assert_close(stem(x), convolved.flatten(2).transpose(1, 2), atol=1e-5, rtol=1e-5)


def test_a_patch_at_the_edge_is_filled_up_with_zeros() -> None:
    stem = Patches(4, 1, 5)
    x = torch.randn(1, 6, 9, 1)
    whole = torch.zeros(1, 8, 12, 1)
    whole[:, :6, :9] = x
    torch.testing.assert_close(stem(x), stem(whole))
    assert stem(x).shape == (1, 2 * 3, 5)


def test_convolutions_are_what_torch_computes_layer_by_layer() -> None:
    stem = Convolutions(3, [8, 16], 2, 11)
    x = torch.randn(2, 9, 6, 3)
    y = x.permute(0, 3, 1, 2)
    for stage in stem.stages:
        assert isinstance(stage, nn.Sequential)
        for layer in stage:
            assert isinstance(layer, Convolution)
            y = F.gelu(layer.norm(layer.map(y)))
        y = F.max_pool2d(y, 2, ceil_mode=True)
    assert y.shape[2:] == (math.ceil(9 / 4), math.ceil(6 / 4))
    torch.testing.assert_close(stem(x), stem.project(y.flatten(2).transpose(1, 2)))


# --- positions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(7, 7), (3, 5), (14, 2), (1, 1)])
def test_learned_positions_are_interpolated_as_torch_does_it(size: tuple[int, int]) -> None:
    grid = LearnedGrid(7, 7, 6)
    nn.init.normal_(grid.weight)
    table = grid.weight.detach().view(1, 7, 7, 6).permute(0, 3, 1, 2)
    wanted = F.interpolate(table, size, mode="bicubic", align_corners=False).permute(0, 2, 3, 1).reshape(-1, 6)
    torch.testing.assert_close(grid(*size), wanted, atol=1e-5, rtol=1e-5)


def test_sinusoidal_positions_have_rows_in_one_half_and_columns_in_the_other() -> None:
    found = SinusoidalGrid(8)(5, 600).detach()
    for row, column in ((0, 0), (4, 7), (2, 599)):
        for place, start in ((row, 0), (column, 4)):
            for i in (0, 2):
                angle = place / 10_000 ** (i / 4)
                pair = found[row * 600 + column, start + i : start + i + 2]
                torch.testing.assert_close(pair, torch.tensor([math.sin(angle), math.cos(angle)]), atol=1e-4, rtol=0)


def test_sinusoidal_positions_need_a_width_of_four_parts() -> None:
    with refuses("...need a width that is a multiple of 4, not 6...", ValueError):
        SinusoidalGrid(6)


# --- packing ----------------------------------------------------------------------------------------------------------


def test_runs_are_consecutive_images_of_one_size() -> None:
    assert runs_of([(2, 3), (2, 3), (3, 2), (2, 3)]) == (Run(2, 2, 3), Run(1, 3, 2), Run(1, 2, 3))
    assert runs_of([]) == ()


def test_packed_images_come_back_as_they_were() -> None:
    images = _images()
    packed = Images.of(images, 4, True)
    again = [image for run in packed.by_run() for image in run]
    assert len(packed) == len(images)
    assert all(torch.equal(one, other) for one, other in zip(images, again, strict=True))
    assert packed.layout.lengths.tolist() == [10, 10, 11, 5, 10]
