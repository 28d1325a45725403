"""Truncated back-propagation: values as in one long run, gradients as in a naive loop, exact after a resume."""

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.base.packed import Packed
from heedful.config.train.optimizers import Adam
from heedful.data.batches.windows import StreamBatch, Streams
from heedful.data.tokenize.tokenizer import BEGIN, END
from heedful.models.networks import LanguageModel, set_precision
from heedful.models.recurrent.language_model import RecurrentLanguageModel
from heedful.nn.layers.embedding import Embedding, Output
from heedful.nn.layers.positions import Sinusoidal
from heedful.nn.recurrent.stack import CellKind, RecurrentStack, init_recurrent
from heedful.training.checkpoints import Position, Retention, load_checkpoint, save_checkpoint
from heedful.training.optimizers.build import build_optimizer
from heedful.training.signals import StopRequest
from heedful.training.trainer import Observer, StepMetrics, Trainer, TrainerSettings
from heedful.training.truncated import ActivationPenalty, TruncatedBackPropagation

WORDS, WIDTH, STATE = 7, 4, 5
LETTERS = random.Random(0)
TEXT = [LETTERS.randrange(2, WORDS) for _ in range(24)]  # 23 labels: 8, 8 and 7 in three streams
ROWS = 3
CUTS = (1, 2, 3, 5, 8, 100)
kinds = pytest.mark.parametrize("kind", get_args(CellKind))
library_kinds = pytest.mark.parametrize("kind", [kind for kind in get_args(CellKind) if kind != "gru_paper"])


def model_of(
    kind: CellKind = "lstm",
    layers: int = 2,
    dropout: float = 0.0,
    width: int = STATE,
    words: int = WORDS,
    dtype: torch.dtype = torch.float64,
) -> RecurrentLanguageModel:
    torch.manual_seed(4)
    embedding = Embedding(nn.Parameter(torch.randn(words, WIDTH) * WIDTH**-0.5), None, dropout)
    stack = RecurrentStack(kind, WIDTH, width, layers, dropout=dropout)
    init_recurrent(stack)
    output = Output(nn.Parameter(torch.randn(words, width) * width**-0.5), nn.Parameter(torch.zeros(words)))
    model = RecurrentLanguageModel(embedding, stack, output, dropout).to(dtype)
    set_precision(model, dtype)
    return model


# --- torch's own layers, one stream at a time -------------------------------------------------------------------------


def naive_loss(model: RecurrentLanguageModel, text: Sequence[int], rows: int, cut: int) -> Tensor:
    """The summed loss over streams of a text. States go on from cut to cut; their history does not."""
    shares = [(len(text) - 1) // rows + (row < (len(text) - 1) % rows) for row in range(rows)]
    total, start = torch.zeros((), dtype=torch.float64), 0
    layers = cast(RecurrentStack, model.stack).layers
    for share in shares:
        states: list[object] = [None] * len(layers)
        for first in range(start, start + share, cut):
            size = min(cut, start + share - first)
            y = model.embedding.weight[torch.tensor(text[first : first + size])] * math.sqrt(WIDTH)
            for layer, library in enumerate(layers):
                y, last = library(y, states[layer])
                states[layer] = tuple(part.detach() for part in last) if isinstance(last, tuple) else last.detach()
            scores = F.linear(y, model.output.weight, model.output.bias)
            total = total + F.cross_entropy(scores, torch.tensor(text[first + 1 : first + size + 1]), reduction="sum")
        start += share
    return total


def gradients(loss: Tensor, model: RecurrentLanguageModel) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, list(model.parameters()))


def carried_loss(model: RecurrentLanguageModel, cut: int, objective: TruncatedBackPropagation) -> Tensor:
    streams = Streams.of(TEXT, ROWS, cut)
    return torch.stack(
        [objective(LanguageModel(model), streams.segment(index)).loss for index in range(len(streams))]
    ).sum()


@library_kinds
@pytest.mark.parametrize("cut", CUTS)
def test_the_loss_is_that_of_whole_streams_and_gradients_those_of_a_naive_truncated_loop(
    kind: CellKind, cut: int
) -> None:
    model = model_of(kind)
    found = carried_loss(model, cut, TruncatedBackPropagation())
    torch.testing.assert_close(found, naive_loss(model, TEXT, ROWS, len(TEXT)))
    of_loop = gradients(naive_loss(model, TEXT, ROWS, cut), model)
    for gradient, expected in zip(gradients(found, model), of_loop, strict=True):
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("cut", CUTS)
def test_gradients_are_whole_where_a_segment_is_as_long_as_its_stream_and_only_there(cut: int) -> None:
    model = model_of()
    whole = gradients(naive_loss(model, TEXT, ROWS, len(TEXT)), model)
    found = gradients(carried_loss(model, cut, TruncatedBackPropagation()), model)
    same = [torch.allclose(one, other, rtol=1e-9, atol=1e-12) for one, other in zip(found, whole, strict=True)]
    assert all(same) == (cut >= 8)


