"""Recurrent models equal loops that write the papers' equations out, and step as they run, with every option."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from heedful.config.model.mixed import MixedModel
from heedful.config.model.recurrent import RecurrentModel
from heedful.config.model.transformer import TransformerModel
from heedful.errors import UserError
from heedful.models.build.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.models.recurrent.decoder import EachSentence, RecurrentDecoder
from heedful.models.recurrent.encoder import RecurrentEncoder, RecurrentMemory, summary
from heedful.models.recurrent.initial_state import Bridge, Bridged
from heedful.models.recurrent.wirings import Bahdanau, Cho, Luong, Sutskever, Unfed
from heedful.nn.alignments.distributions import DeAttention
from heedful.nn.alignments.networks import Additive
from heedful.nn.alignments.products import General
from heedful.nn.attention.windows import MonotoneView, PredictedView
from heedful.nn.cross_entropy import smoothed_cross_entropy
from heedful.nn.recurrent import attention_steps as step_reads
from heedful.nn.recurrent.cells import StackedCells, VariationalDropout
from heedful.nn.recurrent.deep_output import DeepOutput
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.packed import Layout, Packed

WORDS = 17
Options = dict[str, Any]
Pair = tuple[list[int], list[int]]
PAIRS: list[Pair] = [([3, 1, 4], [1, 5]), ([9], [2, 6, 5, 3]), ([5, 8, 9, 7, 9, 3], [2]), ([2, 3], [8, 4, 6])]
SOURCES, TARGETS = [source for source, _ in PAIRS], [target for _, target in PAIRS]

TINY: Options = {"width": 6, "embedding": 5, "dropout": 0.0}
CELLS = ("gru", "lstm", "tanh", "relu")
DEEP: Options = {"layers": 2, "decoder_layers": 3}
EQUAL: Options = {"bidirectional": False}  # the memory is as wide as the decoder's states
LOCAL: Options = {"half_width": 2, "max_places": 8, **EQUAL}
ALIGNMENTS = (
    "content", "dot", "scaled_dot", "general", "biased_general", "activated_general", "kernel", "additive", "deep",
    "location", "area",
)  # fmt: skip
DISTRIBUTIONS = (
    "softmax", "sigmoid", "normalised_sigmoid", "sparsemax", "entmax15", "entmax", "learned_entmax", "de_attention"
)  # fmt: skip


def named(options: Sequence[Options]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("options", options, ids=lambda given: "-".join(map(str, given.values())))


def model_of(options: Options, dtype: torch.dtype = torch.float64, **more: Any) -> EncoderDecoder:
    """A tiny model, always from the same draws, all of whose biases count."""
    torch.manual_seed(7)
    config = RecurrentModel(family="recurrent", **(TINY | options | more))
    model = build_model(config, WORDS, WORDS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    model.to(dtype)
    set_precision(model, dtype)
    return model


def scores_of(model: EncoderDecoder, pairs: Sequence[Pair]) -> list[Tensor]:
    scores = model(Packed.of([source for source, _ in pairs]), Packed.of([target for _, target in pairs]))
    return list(scores.split([len(target) for _, target in pairs]))


def gradients_of(model: EncoderDecoder, scores: Sequence[Tensor]) -> list[Tensor]:
    """Of a loss that reads every score with a weight of its own."""
    read = torch.cat([score.flatten() for score in scores])
    loss = (read * torch.linspace(-1, 1, len(read), dtype=read.dtype)).sum()
    parameters = list(model.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def assert_same(model: EncoderDecoder, found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """In scores, and in the gradients of all parameters."""
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)
    for one, other in zip(gradients_of(model, found), gradients_of(model, expected), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


# --- the equations, one sentence and one step after the other ---------------------------------------------------------


def naive_cell(
    kind: str, weights: Sequence[Tensor], x: Tensor, state: list[Tensor], mask: Tensor | float
) -> list[Tensor]:
    """h(t), and c(t) of an LSTM, gate by gate; the mask is on h before every product."""
    weight_x, weight_h, bias_x, bias_h = weights
    h, gates = state[0], len(weight_x) // len(state[0])
    from_x = [w @ x + b for w, b in zip(weight_x.chunk(gates), bias_x.chunk(gates), strict=True)]
    from_h = [w @ (h * mask) + b for w, b in zip(weight_h.chunk(gates), bias_h.chunk(gates), strict=True)]
    if kind == "rnn_tanh":
        return [torch.tanh(from_x[0] + from_h[0])]
    if kind == "rnn_relu":
        return [torch.relu(from_x[0] + from_h[0])]
    if kind == "lstm":
        i, f, o = (torch.sigmoid(from_x[gate] + from_h[gate]) for gate in (0, 1, 3))
        c = f * state[1] + i * torch.tanh(from_x[2] + from_h[2])
        return [o * torch.tanh(c), c]
    reset, update = (torch.sigmoid(from_x[gate] + from_h[gate]) for gate in (0, 1))
    candidate = torch.tanh(from_x[2] + reset * from_h[2])
    return [update * h + (1 - update) * candidate]


def naive_stack(
    stack: RecurrentStack, x: Tensor, states: list[list[Tensor]], masks: VariationalDropout | None = None, row: int = 0
) -> Tensor:
    """One step through all layers, in one direction; `states` are replaced. Returns the last layer's h."""
    for layer, module in enumerate(stack.layers):
        (weights,) = cast(nn.RNNBase, module).all_weights
        x = x if masks is None else x * masks.input_masks[layer][row]
        mask: Tensor | float = 1.0 if masks is None else masks.hidden_masks[layer][0][row]
        states[layer] = naive_cell(stack.kind, weights, x, states[layer], mask)
        x = states[layer][0]
    return x


