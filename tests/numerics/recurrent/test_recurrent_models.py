"""Recurrent encoder-decoders equal the equations of their papers, with every option."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from tests.numerics.recurrent.recurrent_equations import (
    DEEP,
    EQUAL,
    PAIRS,
    SOURCES,
    WORDS,
    Options,
    assert_same,
    model_of,
    naive_bridge,
    naive_encoder,
    naive_vectors,
    naive_weights,
    named,
    scores_of,
)
from torch import Tensor

from heedful.base.packed import Packed
from heedful.models.recurrent.decoder import RecurrentDecoder
from heedful.models.recurrent.encoder import RecurrentEncoder
from heedful.models.recurrent.initial_state import Bridged
from heedful.models.recurrent.wirings import Bahdanau, Luong

CELLS = ("gru", "lstm", "tanh", "relu")
LOCAL: Options = {"half_width": 2, "max_places": 8, **EQUAL}
ALIGNMENTS = (
    "content", "dot", "scaled_dot", "general", "biased_general", "activated_general", "kernel", "additive", "deep",
    "location", "area",
)  # fmt: skip
DISTRIBUTIONS = (
    "softmax", "sigmoid", "normalised_sigmoid", "sparsemax", "entmax15", "entmax", "learned_entmax", "de_attention"
)  # fmt: skip

# --- the equations, one sentence and one step after the other ---------------------------------------------------------

PAPERS: list[Options] = [
    *({"wiring": wiring, "cell": cell} for wiring in ("sutskever", "cho", "bahdanau", "luong") for cell in CELLS),
    *({"wiring": wiring, "cell": "lstm", **DEEP} for wiring in ("sutskever", "cho", "bahdanau", "luong")),
    {"wiring": "sutskever", "cell": "lstm", "bidirectional": False, "reverse_source": True, "layers": 2},
    {"wiring": "sutskever", "cell": "gru", "bidirectional": False},
    {"wiring": "sutskever", "cell": "gru", "bidirectional": False, "encoder_width": 4},
    {"wiring": "bahdanau", "cell": "gru", "reverse_source": True, "encoder_width": 4},
    {"wiring": "bahdanau", "reverse_source": True, "window": "monotone", "half_width": 1},
    {"wiring": "bahdanau", "distribution": "de_attention", **EQUAL},
    {"wiring": "luong", "distribution": "de_attention", "encoder_width": 3},
    {"wiring": "luong", "cell": "gru", "input_feeding": False},
    {"wiring": "luong", "cell": "lstm", "input_feeding": False, "alignment": "additive", **DEEP},
    *(
        {"wiring": wiring, "window": window, "half_width": 1, "alignment": alignment, "input_feeding": feeding}
        for wiring, feeding in (("bahdanau", True), ("luong", True), ("luong", False))
        for window in ("monotone", "predicted")
        for alignment in ("additive", "general")
    ),
]


@named(PAPERS)
def test_scores_and_gradients_are_those_of_the_papers_equations(options: Options) -> None:
    model = model_of(options)
    expected = [model.decoder.output(naive_vectors(model, source, target)) for source, target in PAIRS]
    assert_same(model, scores_of(model, PAIRS), expected)


# --- every option -----------------------------------------------------------------------------------------------------

WINDOWS = ("global", "monotone", "predicted")
WIRINGS: tuple[Options, ...] = (
    {"wiring": "bahdanau"},
    {"wiring": "luong"},
    {"wiring": "luong", "input_feeding": False},
)
# Every alignment, every distribution and every window in each of the three that attend, not each with each other.
EVERY: list[Options] = [
    {"wiring": "sutskever", "cell": "lstm", **DEEP},
    {"wiring": "sutskever", "cell": "gru", "bidirectional": False},
    {"wiring": "cho", "cell": "lstm", **DEEP},
    *({**WIRINGS[number % 3], "cell": cell, **DEEP} for number, cell in enumerate((*CELLS, *CELLS))),
    *(
        {**wiring, "alignment": alignment, "window": "global" if alignment == "area" else WINDOWS[(i + j) % 3], **LOCAL}
        for i, wiring in enumerate(WIRINGS)
        for j, alignment in enumerate(ALIGNMENTS)
    ),
    *(
        {**wiring, "distribution": distribution, "alignment": ("additive", "area", "dot")[(i + j) % 3], **LOCAL}
        for i, wiring in enumerate(WIRINGS[:2])
        for j, distribution in enumerate(DISTRIBUTIONS)
    ),
    {"wiring": "bahdanau", "distribution": "sparsemax", "choice": "hard", "window": "predicted"},
    {"wiring": "bahdanau", "distribution": "softmax", "choice": "gumbel"},
    {"wiring": "luong", "distribution": "softmax", "choice": "hard"},
    {"wiring": "luong", "distribution": "entmax", "choice": "gumbel", "window": "monotone", "input_feeding": False},
]


@named(EVERY, 2)
def test_a_neighbour_in_the_batch_changes_nothing(options: Options) -> None:
    """Neither scores nor gradients."""
    model = model_of(options).eval()
    assert_same(model, scores_of(model, PAIRS), [scores_of(model, [pair])[0] for pair in PAIRS])


@named(EVERY, 2, first=1)
@torch.no_grad()
def test_stepping_equals_forward_whatever_rows_are_reordered_and_narrowed(options: Options) -> None:
    model = model_of(options).eval()
    beams, alive = 2, list(range(len(SOURCES)))
    state = model.decoder.start(model.encoder(Packed.of(SOURCES)), beams, aligned=True)
    history: list[list[int]] = [[] for _ in range(beams * len(SOURCES))]
    assert state.attention_RL is None
    for step in range(5):
        tokens = torch.randint(WORDS, (len(history),))
        history = [[*row, int(token)] for row, token in zip(history, tokens, strict=True)]
        found, state = model.decoder.step(tokens, state)
        owners = [SOURCES[sentence] for sentence in alive for _ in range(beams)]
        expected = torch.stack([score[-1] for score in scores_of(model, list(zip(owners, history, strict=True)))])
        torch.testing.assert_close(found, expected, atol=1e-11, rtol=1e-11)
        before = state.attention_RL
        assert before is not None
        assert_shares(before, owners)
        if step == 2:
            alive, kept = [alive[0], alive[2], alive[3]], torch.tensor([0, 2, 3])
            state = state.narrow(kept)
            history = [history[2 * sentence + k] for sentence in kept.tolist() for k in range(beams)]
            before = before.unflatten(0, (-1, beams))[kept].flatten(0, 1)
        parents = torch.randint(beams, (len(alive), beams))
        rows = (torch.arange(len(alive)).unsqueeze(1) * beams + parents).flatten()
        state, history = state.reorder(parents), [history[row] for row in rows]
        assert torch.equal(cast(Tensor, state.attention_RL), before[rows])


def assert_shares(attention_RL: Tensor, sources: Sequence[list[int]]) -> None:
    """Each row sums to one, and is zero behind its source's end."""
    assert (attention_RL >= 0).all()
    torch.testing.assert_close(attention_RL.sum(1), torch.ones(len(sources), dtype=attention_RL.dtype))
    for row, source in zip(attention_RL, sources, strict=True):
        assert (row[len(source) :] == 0).all()