def test_an_epoch_begins_from_zeros_whatever_was_carried() -> None:
    model, objective = model_of(), TruncatedBackPropagation()
    first = carried_loss(model, 3, objective)
    assert torch.equal(carried_loss(model, 3, objective), first)
    objective.load_state_dict({name: part * math.nan for name, part in objective.state_dict().items()})
    assert torch.equal(carried_loss(model, 3, objective), first)


def test_what_is_carried_has_no_history_and_can_be_forgotten() -> None:
    model, objective, streams = model_of(), TruncatedBackPropagation(), Streams.of(TEXT, ROWS, 3)
    assert objective.state_dict() == {}
    objective(LanguageModel(model), streams.segment(0))
    state = objective.state_dict()
    assert {name: tuple(part.shape) for name, part in state.items()} == dict.fromkeys(
        ("hidden", "cell"), (2, ROWS, STATE)
    )
    assert not any(part.requires_grad for part in state.values())
    gone_on = objective(LanguageModel(model), streams.segment(1)).loss
    objective.load_state_dict(load_tensors(save_tensors(state)))
    assert torch.equal(objective(LanguageModel(model), streams.segment(1)).loss, gone_on)
    objective.reset()
    assert objective.state_dict() == {}
    assert not torch.equal(objective(LanguageModel(model), streams.segment(1)).loss, gone_on)


def test_smoothing_and_units_are_those_of_all_labels() -> None:
    model, batch = model_of(), Streams.of(TEXT, ROWS, 5).segment(0)
    objective = TruncatedBackPropagation(smoothing=0.1)
    sums = objective(LanguageModel(model), batch)
    states, _ = model.read(batch.inputs)
    expected = F.cross_entropy(model.output(states), batch.labels, label_smoothing=0.1)
    assert objective.units(batch) == 15
    torch.testing.assert_close(sums.loss / 15, expected)
    torch.testing.assert_close(sums.likelihood / 15, F.cross_entropy(model.output(states), batch.labels))


def test_that_another_document_begins_is_not_predicted() -> None:
    documents = [BEGIN, 4, 5, END, BEGIN, 6, END, BEGIN, 3, 3, END]
    model, batch = model_of(), Streams.of(documents, 1, 20).segment(0)
    objective = TruncatedBackPropagation(penalty=ActivationPenalty(2.0, 0.0))
    states, _ = model.read(batch.inputs)
    wanted = [place for place in range(10) if documents[place + 1] != BEGIN]
    expected = F.cross_entropy(model.output(states)[wanted], torch.tensor(documents)[[p + 1 for p in wanted]])
    sums = objective(LanguageModel(model), batch)
    assert objective.units(batch) == objective.tokens(batch) == 8
    torch.testing.assert_close(sums.likelihood / 8, expected)
    torch.testing.assert_close(sums.loss / 8, expected + 2.0 * states.float().square().mean(), check_dtype=False)


def test_other_streams_are_refused_before_a_reset() -> None:
    model, objective = model_of(), TruncatedBackPropagation()
    objective(LanguageModel(model), Streams.of(TEXT, 3, 4).segment(0))
    message = r"^a segment of 2 streams follows one of 3: call `reset` before other streams$"
    with pytest.raises(ValueError, match=message):
        objective(LanguageModel(model), Streams.of(TEXT, 2, 4).segment(0))
    objective.reset()
    objective(LanguageModel(model), Streams.of(TEXT, 2, 4).segment(0))


# --- the model --------------------------------------------------------------------------------------------------------


@kinds
@torch.no_grad()
def test_stepping_equals_forward(kind: CellKind) -> None:
    model = model_of(kind, dropout=0.3).eval()
    tokens = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 1]])
    states, last = model.read(Packed.of(tokens.tolist()))
    scores = model.output(states).unflatten(0, (2, 4))
    state = model.start(prompt=Packed.of([[], []]))
    for place in range(4):
        found, state = model.step(tokens[:, place], state)
        torch.testing.assert_close(found, scores[:, place])
    for part, known in zip(state.recurrent.parts, last.parts, strict=True):
        torch.testing.assert_close(part, known)


def test_states_are_dropped_before_the_output_layer_in_training_alone() -> None:
    model = model_of(layers=1, dropout=0.5)
    tokens = Packed.of([[1, 2, 3, 4]])
    assert (model.states(tokens) == 0).any()
    assert (model.eval().states(tokens) != 0).all()


def test_a_model_that_would_look_ahead_or_count_from_the_segment_is_refused() -> None:
    model = model_of()
    both = RecurrentStack("lstm", WIDTH, STATE, bidirectional=True)
    with refuses("a language model of two directions would see the tokens that it is to pre...", ValueError):
        RecurrentLanguageModel(model.embedding, both, model.output)
    counted = Embedding(model.embedding.weight, Sinusoidal(WIDTH), 0.0)
    with refuses("...no first position: its embedding must have no positions", ValueError):
        RecurrentLanguageModel(counted, model.stack, model.output)


