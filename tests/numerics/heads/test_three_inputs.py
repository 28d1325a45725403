"""Attention with inputs of three widths, beside a naive loop and torch's module."""

import math

import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.attention.multi_head import Projections
from heedful.nn.attention.three_inputs import ThreeInputAttention
from heedful.nn.padding import pad

WIDTH, HEADS, WIDTHS = 8, 2, (5, 7, 3)
ASKED, KNOWN = [3, 1, 2], [4, 2, 5]  # lengths of three sentences, and of what each attends to


def inputs() -> tuple[Tensor, Layout, Tensor, Tensor, Layout]:
    queries, memory = Layout.of(ASKED), Layout.of(KNOWN)
    x, y, z = (torch.randn(sum(lengths), w) for lengths, w in zip((ASKED, KNOWN, KNOWN), WIDTHS, strict=True))
    return x, queries, y, z, memory


def by_hand(module: ThreeInputAttention, x: Tensor, y: Tensor, z: Tensor) -> list[Tensor]:
    """Attend from every query of one sentence by itself, head by head."""
    q, k, v = (part(given) for part, given in zip(parts_of(module), (x, y, z), strict=True))
    rows = []
    for query in q:
        read = []
        for head in range(HEADS):
            at, of = (slice(head * part.shape[1] // HEADS, (head + 1) * part.shape[1] // HEADS) for part in (k, v))
            scores = torch.stack([query[at] @ key[at] / math.sqrt(len(key[at])) for key in k])
            shares = scores.exp() / scores.exp().sum()
            read.append(sum((share * value[of] for share, value in zip(shares, v, strict=True)), torch.zeros(())))
        rows.append(module.output(torch.cat(read)))
    return rows


def parts_of(module: ThreeInputAttention) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    return module.project_query, module.project_keys, module.project_values


@pytest.mark.parametrize("options", [{}, {"projection_bias": False}, {"key_width": 3, "value_width": 5}])
def test_it_is_the_equation(options: Projections) -> None:
    module = ThreeInputAttention(WIDTH, HEADS, WIDTHS, **options)
    x, queries, y, z, memory = inputs()
    expected = [
        row
        for one, other, third in zip(x.split(ASKED), y.split(KNOWN), z.split(KNOWN), strict=True)
        for row in by_hand(module, one, other, third)
    ]
    torch.testing.assert_close(module(x, queries, y, z, memory), torch.stack(expected), atol=1e-5, rtol=1e-4)


def test_it_is_the_module_of_torch() -> None:
    theirs = nn.MultiheadAttention(WIDTHS[0], 1, kdim=WIDTHS[1], vdim=WIDTHS[2], batch_first=True)
    ours = ThreeInputAttention(WIDTHS[0], 1, WIDTHS)
    biases = theirs.in_proj_bias.chunk(3)
    matrices = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    with torch.no_grad():
        for part, matrix, bias in zip(parts_of(ours), matrices, biases, strict=True):
            part.weight.copy_(matrix)
            part.bias.copy_(bias.normal_())
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    assert sum(weight.numel() for weight in ours.parameters()) == sum(weight.numel() for weight in theirs.parameters())
    x, queries, y, z, memory = inputs()
    padded = (pad(x, queries), pad(y, memory), pad(z, memory))
    read, weights = theirs(*padded, key_padding_mask=~memory.keep)
    torch.testing.assert_close(ours(x, queries, y, z, memory), read[queries.keep], atol=1e-5, rtol=1e-4)
    found = ours.weights(x, queries, y, memory)[:, 0]
    torch.testing.assert_close(found[queries.keep], weights[queries.keep], atol=1e-5, rtol=1e-4)


def test_the_printed_triple_of_widths_has_its_number_of_weights() -> None:
    module = ThreeInputAttention(512, 8, (10, 20, 30), projection_bias=False)
    assert sum(weight.numel() for weight in module.parameters()) == (10 + 20 + 30) * 512 + 512 * 512 + 512
    equal = ThreeInputAttention(512, 8, projection_bias=False)
    assert sum(weight.numel() for weight in equal.parameters()) == 4 * 512 * 512 + 512


def test_shared_keys_are_refused() -> None:
    with refuses("1 heads of keys and values cannot be shared by 2 heads here", ValueError):
        ThreeInputAttention(WIDTH, HEADS, key_value_heads=1)