def naive_encoder(
    encoder: RecurrentEncoder, source: list[int]
) -> tuple[list[Tensor], list[Tensor], list[list[Tensor]]]:
    """The memory, the last h of the last layer in all directions, and all layers' last states in the first one."""
    stack, order = encoder.stack, range(len(source))
    values = [encoder.embedding.weight[token] * encoder.embedding.scale for token in source]
    values = values[::-1] if encoder.reverse else values
    states = []
    for module in stack.layers:
        outputs: list[list[Tensor]] = [[] for _ in source]
        lasts = []
        for direction, weights in enumerate(cast(nn.RNNBase, module).all_weights):
            state = [torch.zeros(stack.width, dtype=torch.float64)] * (2 if stack.kind == "lstm" else 1)
            for place in order if direction == 0 else reversed(order):
                state = naive_cell(stack.kind, weights, values[place], state, 1.0)
                outputs[place].append(state[0])
            lasts.append(state)
        values = [torch.cat(both) for both in outputs]
        states.append(lasts[0])
    return (values[::-1] if encoder.reverse else values), [last[0] for last in lasts], states


def naive_bridge(bridge: Bridge, v: Tensor) -> list[list[Tensor]]:
    hidden = torch.tanh(bridge.hidden.weight @ v + bridge.hidden.bias).split(bridge.width)
    if bridge.cell is None:
        return [[h] for h in hidden]
    return [
        [h, c] for h, c in zip(hidden, (bridge.cell.weight @ v + bridge.cell.bias).split(bridge.width), strict=True)
    ]


def naive_weights(wiring: Bahdanau | Luong, q: Tensor, memory: list[Tensor], step: int) -> Tensor:
    """Additive or general scores, a softmax over the window, and the Gaussian of a predicted one; or de-attention."""
    alignment, view, length = wiring.reader.alignment, wiring.reader.view, len(memory)
    if isinstance(alignment, Additive):
        (w,), (u,), ((v,),) = alignment.query_weight, alignment.key_weight, alignment.vector
        scores = [v @ torch.tanh(w @ q + u @ k) for k in memory]
    else:
        assert isinstance(alignment, General)
        scores = [q @ alignment.weight[0] @ k for k in memory]
    if isinstance(wiring.reader.distribution, DeAttention):
        distances = torch.stack([-(q - k).abs().sum() for k in memory]) / len(q) ** 0.5
        return torch.tanh(torch.stack(scores)) * torch.sigmoid(distances - distances.mean())
    middle, half = torch.tensor(0.0, dtype=torch.float64), 99
    if isinstance(view, MonotoneView):
        middle, half = middle + min(step, length - 1), view.window.half_width
    if isinstance(view, PredictedView):
        half = view.predicted.window.half_width
        middle = length * torch.sigmoid(view.predicted.out.weight[0] @ torch.tanh(view.predicted.inner.weight @ q))
    near = [place for place in range(length) if abs(place - float(middle.detach())) <= half]
    exponentials = torch.stack([scores[place].exp() if place in near else scores[place] * 0 for place in range(length)])
    weights = exponentials / exponentials.sum()
    if isinstance(view, PredictedView):
        weights = weights * torch.exp(-((torch.arange(length) - middle) ** 2) / (2 * (half / 2) ** 2))
    return weights


