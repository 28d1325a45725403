"""Measurements against naive computations: norms, ratios, histograms, entropies and distances."""

import copy
import math
from collections import Counter
from typing import Any

import pytest
import torch
from tests.contract.families import CLASSIFIERS, classifier_of, config_of
from torch import nn

from heedful.config.train.optimizers import Adam, Sgd
from heedful.config.train.table import Instruments as Table
from heedful.data.batches.pairs import PairBatch, PairCollator
from heedful.data.epochs.loader import RowFeed
from heedful.data.token_store import TokenStore
from heedful.lab.gradients import gradients_over_time
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.recurrent.stack import RecurrentStack
from heedful.training.instruments import steps
from heedful.training.instruments.instruments import (
    DISTANCES,
    Instruments,
    attention_entropies,
    entropy_of,
    gradient_distances,
    probe_batch,
)
from heedful.training.instruments.parts import layer_of, weight_parts
from heedful.training.instruments.steps import BINS, ROW, StepMeter
from heedful.training.objectives import NextToken
from heedful.training.optimizers.build import build_optimizer
from heedful.training.updates import CapturedUpdates, EagerUpdates, ModelLoss

VOCABULARY = 23
CPU = torch.device("cpu")


def feed() -> RowFeed[PairBatch]:
    rows = [[4 + (row * 7 + place) % 19 for place in range(3 + row % 5)] for row in range(30)]
    return RowFeed(
        [TokenStore.of(source=rows, target=[row[::-1] for row in rows])], [1.0], PairCollator(), seed=3, batch_tokens=60
    )


def network(family: str = "post-sinusoidal") -> nn.Module:
    torch.manual_seed(0)
    model = build_model(config_of(family, 0.0), VOCABULARY, VOCABULARY)
    set_precision(model, torch.float32)
    return model


def test_histograms_are_those_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of parts that are larger and smaller than a row, counted together and in groups, with numbers of every size."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(ROW, 3), nn.LayerNorm(3), nn.Linear(3, 5))
    parts = weight_parts(model)
    odd = torch.tensor([0.0, 1e-13, 1e-12, 1e-4, 1.0, 10.0, 20.0, math.inf, math.nan])
    updates = [torch.randn(weight.shape) * 10.0 ** torch.randint(-14, 3, weight.shape) for weight in model.parameters()]
    updates[0][1, :9] = odd
    edges = [float(torch.tensor(10 ** (place / 4 - 12)).float()) for place in range(1, BINS)]
    norm = torch.cat(updates[2:4])  # weights and biases of a norm are one part
    expected = [[0] * BINS for _ in parts]
    for counts, values in zip(expected, [*updates[:2], norm, *updates[4:]], strict=True):
        for value in values.abs().flatten().tolist():
            if value != 0:
                counts[sum(not value < edge for edge in edges)] += 1
    assert StepMeter(parts).histograms(updates).tolist() == expected
    monkeypatch.setattr(steps, "TOGETHER", 10)
    assert StepMeter(parts).histograms(updates).tolist() == expected


