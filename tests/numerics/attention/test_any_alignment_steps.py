"""Steps of decoders with any alignment equal a forward pass, and their weights are shares of what is read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.numerics.attention.any_alignment_equations import (
    EVERY_PAIR,
    HEAD,
    HEADS,
    MEMORY,
    MEMORY_LENGTHS,
    SOURCES,
    WIDTH,
    WORDS,
    Loop,
    attentions_of,
    close,
    config_of,
    matrix,
    model_of,
    shaken,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from heedful.base.packed import Layout, Packed
from heedful.models.from_recipe.transformer import transformer_decoder
from heedful.models.transformer.decoder import TransformerDecoder
from heedful.models.weights import weights_from_bytes, weights_to_bytes
from heedful.nn.alignments.random_features import Kernel
from heedful.nn.attention.any_alignment import (
    AlignedSelfAttention,
    LinearHeadAttention,
)
from heedful.nn.attention.backends import explicit
from heedful.nn.attention.explicit import position_shares
from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.padding import pad


@pytest.fixture(autouse=True)
def exact_constants() -> Iterator[None]:
    """Everything in float64: weights, sines, slopes and random features."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# --- stepping ---------------------------------------------------------------------------------------------------------


@EVERY_PAIR
@torch.no_grad()
def test_stepping_equals_forward_while_rows_are_reordered_and_sentences_leave(options: dict[str, str]) -> None:
    model, beams, active = model_of(**options), 2, torch.arange(3)
    state = model.decoder.start(model.encoder(Packed.of(SOURCES)), beams, aligned=True)
    rows: list[list[list[int]]] = [[[], []], [[], []], [[], []]]
    said, found = [], []
    for step in range(3):
        tokens = torch.randint(WORDS, (len(active), beams))
        rows = [
            [[*row, token] for row, token in zip(*both, strict=True)]
            for both in zip(rows, tokens.tolist(), strict=True)
        ]
        logits, state = model.decoder.step(tokens.flatten(), state)
        check_attention(state.attention_RL, active.tolist(), beams)
        said += [(place, row) for place, each in zip(active.tolist(), rows, strict=True) for row in each]
        found.append(logits)
        parents = torch.randint(beams, (len(active), beams))
        state = state.reorder(parents)
        rows = [[each[parent] for parent in row] for each, row in zip(rows, parents.tolist(), strict=True)]
        if step == 0:
            kept = torch.tensor([2, 1])
            state, active, rows = state.narrow(kept), active[kept], [rows[place] for place in kept]
    whole = model(Packed.of([SOURCES[place] for place, _ in said]), Packed.of([row for _, row in said]))
    expected = [each[-1] for each in whole.split([len(row) for _, row in said])]
    close(torch.cat(found), torch.stack(expected))


def check_attention(weights: Tensor | None, sentences: list[int], beams: int) -> None:
    assert weights is not None
    assert (weights >= 0).all()
    close(weights.sum(1), torch.ones(len(sentences) * beams))
    for row, place in zip(weights, [place for place in sentences for _ in range(beams)], strict=True):
        assert (row[len(SOURCES[place]) :] == 0).all()


@pytest.mark.parametrize(
    "options", [{"alignment": "area", "positions": "rope"}, {"alignment": "location"}, {"distribution": "de_attention"}]
)
def test_one_row_per_sentence_steps_like_forward(options: dict[str, str]) -> None:
    model = model_of(**options)
    with torch.no_grad():
        targets = torch.randint(WORDS, (3, 5))
        expected = model(Packed.of(SOURCES), Packed.of(targets.tolist())).unflatten(0, (3, 5))
        state = model.decoder.start(model.encoder(Packed.of(SOURCES)))
        for place, tokens in enumerate(targets.T):
            logits, state = model.decoder.step(tokens, state)
            close(logits, expected[:, place])


def test_a_decoder_over_a_wider_memory_steps_like_forward() -> None:
    for options in ({}, {"alignment": "additive", "distribution": "sparsemax"}):
        decoder: TransformerDecoder = shaken(transformer_decoder(config_of(**options), matrix(), matrix(), 3 * WIDTH))
        decoder.embedding.precision = torch.float64
        memory = Packed(torch.randn(sum(MEMORY_LENGTHS), 3 * WIDTH), Layout.of(MEMORY_LENGTHS))
        targets = torch.randint(WORDS, (3, 4))
        expected = decoder(Packed.of(targets.tolist()), memory).unflatten(0, (3, 4))
        state = decoder.start(memory)
        for place, tokens in enumerate(targets.T):
            logits, state = decoder.step(tokens, state)
            close(logits, expected[:, place])
        assert decoder.head_bytes == 8 * HEAD


