"""Captured weights against naive loops over heads, queries and keys, and against what attention returns."""

import math
from typing import Any

import pytest
import torch
from tests.models.language import TRANSFORMERS, language_model
from torch import Tensor

from heedful.base.packed import Layout, Packed
from heedful.explain.capture import capture_weights
from heedful.models.networks import EncoderDecoder
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.attention.restricted import Restricted
from heedful.nn.evaluation_mode import by_equation
from heedful.tasks.translate.model import Translator

SOURCE, TARGET = [4, 9, 6, 7, 2], [1, 7, 6, 9]


def _naive(q_NHD: Tensor, k_MHD: Tensor, causal: bool) -> Tensor:
    """softmax(q . k / sqrt(D)), number by number."""
    queries, heads, width = q_NHD.shape
    found = torch.zeros(heads, queries, len(k_MHD))
    for head in range(heads):
        for query in range(queries):
            seen = range(query + 1) if causal else range(len(k_MHD))
            products = [sum(float(a * b) for a, b in zip(q_NHD[query, head], k_MHD[key, head], strict=True))
                        for key in seen]  # fmt: skip
            powers = [math.exp(product / math.sqrt(width)) for product in products]
            for key in seen:
                found[head, query, key] = powers[key] / sum(powers)
    return found


def _inputs(network: EncoderDecoder, kind: type[torch.nn.Module], run: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """The modules of a kind, with what they were called with."""
    seen: list[tuple[Any, tuple[Any, ...]]] = []
    hooks = [module.register_forward_pre_hook(lambda module, inputs: seen.append((module, inputs)))
             for module in network.modules() if isinstance(module, kind)]  # fmt: skip
    run()
    for hook in hooks:
        hook.remove()
    return seen


def test_captured_weights_equal_a_naive_loop(reversing: Translator) -> None:
    network = reversing.network.eval()
    source, target = Packed.of([SOURCE]), Packed.of([TARGET])
    with torch.no_grad():
        with capture_weights(network) as captured:
            network(source, target)
        calls = _inputs(network, SelfAttention, lambda: network(source, target))
        for kind, (module, (x, _)) in zip(("encoder", "decoder"), calls, strict=True):
            q, k, _ = module.project(x).unflatten(1, (3, module.heads, -1)).unbind(1)
            expected = _naive(q, k, causal=kind == "decoder")
            torch.testing.assert_close(torch.from_numpy(captured.weights(kind)[0]), expected)  # type: ignore[arg-type]
        ((module, (x, _, memory, _)),) = _inputs(network, CrossAttention, lambda: network(source, target))
        q = module.project_query(x).unflatten(1, (module.heads, -1))
        k = module.project_memory(memory).unflatten(1, (2, module.heads, -1))[:, 0]
        torch.testing.assert_close(torch.from_numpy(captured.weights("cross")[0]), _naive(q, k, causal=False))


@pytest.mark.parametrize("family", [name for name in TRANSFORMERS if name != "relative"])  # it adds vectors to values
def test_what_attention_returns_is_read_with_its_weights(family: str) -> None:
    attention: Any = language_model(family).decoder.blocks[0].attention  # type: ignore[attr-defined]
    layout = Layout.of([5, 3])
    x = torch.randn(8, 16, dtype=torch.float64)
    with torch.no_grad():
        weights = attention.weights(x, layout)
        _, _, v = attention._heads(x, layout.positions, layout.bound)
        rows = [
            torch.einsum("hqk,khd->qhd", weights[sentence, :, :size, :size], v[start : start + size])
            for sentence, (start, size) in enumerate(((0, 5), (5, 3)))
        ]
        torch.testing.assert_close(attention.output(torch.cat(rows).flatten(1)), attention(x, layout))


def test_texts_that_do_not_see_each_other_have_no_weights_between_them(reversing: Translator) -> None:
    network = reversing.network.eval()
    with torch.no_grad(), capture_weights(network) as both:
        network.encoder(Packed.of([SOURCE, TARGET]))
    with torch.no_grad(), capture_weights(network) as alone:
        network.encoder(Packed.of([SOURCE]))
    weights = torch.from_numpy(both.weights("encoder"))
    torch.testing.assert_close(weights[:, :, :5, :5], torch.from_numpy(alone.weights("encoder")))
    assert not weights[:, :, :5, 5:].any()
    assert not weights[:, :, 5:, :5].any()


def test_attention_within_a_radius_is_so_where_equations_are_written_out() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(8, 2, causal=True, backend=Restricted(1)).eval()
    layout, x_NE = Packed.of([[5] * 4]).layout, torch.randn(4, 8)
    with torch.no_grad(), by_equation():
        far = x_NE.clone()
        far[0] += 1
        written = attention(x_NE, layout)
        assert torch.equal(attention(far, layout)[2:], written[2:])
    with torch.no_grad():
        torch.testing.assert_close(attention(x_NE, layout), written)