# --- training ---------------------------------------------------------------------------------------------------------


class Quiet(Observer):
    """An observer that keeps the last perplexity."""

    perplexity = math.inf

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        self.perplexity = metrics.perplexity

    def validate(self) -> Mapping[str, float]:
        return {}

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None: ...

    def checkpoint(self, position: Position) -> None: ...


def trainer(
    model: RecurrentLanguageModel,
    objective: TruncatedBackPropagation,
    streams: Streams,
    steps: int,
    rate: float = 1e-2,
    accumulate: int = 1,
) -> tuple[Trainer[StreamBatch], Quiet]:
    settings = TrainerSettings(
        steps=steps,
        accumulate=accumulate,
        clip_norm=1.0,
        seed=5,
        log_every=10,
        checkpoint_every=1000,
        validate_every=1000,
        patience=None,
        higher_is_better=False,
    )
    observer = Quiet()
    optimizer = build_optimizer(Adam(), model)
    cpu = torch.device("cpu")
    return Trainer(
        LanguageModel(model), objective, optimizer, lambda step: rate, streams, cpu, settings, observer
    ), observer


@pytest.mark.parametrize(("stopped_at", "accumulate"), [(1, 1), (3, 1), (5, 1), (2, 2)])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_by_bit(stopped_at: int, accumulate: int, tmp_path: Path) -> None:
    """There are three segments per epoch: the run stops inside an epoch, or at its end."""
    streams, steps = Streams.of(TEXT, ROWS, 3), 7

    def fresh() -> tuple[RecurrentLanguageModel, TruncatedBackPropagation]:
        return model_of("gru", dropout=0.2, dtype=torch.float32), TruncatedBackPropagation(0.1)

    uninterrupted, whole = fresh()
    end = trainer(uninterrupted, whole, streams, steps, accumulate=accumulate)[0].run(Position(), StopRequest())

    stopped, carried = fresh()
    before, _ = trainer(stopped, carried, streams, stopped_at, accumulate=accumulate)
    position = before.run(Position(), StopRequest())
    path = save_checkpoint(tmp_path, stopped, before.optimizer, position, Retention(), carried)

    resumed, loaded = fresh()
    with torch.no_grad():
        for parameter in resumed.parameters():
            parameter.zero_()
    after, _ = trainer(resumed, loaded, streams, steps, accumulate=accumulate)
    position = load_checkpoint(path, resumed, after.optimizer, loaded)
    assert after.run(position, StopRequest()) == end
    for one, other in zip(uninterrupted.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_run_resumed_without_its_carried_state_is_another_run(tmp_path: Path) -> None:
    streams = Streams.of(TEXT, ROWS, 3)
    ends = []
    for keeps_state in (True, False):
        model, objective = model_of("gru", dtype=torch.float32), TruncatedBackPropagation()
        before, _ = trainer(model, objective, streams, 1)
        position = before.run(Position(), StopRequest())
        path = save_checkpoint(
            tmp_path, model, before.optimizer, position, Retention(), objective if keeps_state else None
        )
        after, _ = trainer(model, TruncatedBackPropagation(), streams, 3)
        position = load_checkpoint(path, model, after.optimizer, after.objective)
        after.run(position, StopRequest())
        ends.append([parameter.clone() for parameter in model.parameters()])
    assert not all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


def test_a_periodic_text_is_learned_by_the_state_that_is_carried() -> None:
    """Three words tell the next, two do not. A model that forgets could only guess at two words in a segment of five:
    it would lose 0.4 * log 2 a word at least, a perplexity of 1.32."""
    streams = Streams.of([0, 0, 0, 1, 0, 1, 1, 1] * 30, rows=4, length=5)
    model = model_of("gru", layers=1, width=16, words=2, dtype=torch.float32)
    made, observer = trainer(model, TruncatedBackPropagation(), streams, steps=150, rate=2e-2)
    made.run(Position(), StopRequest())
    assert observer.perplexity < 1.05


def test_the_penalty_is_the_mean_square_of_outputs_and_of_their_change_within_streams() -> None:
    model, batch = model_of(), Streams.of(TEXT, ROWS, 5).segment(0)
    plain = TruncatedBackPropagation()(LanguageModel(model), batch)
    penalized = TruncatedBackPropagation(0.0, ActivationPenalty(alpha=2.0, beta=3.0))(LanguageModel(model), batch)
    h_BTE = model.hidden(batch.inputs)[0].unflatten(0, (ROWS, 5))
    changes = (h_BTE[:, 1:] - h_BTE[:, :-1]).square().mean()
    expected = plain.loss + 15 * (2 * h_BTE.square().mean() + 3 * changes)
    torch.testing.assert_close(penalized.loss.float(), expected.float())
    assert torch.equal(penalized.likelihood, plain.likelihood)
