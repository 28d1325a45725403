"""Causal convolutions against torch's own, sentence by sentence, padded on the left."""

import pytest
import torch
import torch.nn.functional as F

from heedful.base.packed import Layout
from heedful.nn.layers.convolutions.causal import CausalConvolution, ConvolutionBlock

LENGTHS = [4, 1, 0, 6]
WIDE, OUT = 3, 5


@pytest.mark.parametrize("kernel", [1, 2, 4, 9])
def test_each_sentence_is_convolved_by_itself_with_zeros_before_it(kernel: int) -> None:
    layer, x = CausalConvolution(WIDE, OUT, kernel).double(), torch.randn(11, WIDE, dtype=torch.float64)
    newest_first_OJI = layer.project.weight.unflatten(1, (kernel, WIDE))
    oldest_first_OIJ = newest_first_OJI.flip(1).transpose(1, 2)
    found = layer(x, Layout.of(LENGTHS)).split(LENGTHS)
    for sentence, y in zip(x.split(LENGTHS), found, strict=True):
        if len(sentence):
            padded_IT = F.pad(sentence.t(), (kernel - 1, 0))
            expected = F.conv1d(padded_IT.unsqueeze(0), oldest_first_OIJ, layer.project.bias)[0].t()
            torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("kernel", [1, 3])
def test_steps_go_on_where_a_sentence_ended(kernel: int) -> None:
    layer, x = CausalConvolution(WIDE, OUT, kernel).double(), torch.randn(11, WIDE, dtype=torch.float64)
    layout, following = Layout.of(LENGTHS), torch.randn(4, WIDE, dtype=torch.float64)
    y, _ = layer.step(following, layer.last(x, layout))
    for row, sentence in enumerate(x.split(LENGTHS)):
        longer = torch.cat([sentence, following[row : row + 1]])
        torch.testing.assert_close(y[row], layer(longer, Layout.of([len(longer)]))[-1])


@pytest.mark.parametrize("activation", ["relu", "glu"])
def test_a_block_adds_what_its_activation_lets_through(activation: str) -> None:
    block, x, layout = ConvolutionBlock(WIDE, 2, activation, 0.0), torch.randn(11, WIDE), Layout.of(LENGTHS)
    values = block.convolution(x, layout)
    passed = values.clamp(min=0) if activation == "relu" else values[:, :WIDE] * torch.sigmoid(values[:, WIDE:])
    torch.testing.assert_close(block(x, layout), x + passed)
