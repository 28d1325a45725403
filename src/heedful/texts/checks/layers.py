"""Costs, sequential operations and paths of layers, counted while the layers of Heedful run."""

import math

from heedful.doctor.estimates.layers import KINDS, Sizes, count_layer, path_length
from heedful.texts.checks.computed import Computed, drawn

_LENGTHS = (4, 8, 16, 32)
_SIZES = Sizes(8, kernel=3, radius=4)


def _paths(name: str) -> list[float]:
    with drawn():
        return [path_length(KINDS[name], _SIZES, length) for length in _LENGTHS]


def linear_paths_of_convolutions() -> Computed:
    """Layers of convolutions of 3 (ConvS2S) that relate two positions, over their distance: linear, n - 1"""
    return Computed([length - 1 for length in _LENGTHS], _paths("convolution"))


def logarithmic_paths_of_dilated_convolutions() -> Computed:
    """Layers of convolutions of 3 whose dilation doubles (ByteNet) that relate two positions: logarithmic, log2 n"""
    return Computed([math.log2(length) for length in _LENGTHS], _paths("dilated"))


def constant_paths_of_attention() -> Computed:
    """Layers of self-attention that relate two positions at any distance: one"""
    return Computed([1] * len(_LENGTHS), _paths("self_attention"))


def linear_paths_of_recurrence() -> Computed:
    """Steps of a recurrence from the first position to the state of the last one: n"""
    return Computed(_LENGTHS, _paths("lstm"))


def _in_sequence(name: str) -> list[float]:
    with drawn():
        return [count_layer(KINDS[name], _SIZES, length).in_sequence for length in _LENGTHS]


def constant_sequence_of_attention() -> Computed:
    """Products of self-attention that wait for each other: the projection, attention and the output, at any length"""
    return Computed([3] * len(_LENGTHS), _in_sequence("self_attention"))


def linear_sequence_of_recurrence() -> Computed:
    """Products of a recurrent layer that wait for each other: O(n), one per position"""
    return Computed(_LENGTHS, _in_sequence("lstm"))


def convolution_sees_its_kernel() -> Computed:
    """One convolution with k = 3 < n does not connect the first of 4 to 32 positions with the last: 1 where it does"""
    return Computed([0] * len(_LENGTHS), [float(path == 1) for path in _paths("convolution")])


def cost_of_separable_convolution() -> Computed:
    """k n d + n d^2 multiplications of a separable convolution; of a convolution k n d^2"""
    n, k, d = 16, 3, 8
    with drawn():
        ours = [count_layer(KINDS[name], Sizes(d, kernel=k), n).cost for name in ("separable", "convolution")]
    return Computed([k * n * d + n * d**2, k * n * d**2], ours)


def operations_below_the_width() -> Computed:
    """n^2 d of attention against n d^2 of a recurrence: fewer where n < d, as many at n = d, with d = 8

    Multiplications of attention alone over those of a tanh recurrence, both counted; each has two products.
    """
    d, found = 8, []
    for n in (4, 8, 16):
        with drawn():
            one, other = (count_layer(KINDS[name], Sizes(d), n).cost for name in ("attention_alone", "rnn_tanh"))
        found.append(one / other)
    return Computed([4 / d, 8 / d, 16 / d], found)
