"""Fast scores, static shapes, other encoders, dropout and learning of recurrent encoder-decoders."""

from dataclasses import replace
from typing import cast

import pytest
import torch
from tests.numerics.recurrent.recurrent_equations import (
    DEEP,
    EQUAL,
    PAIRS,
    SOURCES,
    TARGETS,
    TINY,
    WORDS,
    Options,
    assert_same,
    gradients_of,
    model_of,
    naive_vectors,
    named,
    scores_of,
)
from torch import Tensor, nn

from heedful.base.errors import UserError
from heedful.base.packed import Layout, Packed
from heedful.config.model.mixed import MixedModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.recurrent.decoder import EachSentence, RecurrentDecoder
from heedful.models.recurrent.encoder import RecurrentMemory, summary
from heedful.nn.losses.cross_entropy import smoothed_cross_entropy
from heedful.nn.recurrent import attention_steps as step_reads
from heedful.nn.recurrent.cells import StackedCells, VariationalDropout
from heedful.nn.recurrent.stack import RecurrentStack

# --- quick ways -------------------------------------------------------------------------------------------------------


@named(
    [
        {"wiring": wiring, "alignment": alignment, "window": window, "distribution": distribution, **EQUAL}
        for wiring in ("bahdanau", "luong")
        for alignment in ("additive", "general", "dot")
        for window, distribution in (("global", "softmax"), ("predicted", "de_attention"))
    ]
)
def test_fast_scores_equal_those_of_the_alignment(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(options)
    quick = scores_of(model, PAIRS)
    gradients = gradients_of(model, quick)
    used: list[str] = []
    run = step_reads.AnyScores.__call__

    def note(self: step_reads.AnyScores, step: int, q_RE: Tensor) -> Tensor:
        used.append("any")
        return run(self, step, q_RE)

    monkeypatch.setattr(step_reads.AnyScores, "__call__", note)
    monkeypatch.setattr(step_reads, "STEP_SCORES", {})
    plain = scores_of(model, PAIRS)
    assert len(used) == max(map(len, TARGETS))
    for one, other in zip((*quick, *gradients), (*plain, *gradients_of(model, plain)), strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


@named([{"wiring": "bahdanau"}, {"wiring": "luong"}])
def test_gradients_of_some_tokens_need_no_others_and_repeat(options: Options) -> None:
    """A part of the graph may be run back, then another, then all of it: each has exactly its own gradient."""
    model = model_of(options)
    expected = model_of(options)
    scores, parameters = torch.cat(scores_of(model, PAIRS)), list(model.parameters())
    torch.autograd.grad(scores[3].sum(), model.decoder.output.weight, retain_graph=True)
    torch.autograd.grad(scores[5].sum(), list(model.encoder.parameters()), retain_graph=True)  # type: ignore[attr-defined]
    for rows in (slice(0, 2), slice(6, 7), slice(None)):
        found = torch.autograd.grad(scores[rows].sum(), parameters, retain_graph=True, allow_unused=True)
        alone = torch.cat(scores_of(expected, PAIRS))[rows].sum()
        known = torch.autograd.grad(alone, list(expected.parameters()), allow_unused=True)
        for one, other in zip(found, known, strict=True):
            torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)


@named([{"wiring": wiring, "cell": cell} for wiring in ("cho", "bahdanau", "luong") for cell in ("gru", "lstm")])
@pytest.mark.parametrize("copies", [1, 9], ids=["few", "many"])
def test_bfloat16_on_a_cpu_is_near_float32(options: Options, copies: int) -> None:
    """With 4 and with 36 sentences: fewer rows than a kernel takes at a time, and more, and other numbers of them."""
    losses, gradients = [], []
    for precision in (torch.float32, torch.bfloat16):
        model = model_of(options, torch.float32, width=32)
        set_precision(model, precision)
        states = model.states(Packed.of(SOURCES * copies), Packed.of(TARGETS * copies))
        assert states.dtype == precision
        labels = torch.tensor([token for target in TARGETS * copies for token in target])
        loss, _ = smoothed_cross_entropy(states, model.decoder.output.weight, None, labels, 0.1)
        found = torch.autograd.grad(loss / len(states), list(model.parameters()))
        losses.append(float(loss.detach()) / len(states))
        gradients.append(torch.cat([gradient.flatten() for gradient in found]))
    assert losses[1] == pytest.approx(losses[0], rel=0.03)
    assert torch.cosine_similarity(gradients[0], gradients[1], dim=0) > 0.99


# --- where sentences are of other kinds -------------------------------------------------------------------------------


@named([{"wiring": wiring, "cell": "lstm"} for wiring in ("sutskever", "cho", "bahdanau", "luong")])
def test_padding_sentences_are_finite_and_do_not_affect_others(options: Options) -> None:
    model = model_of(options)
    source = Packed(torch.tensor([3, 1, 4, 9, 2, 2]), replace(Layout.of([3, 0, 1, 2, 0]), bound=8))
    target = Packed(torch.tensor([1, 5, 7, 7, 7, 2, 6]), replace(Layout.of([2, 3, 2, 0, 0]), bound=9))
    scores = model(source, target)
    expected = scores_of(model, [([3, 1, 4], [1, 5]), ([9], [2, 6])])
    assert_same(model, [scores[:2], scores[5:]], expected)
    assert all(tensor.isfinite().all() for tensor in (scores, *gradients_of(model, [model(source, target)])))


def mixed(decoder: Options) -> EncoderDecoder:
    torch.manual_seed(3)
    encoder = TransformerModel(width=6, heads=2, layers=1, inner=8, dropout=0.0)
    recurrent = RecurrentModel(family="recurrent", **(TINY | decoder))
    model = build_model(MixedModel(family="mixed", encoder=encoder, decoder=recurrent), WORDS, WORDS).double()
    set_precision(model, torch.float64)
    return model


@named(
    [{"wiring": "sutskever"}, {"wiring": "cho", "cell": "lstm"}, {"wiring": "bahdanau", **DEEP}, {"wiring": "luong"}]
)
def test_a_decoder_over_another_encoder_starts_from_the_mean_of_its_memory(options: Options) -> None:
    model = mixed(options)
    memory = model.encoder(Packed.of(SOURCES))
    assert not isinstance(memory, RecurrentMemory)
    means = torch.stack([vectors.mean(0) for vectors in memory.split()])
    torch.testing.assert_close(summary(memory), means)
    assert_same(model, scores_of(model, PAIRS), [scores_of(model, [pair])[0] for pair in PAIRS])
    state = model.decoder.start(memory, aligned=True)
    for place in range(2):
        found, state = model.decoder.step(
            torch.tensor([target[min(place, len(target) - 1)] for target in TARGETS]), state
        )
        for row, expected in zip(found, scores_of(model, PAIRS), strict=True):
            if place < len(expected):
                torch.testing.assert_close(row, expected[place])


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_bridge_needs_the_state_that_it_passes_on(cell: str) -> None:
    model = mixed({"wiring": "sutskever", "bidirectional": False, "cell": cell})
    message = (
        r"^The decoder starts from the encoder's last state as it is, but this encoder has none of 1 x 6 in one "
        r"direction: leave `bidirectional = false` out of the decoder's table, and it starts from a map of what there "
        r"is\.$"
    )
    with pytest.raises(UserError, match=message):
        scores_of(model, PAIRS)
    other = model_of({"wiring": "sutskever", "cell": "tanh", "bidirectional": False, "layers": 2})
    with pytest.raises(UserError, match=message):
        model.decoder.states(Packed.of(TARGETS), other.encoder(Packed.of(SOURCES)))


def test_a_memory_moves_with_its_state() -> None:
    memory = model_of({"wiring": "cho", "cell": "lstm"}).encoder(Packed.of(SOURCES))
    moved = memory.to(torch.device("meta"))
    assert isinstance(moved, RecurrentMemory)
    assert {tensor.device.type for tensor in (moved.values, *moved.last.parts)} == {"meta"}
    other = memory.with_values(memory.values * 2)
    assert isinstance(other, RecurrentMemory)
    assert isinstance(memory, RecurrentMemory)
    assert torch.equal(other.last.hidden, memory.last.hidden)


# --- dropout ----------------------------------------------------------------------------------------------------------


@named([{"wiring": wiring, **more} for wiring in ("bahdanau", "luong") for more in ({}, DEEP, {"cell": "lstm"})])
def test_variational_masks_are_those_of_the_equations_at_every_step(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the words, on what is read or fed back, between layers and on every state before its product."""
    model = model_of(options, dropout=0.4, variational=True)
    cast(nn.Module, model.encoder).eval()
    drawn: list[StackedCells] = []
    cells_of = RecurrentStack.cells

    def keep(self: RecurrentStack, rows: int, like: Tensor) -> StackedCells:
        drawn.append(cells_of(self, rows, like))
        return drawn[-1]

    monkeypatch.setattr(RecurrentStack, "cells", keep)
    decoder = cast(RecurrentDecoder, model.decoder)
    decoder.drop.eval()
    tokens = Packed.of(TARGETS)
    found = decoder.states(tokens, model.encoder(Packed.of(SOURCES))).split([len(target) for target in TARGETS])
    masks = cast(VariationalDropout, drawn[-1].drops)
    longest_first = sorted(range(4), key=lambda sentence: -len(TARGETS[sentence]))
    for row, sentence in enumerate(longest_first):
        expected = naive_vectors(model, *PAIRS[sentence], masks, row)
        torch.testing.assert_close(found[sentence], expected, atol=1e-12, rtol=1e-12)


def test_a_variational_mask_before_the_output_layer_is_one_for_each_sentence() -> None:
    drop, layout = EachSentence(0.5), Layout.of([4, 1, 3])
    x = torch.ones(8, 40)
    masks = list(drop(x, layout).split([4, 1, 3]))
    assert set(masks[0].unique().tolist()) == {0.0, 2.0}
    assert (masks[0] == masks[0][0]).all()
    assert (masks[2] == masks[2][0]).all()
    assert not torch.equal(masks[0][0], masks[2][0])
    assert torch.equal(drop.eval()(x, layout), x)


@pytest.mark.parametrize("variational", [False, True])
@named([{"wiring": wiring} for wiring in ("sutskever", "cho", "bahdanau", "luong")])
def test_dropout_acts_only_in_training(options: Options, variational: bool) -> None:
    model, plain = model_of(options, dropout=0.4, variational=variational), model_of(options)
    first, second = torch.cat(scores_of(model, PAIRS)), torch.cat(scores_of(model, PAIRS))
    assert not torch.allclose(first, second)
    model.eval()
    assert torch.equal(torch.cat(scores_of(model, PAIRS)), torch.cat(scores_of(plain, PAIRS)))


# --- learning ---------------------------------------------------------------------------------------------------------


@named(
    [
        {"wiring": "bahdanau", "cell": "gru"},
        {"wiring": "luong", "cell": "lstm"},
        {"wiring": "sutskever", "cell": "lstm", "bidirectional": False, "reverse_source": True},
        {"wiring": "cho", "cell": "gru"},
    ],
    2,
)
def test_one_batch_can_be_memorized(options: Options) -> None:
    torch.manual_seed(5)
    model = build_model(RecurrentModel(family="recurrent", width=32, dropout=0.0, **options), WORDS, WORDS)
    pairs = [(torch.randint(3, WORDS, (3,)).tolist(), torch.randint(3, WORDS, (3,)).tolist()) for _ in range(6)]
    source, target = Packed.of([pair[0] for pair in pairs]), Packed.of([[1, *pair[1]] for pair in pairs])
    labels = torch.tensor([[*pair[1], 2] for pair in pairs]).flatten()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        loss, _ = smoothed_cross_entropy(model.states(source, target), model.decoder.output.weight, None, labels, 0.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) / len(labels) < 0.1
