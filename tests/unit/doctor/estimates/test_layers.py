"""Costs of layers that are counted while they run are those of table 1 in Vaswani et al. 2017."""

import math
from collections.abc import Callable

import pytest

from heedful.doctor.estimates.layers import KINDS, Sizes, count_layer, path_length

KERNEL, RADIUS, HEADS_OF = 5, 4, 64
BLOCK = 32  # tokens of a block of restricted attention, which sees three of them


@pytest.mark.parametrize(("kind", "products"), [
    ("attention_alone", lambda n, d: 2 * n**2 * d),
    ("self_attention", lambda n, d: 2 * n**2 * d + 4 * n * d**2),
    ("restricted", lambda n, d: 2 * n * 3 * BLOCK * d + 4 * n * d**2),
    ("rnn_tanh", lambda n, d: 2 * n * d**2),
    ("lstm", lambda n, d: 8 * n * d**2 + 3 * n * d),
    ("gru", lambda n, d: 6 * n * d**2 + 2 * n * d),
    ("convolution", lambda n, d: KERNEL * n * d**2),
    ("dilated", lambda n, d: KERNEL * n * d**2),
    ("separable", lambda n, d: KERNEL * n * d + n * d**2),
])  # fmt: skip
def test_the_cost_of_a_layer(kind: str, products: Callable[[int, int], int]) -> None:
    for width, length in ((8, BLOCK), (8, 3 * BLOCK), (2 * HEADS_OF, BLOCK)):
        assert count_layer(KINDS[kind], Sizes(width, KERNEL, RADIUS), length).cost == products(length, width)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_steps_of_a_recurrence_wait_for_each_other(kind: str) -> None:
    found = [count_layer(KINDS[kind], Sizes(8, KERNEL, RADIUS), length).in_sequence for length in (6, 12, 24)]
    if KINDS[kind].cell is not None:
        assert found == [6, 12, 24]
    else:
        assert found == [3 if kind in ("self_attention", "restricted") else 1] * 3


@pytest.mark.parametrize(("kind", "layers"), [
    ("attention_alone", lambda n: 1),
    ("self_attention", lambda n: 1),
    ("restricted", lambda n: max(1, math.ceil((n - 1) / RADIUS))),
    ("rnn_tanh", lambda n: n),
    ("lstm", lambda n: n),
    ("gru", lambda n: n),
    ("convolution", lambda n: max(1, math.ceil((n - 1) / (KERNEL // 2)))),
    ("dilated", lambda n: max(1, math.ceil(math.log(n, KERNEL // 2 + 1) - 1e-9))),
    ("separable", lambda n: max(1, math.ceil((n - 1) / (KERNEL // 2)))),
])  # fmt: skip
def test_the_path_from_the_first_token_to_the_last(kind: str, layers: Callable[[int], int]) -> None:
    for length in (1, 2, 9, 10, 40):
        assert path_length(KINDS[kind], Sizes(16, KERNEL, RADIUS), length) == layers(length)