@EVERY_PAIR
@torch.no_grad()
def test_the_weights_of_a_step_are_shares_of_what_the_equations_read(options: dict[str, str]) -> None:
    config = config_of(**options)
    cross, layout = attentions_of(config)[2], Layout.of(MEMORY_LENGTHS)
    memory, x, beams = torch.randn(layout.tokens, MEMORY), torch.randn(6, WIDTH), 2
    keys, values = (pad(each, layout).transpose(1, 2) for each in cross.keys_and_values(memory))
    found = cross.step_weights(x, torch.stack((keys, values)), layout.keep[:, None, None, :])
    for rows, part, weights in zip(x.split(beams), memory.split(MEMORY_LENGTHS), found.split(beams), strict=True):
        _, factors_HQL = Loop(config, cross)(rows, part)
        sizes = sum(factors.abs() for factors in factors_HQL)
        assert isinstance(sizes, Tensor)
        close(weights[:, : len(part)], sizes / sizes.sum(1, keepdim=True))
        assert (weights[:, len(part) :] == 0).all()


def test_shares_are_of_sizes_and_a_query_that_reads_nothing_shares_alike() -> None:
    factors = torch.tensor([[[[3.0, -1.0, 0.0], [0.0, 0.0, 0.0]], [[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]]])
    keep = torch.tensor([[True, True, False]])
    close(position_shares(factors, keep), torch.tensor([[[4 / 7, 3 / 7, 0.0], [0.5, 0.5, 0.0]]]))
    close(position_shares(factors), torch.tensor([[[4 / 7, 3 / 7, 0.0], [1 / 3, 1 / 3, 1 / 3]]]))


# --- the kernel -------------------------------------------------------------------------------------------------------


class Largest(TorchDispatchMode):
    """Watches how many numbers the largest tensor holds that anything puts out, and how many all of them hold."""

    largest, total = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, tuple | list) else (results,):
            if isinstance(result, Tensor):
                self.largest, self.total = max(self.largest, result.numel()), self.total + result.numel()
        return results


def watched(attention: SelfAttention | CrossAttention, length: int) -> Largest:
    layout, x = Layout.of([length]), torch.randn(length, attention.output.weight.shape[1], requires_grad=True)
    inputs = (x, layout, x, layout) if isinstance(attention, CrossAttention) else (x, layout)
    with Largest() as seen:  # type: ignore[no-untyped-call]
        attention(*inputs).sum().backward()
    return seen


def kernel_attentions(features: int) -> tuple[SelfAttention, SelfAttention, CrossAttention]:
    return attentions_of(config_of(alignment="kernel", features=features), memory_width=WIDTH)


def test_a_kernel_never_compares_each_token_with_each() -> None:
    once, twice = 1024, 2048
    for attention in kernel_attentions(features=4):
        short, long = watched(attention, once), watched(attention, twice)
        assert long.largest < twice * twice / 4
        assert long.largest <= 2.01 * short.largest
        assert long.total <= 2.1 * short.total
    assert watched(SelfAttention(WIDTH, HEADS, backend=explicit), once).largest >= once * once


@torch.no_grad()
def test_a_kernel_with_more_features_is_closer_to_a_softmax() -> None:
    layout, x = Layout.of([6, 3]), torch.randn(9, WIDTH) / 2  # of long vectors the largest features decide alone
    fused = [SelfAttention(WIDTH, HEADS), SelfAttention(WIDTH, HEADS, causal=True), CrossAttention(WIDTH, HEADS)]
    errors = []
    for features in (16, 256, 4096):
        error = 0.0
        for attention, exact in zip(kernel_attentions(features), fused, strict=True):
            attention.load_state_dict(exact.state_dict(), strict=False)
            inputs = (x, layout, x, layout) if isinstance(exact, CrossAttention) else (x, layout)
            error += float((attention(*inputs) - exact(*inputs)).abs().mean())
        errors.append(error)
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < errors[0] / 8  # as 1 / sqrt(features)


def test_a_kernels_weights_are_dropped_in_training() -> None:
    count, x = 3000, torch.randn(4, WIDTH)
    attention = AlignedSelfAttention(WIDTH, HEADS, LinearHeadAttention(Kernel(HEAD, HEAD, HEADS, 8)), dropout=0.5)
    whole = attention.eval()(x, Layout.of([4]))
    drawn = attention.train()(x.repeat(count, 1), Layout.of([4] * count)).unflatten(0, (count, 4))
    close(drawn.mean(0), whole, 0.05)
    assert float(drawn.std(0).mean().detach()) > 0.05


def test_random_features_are_those_of_the_recipe_in_each_layer_their_own() -> None:
    """A file of weights does not hold them."""
    written, read = (model_of(seed, alignment="kernel", layers=2) for seed in (1, 2))
    weights_from_bytes(read, weights_to_bytes(written), Path("model.safetensors"))
    pair = Packed.of(SOURCES), Packed.of([[4, 4], [5], [6, 7, 8]])
    assert torch.equal(read(*pair), written(*pair))
    kernels = [module for module in written.modules() if isinstance(module, Kernel)]
    assert len({tuple(each.directions.flatten().tolist()) for each in kernels}) == len(kernels) == 6