def naive_deep(output: DeepOutput, s: Tensor, y: Tensor, c: Tensor) -> Tensor:
    u = (
        output.from_state.weight @ s
        + output.from_state.bias
        + output.from_word.weight @ y
        + output.of_context.weight @ c
    )
    return torch.stack([torch.max(u[place], u[place + len(u) // 2]) for place in range(len(u) // 2)])


def naive_vectors(
    model: EncoderDecoder, source: list[int], target: list[int], masks: VariationalDropout | None = None, row: int = 0
) -> Tensor:
    """What the output layer scores, for one sentence pair."""
    decoder = cast(RecurrentDecoder, model.decoder)
    memory, ends, lasts = naive_encoder(cast(RecurrentEncoder, model.encoder), source)
    wiring, last, vectors = decoder.wiring, torch.cat(ends), []
    words = [decoder.embedding.weight[token] * decoder.embedding.scale for token in target]
    fed = torch.zeros(wiring.stack.width, dtype=torch.float64)
    if isinstance(wiring, Cho):
        context = torch.tanh(wiring.context.weight @ last + wiring.context.bias)
        states = naive_bridge(wiring.first, context)
    else:
        first = cast(Sutskever | Bahdanau | Luong, wiring).first
        states = naive_bridge(first.bridge, last) if isinstance(first, Bridged) else lasts
    for step, y in enumerate(words):
        match wiring:
            case Sutskever():
                vectors.append(naive_stack(wiring.stack, y, states, masks, row))
            case Cho():
                s = naive_stack(wiring.stack, torch.cat([y, context]), states, masks, row)
                vectors.append(naive_deep(wiring.output, s, y, context))
            case Bahdanau():
                weights = naive_weights(wiring, states[-1][0], memory, step)
                c = sum(weight * value for weight, value in zip(weights, memory, strict=True))
                s = naive_stack(wiring.stack, torch.cat([y, cast(Tensor, c)]), states, masks, row)
                vectors.append(naive_deep(wiring.output, s, y, cast(Tensor, c)))
            case Luong():
                s = naive_stack(
                    wiring.stack, y if isinstance(wiring, Unfed) else torch.cat([y, fed]), states, masks, row
                )
                weights = naive_weights(wiring, s, memory, step)
                c = sum(weight * value for weight, value in zip(weights, memory, strict=True))
                fed = torch.tanh(
                    torch.cat([wiring.from_context.weight, wiring.from_state.weight], dim=1)
                    @ torch.cat([cast(Tensor, c), s])
                )
                vectors.append(fed)
    return torch.stack(vectors)


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


@named(EVERY)
def test_a_neighbour_in_the_batch_changes_nothing(options: Options) -> None:
    """Neither scores nor gradients."""
    model = model_of(options).eval()
    assert_same(model, scores_of(model, PAIRS), [scores_of(model, [pair])[0] for pair in PAIRS])


@named(EVERY)
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
def test_a_decoder_without_attention_attends_everywhere_alike(wiring: str) -> None:
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


# --- quick ways -------------------------------------------------------------------------------------------------------


@named(
    [
        {"wiring": wiring, "alignment": alignment, "window": window, "distribution": distribution, **EQUAL}
        for wiring in ("bahdanau", "luong")
        for alignment in ("additive", "general", "dot")
        for window, distribution in (("global", "softmax"), ("predicted", "de_attention"))
    ]
)
def test_quick_scores_equal_the_alignments_own(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_dummies_without_a_source_or_a_target_are_finite_and_change_no_other(options: Options) -> None:
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
def test_a_state_to_be_handed_on_must_be_there(cell: str) -> None:
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
def test_dropout_acts_in_training_alone(options: Options, variational: bool) -> None:
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
    ]
)
def test_one_batch_can_be_learned_by_heart(options: Options) -> None:
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
