"""Heads whose keys and values have widths of their own: table 3, rows B, of Vaswani et al. 2017."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.numerics.attention.any_alignment_equations import SCORES, WIDTH, close, config_of, model_of, shaken
from torch import Tensor

from heedful.base.packed import Layout, Packed
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.transformer.slots import SlotShape
from heedful.nn.attention.backends import BACKENDS, PackedHeads, automatic, explicit, padded
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention

HEADS, GROUPS = 3, 1
WIDTHS = ((2, 5), (6, 3), (4, 4))  # of keys and values; none is an even share of the width
LENGTHS, MEMORY_LENGTHS = [3, 1, 4], [2, 5, 1]


@pytest.fixture(autouse=True)
def exact_constants() -> Iterator[None]:
    """Everything in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def loop(*parts: Tensor, causal: bool) -> Tensor:
    """softmax(q k^T / sqrt(D)) v, query by query and head by head."""
    q_QHD, k_LHD, v_LHU = parts
    rows = []
    for i, q_HD in enumerate(q_QHD):
        seen = i + 1 if causal else len(k_LHD)
        heads = []
        for head, q in enumerate(q_HD):
            powers = torch.stack([(q @ k[head] / len(q) ** 0.5).exp() for k in k_LHD[:seen]])
            heads.append(sum(p * v[head] for p, v in zip(powers / powers.sum(), v_LHU[:seen], strict=True)))
        rows.append(torch.cat(heads))
    return torch.stack(rows)


def project(weights: Tensor, bias: Tensor, x: Tensor, heads: int) -> Tensor:
    """Heads of one projection; heads that are shared are repeated."""
    made = (x @ weights.T + bias).unflatten(1, (heads, -1))
    return made.repeat_interleave(HEADS // heads, dim=1)


@pytest.mark.parametrize(("keys", "values"), WIDTHS)
@pytest.mark.parametrize("groups", [HEADS, GROUPS])
@pytest.mark.parametrize("backend", [automatic, padded, explicit])
def test_heads_of_any_widths_are_a_loop_over_queries_and_keys(
    keys: int, values: int, groups: int, backend: Any
) -> None:
    widths: Any = {"key_value_heads": groups, "key_width": keys, "value_width": values}
    own = shaken(SelfAttention(WIDTH, HEADS, causal=True, backend=backend, **widths)).eval()
    cross = shaken(CrossAttention(WIDTH, HEADS, backend=backend, memory_width=7, **widths)).eval()
    layout, others = Layout.of(LENGTHS), Layout.of(MEMORY_LENGTHS)
    x, memory = torch.randn(layout.tokens, WIDTH), torch.randn(others.tokens, 7)
    rows = [HEADS * keys, groups * keys, groups * values]
    parts = list(
        zip(own.project.weight.split(rows), own.project.bias.split(rows), (HEADS, groups, groups), strict=True)
    )
    expected = [
        loop(*(project(weight, bias, sentence, heads) for weight, bias, heads in parts), causal=True)
        for sentence in x.split(LENGTHS)
    ]
    close(own(x, layout), torch.cat(expected) @ own.output.weight.T + own.output.bias)

    into = cross.project_memory
    parts = list(zip(into.weight.split(rows[1:]), into.bias.split(rows[1:]), (groups, groups), strict=True))
    expected = [
        loop(
            project(cross.project_query.weight, cross.project_query.bias, sentence, HEADS),
            *(project(weight, bias, other, heads) for weight, bias, heads in parts),
            causal=False,
        )
        for sentence, other in zip(x.split(LENGTHS), memory.split(MEMORY_LENGTHS), strict=True)
    ]
    found = cross(x, layout, memory, others)
    close(found, torch.cat(expected) @ cross.output.weight.T + cross.output.bias)


@pytest.mark.parametrize("name", ["even", "varlen", "short"])
@pytest.mark.parametrize(("keys", "values"), WIDTHS[:2])
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_kernels_fill_the_narrower_with_zeros(name: str, keys: int, values: int) -> None:
    layout = Layout.of([4, 4]).to(torch.device("cuda"))
    q, k = (torch.randn(8, HEADS, keys, device="cuda").bfloat16().requires_grad_() for _ in range(2))
    v = torch.randn(8, HEADS, values, device="cuda").bfloat16().requires_grad_()
    found = BACKENDS[name](PackedHeads(q, k, v, layout, layout), True, 0.0)
    expected = explicit(PackedHeads(q.double(), k.double(), v.double(), layout, layout), True, 0.0)
    close(found.double(), expected, 2e-2)
    factors = torch.randn(8, HEADS, values, device="cuda")
    for mine, theirs in zip(
        torch.autograd.grad((found * factors).sum(), (q, k, v)),
        torch.autograd.grad((expected * factors).sum(), (q, k, v)),
        strict=True,
    ):
        close(mine.double(), theirs.double(), 5e-2)


@pytest.mark.parametrize(
    "options",
    [
        {"key_width": 6, "value_width": 3},
        {"key_width": 2, "value_width": 7, "positions": "rope", "key_value_heads": 1},
        {"key_width": 2, "value_width": 7, "positions": "relative"},
        {"key_width": 3, "value_width": 5, "positions": "alibi"},
        *({"key_width": 3, "value_width": 5, "alignment": name} for name in (*SCORES, "location")),
        {"key_width": 3, "value_width": 5, "distribution": "de_attention"},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
@torch.no_grad()
def test_steps_and_slots_equal_whole_sentences_whatever_the_widths(options: dict[str, Any]) -> None:
    model = model_of(**options)
    source, target = Packed.of([[4, 5, 6], [7, 8, 9, 4]]), Packed.of([[2, 3, 4, 5], [2, 9, 8, 7]])
    memory = model.encoder(source)
    expected = model.decoder(target, memory).unflatten(0, (2, 4))
    state = model.decoder.start(memory, aligned=True)
    for place in range(4):
        scores, state = model.decoder.step(target.values.view(2, 4)[:, place], state)
        close(scores, expected[:, place])
    decoder = model.decoder
    assert isinstance(decoder, TransformerDecoder)
    assert decoder.decodes_in_slots == (
        config_of(**options).fused and options.get("positions") not in ("alibi", "relative")
    )
    if decoder.decodes_in_slots:
        slots = decoder.slots(SlotShape(slots=2, beams=1, room=8, memory=6))
        places = torch.cat([slot * 6 + torch.arange(length) for slot, length in enumerate([3, 4])])
        slots.remember(decoder.project(memory), places, torch.arange(2), torch.tensor([3, 4]))
        for place in range(4):
            found = decoder.step_slots(target.values.view(2, 4)[:, place], slots)
            close(found, expected[:, place], 1e-5)  # slots compute in float32
            slots.positions_S.add_(1)


def test_queries_keys_and_values_may_be_without_the_biases_that_the_output_has() -> None:
    x, memory = torch.randn(4, WIDTH), torch.randn(5, 7)
    one, other = Layout.of([4]), Layout.of([5])
    own = [shaken(SelfAttention(WIDTH, 2, projection_bias=bias)).eval() for bias in (None, False)]
    cross = [shaken(CrossAttention(WIDTH, 2, memory_width=7, projection_bias=bias)).eval() for bias in (None, False)]
    for biased, bare in (own, cross):
        assert [name for name, _ in bare.named_parameters() if name.endswith("bias")] == ["output.bias"]
        given = bare.state_dict()
        biased.load_state_dict({name: torch.zeros_like(weight) for name, weight in biased.state_dict().items()} | given)
    close(own[0](x, one), own[1](x, one))
    close(cross[0](x, one, memory, other), cross[1](x, one, memory, other))
