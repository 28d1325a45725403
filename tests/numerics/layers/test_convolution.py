"""Convolutions around each token equal their equations, within each sentence."""

import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor

from heedful.base.packed import Layout
from heedful.nn.layers.convolutions.centred import Convolution, SeparableConvolution

WIDTH, LENGTHS = 3, [1, 6, 2, 0, 4]


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (7, 1), (3, 2), (3, 5)])
@pytest.mark.parametrize("kind", [Convolution, SeparableConvolution])
def test_a_token_sees_its_neighbours_in_its_sentence(
    kind: type[Convolution | SeparableConvolution], kernel: int, dilation: int
) -> None:
    torch.manual_seed(4)
    layer = kind(WIDTH, kernel, dilation=dilation).double()
    x = torch.randn(sum(LENGTHS), WIDTH, dtype=torch.float64, requires_grad=True)
    rows: list[Tensor] = []
    for sentence in x.split(LENGTHS):
        for t in range(len(sentence)):
            y: Tensor = layer.project.bias
            for index, step in enumerate(range(-(kernel // 2), kernel // 2 + 1)):
                j = step * dilation
                if not 0 <= t + j < len(sentence):
                    continue
                if isinstance(layer, Convolution):
                    y = y + layer.project.weight[:, index * WIDTH : (index + 1) * WIDTH] @ sentence[t + j]
                else:
                    y = y + layer.project.weight @ (layer.columns[index] * sentence[t + j])
            rows.append(y)
    expected, found = torch.stack(rows), layer(x, Layout.of(LENGTHS))
    torch.testing.assert_close(found, expected)
    factors, leaves = torch.randn_like(expected), [x, *layer.parameters()]
    for mine, theirs in zip(
        torch.autograd.grad((found * factors).sum(), leaves),
        torch.autograd.grad((expected * factors).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


def test_a_kernel_has_a_middle() -> None:
    with refuses("a kernel of 4 tokens has no token in its middle: it must be odd", ValueError):
        Convolution(WIDTH, 4)