@pytest.mark.parametrize("wiring", ["sutskever", "cho"])
@torch.no_grad()
def test_a_decoder_without_attention_reports_equal_shares(wiring: str) -> None:
    model = model_of({"wiring": wiring})
    _, state = model.decoder.step(
        torch.ones(4, dtype=torch.int64), model.decoder.start(model.encoder(Packed.of(SOURCES)), aligned=True)
    )
    for row, source in zip(cast(Tensor, state.attention_RL), SOURCES, strict=True):
        torch.testing.assert_close(row[: len(source)], torch.full((len(source),), 1 / len(source), dtype=row.dtype))


@torch.no_grad()
def test_attention_is_what_the_state_before_gives_in_bahdanau_and_its_own_in_luong() -> None:
    for wiring in ("bahdanau", "luong"):
        model = model_of({"wiring": wiring, "cell": "tanh"})
        memory, ends, _ = naive_encoder(cast(RecurrentEncoder, model.encoder), SOURCES[2])
        state = model.decoder.start(model.encoder(Packed.of([SOURCES[2]])), aligned=True)
        found = cast(RecurrentDecoder, model.decoder).wiring
        assert isinstance(found, Bahdanau | Luong)
        ((before,),) = naive_bridge(cast(Bridged, found.first).bridge, torch.cat(ends))
        _, state = model.decoder.step(torch.tensor([4]), state)
        query = before if wiring == "bahdanau" else cast(Any, state).recurrent.hidden[0, 0]
        expected = naive_weights(found, query, memory, 0)
        torch.testing.assert_close(cast(Tensor, state.attention_RL)[0], expected)


@torch.no_grad()
def test_a_state_that_was_not_started_aligned_has_no_attention() -> None:
    for wiring in ("cho", "bahdanau", "luong"):
        model = model_of({"wiring": wiring})
        state = model.decoder.start(model.encoder(Packed.of(SOURCES)))
        assert model.decoder.step(torch.ones(4, dtype=torch.int64), state)[1].attention_RL is None
