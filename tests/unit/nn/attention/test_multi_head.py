import torch
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.nn.attention.backends import PackedHeads, explicit
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.padding import pad

WIDTH, HEADS = 8, 2


def test_heads_are_separate_attentions_over_slices_of_the_width() -> None:
    """Concat(head_1 .. head_H) W_O: with H times a smaller attention, each over its own rows of the projections."""
    attention = SelfAttention(WIDTH, HEADS, causal=True).double()
    layout = Layout.of([4, 2])
    x = torch.randn(6, WIDTH, dtype=torch.float64)
    q, k, v = (x @ attention.project.weight.T + attention.project.bias).chunk(3, dim=1)
    size = WIDTH // HEADS
    heads = [
        explicit(PackedHeads(q[:, None, part], k[:, None, part], v[:, None, part], layout, layout), True, 0.0)
        for part in (slice(start, start + size) for start in range(0, WIDTH, size))
    ]
    expected = torch.cat(heads, dim=2).squeeze(1) @ attention.output.weight.T + attention.output.bias
    torch.testing.assert_close(attention(x, layout), expected)


def test_shared_heads_are_own_heads_with_the_same_weights() -> None:
    """With every row of keys and values repeated for the heads that share it, each head has keys of its own."""

    def repeated(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (-1, 2)).repeat_interleave(2, dim=0).flatten(0, 1)

    shared, own = (SelfAttention(WIDTH, 4, causal=True, key_value_heads=some).double() for some in (2, None))
    shared_cross, cross = (CrossAttention(WIDTH, 4, key_value_heads=some).double() for some in (2, None))
    with torch.no_grad():
        for kind in ("weight", "bias"):
            q, k, v = getattr(shared.project, kind).split([8, 4, 4])
            getattr(own.project, kind).copy_(torch.cat([q, repeated(k), repeated(v)]))
            keys, values = getattr(shared_cross.project_memory, kind).split([4, 4])
            getattr(cross.project_memory, kind).copy_(torch.cat([repeated(keys), repeated(values)]))
            getattr(cross.project_query, kind).copy_(getattr(shared_cross.project_query, kind))
            getattr(own.output, kind).copy_(getattr(shared.output, kind))
            getattr(cross.output, kind).copy_(getattr(shared_cross.output, kind))
    layout, memory = Layout.of([4, 2]), torch.randn(7, WIDTH, dtype=torch.float64)
    x = torch.randn(6, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(shared(x, layout), own(x, layout))
    torch.testing.assert_close(
        shared_cross(x, layout, memory, Layout.of([3, 4])), cross(x, layout, memory, Layout.of([3, 4]))
    )


def test_attention_without_biases_has_none() -> None:
    for attention in (SelfAttention(WIDTH, HEADS, bias=False), CrossAttention(WIDTH, HEADS, bias=False)):
        assert all(name.endswith("weight") for name, _ in attention.named_parameters())


def test_stepping_through_cross_attention_equals_all_at_once_for_every_beam() -> None:
    """K rows a sentence share its memory, of which the shorter ones are padded."""
    attention = CrossAttention(WIDTH, HEADS).double()
    beams, lengths = 2, [4, 1, 3]
    layout = Layout.of(lengths)
    memory = torch.randn(sum(lengths), WIDTH, dtype=torch.float64)
    x = torch.randn(len(lengths) * beams, WIDTH, dtype=torch.float64)
    whole = attention(x, Layout.of([beams] * len(lengths)), memory, layout)
    keys, values = (pad(part, layout).transpose(1, 2) for part in attention.keys_and_values(memory))
    found = attention.step(x, torch.stack((keys, values)), layout.keep[:, None, None, :])
    torch.testing.assert_close(found, whole)


def test_weights_are_dropped_in_training_alone() -> None:
    layout = Layout.of([6])
    x = torch.randn(6, WIDTH)
    attention: nn.Module
    for attention, inputs in (
        (SelfAttention(WIDTH, HEADS, dropout=0.5), (x, layout)),
        (CrossAttention(WIDTH, HEADS, dropout=0.5), (x, layout, x, layout)),
    ):
        assert not torch.equal(attention(*inputs), attention(*inputs))
        attention.eval()
        assert torch.equal(attention(*inputs), attention(*inputs))