def test_norms_and_histograms_are_those_of_plain_loops() -> None:
    model, batch = network(), probe_batch(feed())
    optimizer = build_optimizer(Adam(), model)
    loss: ModelLoss[PairBatch] = ModelLoss(NextToken(0.1), model)
    updates = EagerUpdates(loss, optimizer, 0.5, CPU)
    updates.add(batch, first=True)
    units = batch.target_tokens
    old = copy.deepcopy(model)
    gradients = {name: p.grad.clone() / units for name, p in model.named_parameters() if p.grad is not None}
    records: list[Any] = []
    instruments = Instruments(Table(every=1), model, NextToken(0.1), feed(), CPU, records.append)
    instruments.around(1, units, 0.013, lambda: updates.step(units, 0.013))
    rows = {(row["layer"], row["kind"]): row for row in records[0]["weights"]}

    named, before = ({name: p.detach() for name, p in one.named_parameters()} for one in (model, old))
    width = 16
    where = {
        ("encoder.1", "key"): ("encoder.blocks.1.attention.project.weight", slice(width, 2 * width)),
        ("decoder.0", "cross value"): ("decoder.blocks.0.cross.project_memory.weight", slice(width, 2 * width)),
        ("decoder.1", "inner"): ("decoder.blocks.1.network.into.weight", slice(None)),
        ("encoder", "embedding"): ("encoder.embedding.weight", slice(None)),
    }
    for key, (name, some) in where.items():
        update = (named[name] - before[name])[some].detach()
        assert rows[key]["weight"] == pytest.approx(float(named[name][some].norm()), rel=1e-5)
        assert rows[key]["gradient"] == pytest.approx(float(gradients[name][some].norm()), rel=1e-5)
        assert rows[key]["update"] == pytest.approx(float(update.norm()), rel=1e-5)
        counts = Counter(math.floor(4 * math.log10(abs(value))) for value in update.flatten().tolist() if value)
        histogram = rows[key]["histogram"]
        found = {round(4 * histogram["from"]) + place: n for place, n in enumerate(histogram["counts"]) if n}
        assert found == counts
        assert histogram["zeros"] == int((update == 0).sum())


def test_updates_outside_the_bins_count_in_the_first_and_last_one() -> None:
    model = nn.Linear(5, 1, bias=False)
    nn.init.zeros_(model.weight)
    parts = weight_parts(model)
    meter = StepMeter(parts)
    before = meter.before(1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0, 1e-30, -1.0, 1e-6, 1e5]]))
    meter.after(before)
    counts = meter.histograms(before.negative)
    assert {place: n for place, n in enumerate(counts[0].tolist()) if n} == {0: 1, 24: 1, 48: 1, 51: 1}
    assert float(before.gradient_P) == 0.0  # there was none


def test_every_weight_that_is_trained_is_measured_once() -> None:
    for model in (network(), network("llama"), network("additive-entmax"), network("luong-local-lstm")):
        assert sum(part.size for part in weight_parts(model)) == sum(p.numel() for p in model.parameters())
    model = network()
    model.encoder.requires_grad_(False)
    assert {part.layer for part in weight_parts(model)} == {"decoder.0", "decoder.1"}


def test_layers_are_named_by_what_tells_them_apart() -> None:
    assert layer_of("encoder.blocks.3.attention.project.weight") == "encoder.3"
    assert layer_of("pooled.encoder.words.encoder.encoder.stack.layers.0.weight_hh_l0") == "encoder.words.encoder.0"
    assert layer_of("decoder.wiring.stack.layers.1.weight_ih_l0") == "decoder.1"
    assert layer_of("decoder.wiring.first.hidden.weight") == "decoder"
    assert layer_of("output.weight") == "output"


@pytest.mark.parametrize("name", sorted(CLASSIFIERS)[:6])
def test_every_kind_of_classifier_has_parts(name: str) -> None:
    model = build_classifier(classifier_of(name, 0.0), VOCABULARY, 3)
    assert ("output", "logits") in {(part.layer, part.kind) for part in weight_parts(model)}


# --- the probe --------------------------------------------------------------------------------------------------------


def test_the_entropy_of_a_head_is_the_mean_over_all_queries() -> None:
    """The same by a loop over sentences, heads and queries."""
    model, batch = network(), probe_batch(feed())
    found = attention_entropies(model, NextToken(0.1), batch, CPU)
    seen: list[tuple[Any, ...]] = []
    attention = model.decoder.blocks[0].attention  # type: ignore[union-attr, index]
    assert isinstance(attention, SelfAttention)
    hook = attention.register_forward_hook(lambda module, inputs, output: seen.append(inputs))
    model.eval()
    with torch.no_grad():
        NextToken(0.1)(model, batch)
    hook.remove()
    weights = attention.weights(*seen[0]).detach()
    sums, uniform, queries = [0.0, 0.0], 0.0, 0
    for sentence, length in enumerate(seen[0][1].lengths.tolist()):
        for query in range(length):
            queries += 1
            uniform += math.log(query + 1)
            for head in range(2):
                row = weights[sentence, head, query, : query + 1].tolist()
                sums[head] -= sum(p * math.log(p) for p in row if p > 0)
    (own,) = [one for one in found if (one.layer, one.kind) == ("decoder.0", "self")]
    assert own.entropy_H.tolist() == pytest.approx([total / queries for total in sums], rel=1e-4)
    assert float(own.uniform) == pytest.approx(uniform / queries, rel=1e-5)


def test_a_probe_leaves_no_trace() -> None:
    model, batch = network("luong-local-lstm"), probe_batch(feed())
    model.train()
    state = torch.get_rng_state()
    (found,) = attention_entropies(model, NextToken(0.1), batch, CPU)
    assert (found.layer, found.kind, found.entropy_H.shape) == ("decoder", "cross", (1,))
    assert 0 < float(found.entropy_H) <= float(found.uniform)
    assert len(gradient_distances(model)) == 2  # of the encoder and of the decoder
    assert torch.equal(state, torch.get_rng_state())
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_weights_that_are_no_distribution_have_an_entropy_too() -> None:
    rows = torch.tensor([[0.25, -0.25, 0.25, 0.25], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    assert entropy_of(rows).tolist() == pytest.approx([math.log(4), 0.0, 0.0])


def test_distances_are_those_of_the_command_on_the_same_cell() -> None:
    """A tanh cell with initial weights forgets as fast as `heedful gradients` says, though inputs differ."""
    torch.manual_seed(1)
    stack = RecurrentStack("rnn_tanh", 20, 20)
    for weight in stack.parameters():
        nn.init.normal_(weight, std=0.1)
    (found,) = gradient_distances(nn.ModuleDict({"encoder": stack}))
    norms = found.norms.tolist()
    assert (found.layer, norms[0]) == ("encoder", 1.0)
    assert norms == sorted(norms, reverse=True)
    curve = gradients_over_time("tanh", width=20, steps=64)
    assert norms[DISTANCES.index(16)] < curve[16]  # orthogonal matrices, those of the command, forget more slowly


# --- updates from graphs ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("optimizer", [Adam(), Sgd(kind="sgd")])
def test_captured_updates_are_measured_as_eager_ones_and_keep_their_bits(optimizer: Any) -> None:
    from tests.unit.training.test_captured_updates import translating

    def run(measured: bool, kind: type[EagerUpdates[Any]]) -> tuple[list[torch.Tensor], list[Any]]:
        torch.manual_seed(0)
        device = torch.device("cuda")
        model, objective, work = translating(0.0)
        model = model.to(device)
        set_precision(model, torch.bfloat16)
        computation = kind(ModelLoss(objective, model), build_optimizer(optimizer, model), None, device)
        records: list[Any] = []
        instruments = Instruments(Table(every=2), model, objective, work, device, records.append)  # type: ignore[arg-type]
        for step, planned in zip(range(1, 7), work.plan(0), strict=False):
            batch = work.batch(planned)
            computation.add(batch, first=True)
            units = objective.units(batch)
            if measured:
                instruments.around(step, units, 1e-3, lambda n=units: computation.step(n, 1e-3))  # type: ignore[misc]
            else:
                computation.step(units, 1e-3)
        return [p.detach().cpu() for p in model.parameters()], records

    plain, _ = run(False, CapturedUpdates)
    weights, captured = run(True, CapturedUpdates)
    assert all(torch.equal(a, b) for a, b in zip(plain, weights, strict=True))
    _, eager = run(True, EagerUpdates)
    assert [record["step"] for record in captured] == [2, 4, 6]
    for one, other in zip(captured[0]["weights"], eager[0]["weights"], strict=True):
        assert one["gradient"] == pytest.approx(other["gradient"], rel=0.02)
        assert one["update"] == pytest.approx(other["update"], rel=0.02)
