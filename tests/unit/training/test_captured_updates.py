"""Recorded updates are those that would have been computed, with dropout and accumulation; resumed ones to the bit."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.config.model.encoder_only import BertModel
from heedful.config.model.encoders import TransformerEncoderTable
from heedful.config.model.pooled import ClassifierModel
from heedful.config.model.transformer import TransformerModel
from heedful.config.train.optimizers import Adam
from heedful.config.train.schedules import Constant
from heedful.config.train.table import Masking
from heedful.data.batches.masked import MaskedBatch, MaskedFeed
from heedful.data.batches.pairs import PairCollator, collate
from heedful.data.batches.texts import TextCollator
from heedful.data.collate import StaticShape
from heedful.data.epochs.loader import Feed, RowFeed
from heedful.data.token_store import TokenStore
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision
from heedful.tasks.classify.objective import OneLabel
from heedful.tasks.fill.objective import MaskedTokens
from heedful.training import updates as captured_updates
from heedful.training.checkpoints import Position, Retention, last_checkpoint, load_checkpoint, save_checkpoint
from heedful.training.objectives import NextToken, Objective
from heedful.training.optimizers.build import build_optimizer
from heedful.training.remedies import RDrop
from heedful.training.schedules import build_learning_rate
from heedful.training.signals import StopRequest
from heedful.training.trainer import Observer, StepMetrics, Trainer, TrainerSettings
from heedful.training.updates import CapturedUpdates, EagerUpdates

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
VOCABULARY = 50
PINS = torch.cuda.is_available()
STATIC = StaticShape.around(128, 24, 12)


class Keeper(Observer):
    """Keeps readings, and checkpoints where it has a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder, self.losses = folder, list[float]()
        self.trainer: Trainer[Any] | None = None

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        self.losses.append(metrics.loss)

    def validate(self) -> Mapping[str, float]:
        return {}

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None: ...
    def checkpoint(self, position: Position) -> None:
        if self.folder and self.trainer:
            save_checkpoint(self.folder, self.trainer.model, self.trainer.optimizer, position, Retention(1))


def corpus() -> TokenStore:
    chance = random.Random(0)
    source = [[chance.randrange(4, VOCABULARY) for _ in range(chance.randint(2, 9))] for _ in range(300)]
    return TokenStore.of(source=source, target=[sentence[::-1] for sentence in source])


# --- what is trained: a model, what it minimises, and its batches -----------------------------------------------------

Work = Callable[[float], tuple[nn.Module, Objective[Any], Feed[Any]]]  # with so much dropout


def translating(dropout: float) -> tuple[nn.Module, Objective[Any], Feed[Any]]:
    config = TransformerModel(width=64, heads=2, layers=2, inner=64, dropout=dropout, dropout_attention=dropout)
    feed = RowFeed(
        [corpus()], [1.0], PairCollator(), seed=3, batch_tokens=128, max_sentences=24, static=STATIC, pin=PINS
    )
    return build_model(config, VOCABULARY, VOCABULARY), NextToken(0.1), feed


def classifying(pool: str) -> Work:
    """Texts are of the class of their first token: odd or even."""

    def work(dropout: float) -> tuple[nn.Module, Objective[Any], Feed[Any]]:
        texts = [corpus().streams["source"][row].tolist() for row in range(300)]
        store = TokenStore.of(text=texts, label=[[text[0] % 2] for text in texts])
        encoder = TransformerEncoderTable(width=64, heads=2, layers=2, inner=64, dropout=dropout)
        config = ClassifierModel(family="classifier", pool=pool, encoder=encoder)  # type: ignore[arg-type]
        feed = RowFeed([store], [1.0], TextCollator(12), 3, 128, 24, STATIC, pin=PINS)
        return build_classifier(config, VOCABULARY, 2), OneLabel(0.0), feed

    return work


def filling(dropout: float) -> tuple[nn.Module, Objective[Any], Feed[Any]]:
    """Every document counts up from somewhere."""
    starts = [3 * row % 40 + 5 for row in range(60)]
    text = [[5 + (start + place) % 45 for place in range(20)] for start in starts]
    store = TokenStore.of(text=text, sentences=[[4, 3, 5, 4, 4]] * 60)
    config = BertModel(family="bert", width=64, heads=2, layers=2, inner=64, dropout=dropout, max_positions=32)
    feed = MaskedFeed(
        [store], [1.0], 3, 128, 12, True, Masking(), 4, range(5, VOCABULARY), max_sentences=24, static=STATIC, pin=PINS
    )
    return build_masked_model(config, VOCABULARY), MaskedTokens(), feed


def trained(
    kind: type[EagerUpdates[Any]],
    steps: int = 12,
    accumulate: int = 1,
    folder: Path | None = None,
    resumed: bool = False,
    dropout: float = 0.2,
    work: Work = translating,
) -> tuple[list[Tensor], list[float]]:
    """Weights and losses after so many steps."""
    device, keeper = torch.device("cuda"), Keeper(folder)
    torch.manual_seed(0)
    model, objective, feed = work(dropout)
    model.to(device)
    set_precision(model, torch.bfloat16)
    settings = TrainerSettings(steps, accumulate, 1.0, 5, 1, 10**9, 10**9, None, False)
    keeper.trainer = trainer = Trainer(
        model,
        objective,
        build_optimizer(Adam(), model),
        build_learning_rate(Constant(kind="constant", lr=3e-3), 64, steps),
        feed,
        device,
        settings,
        keeper,
        kind,
    )
    position = Position()
    if resumed and folder is not None:
        saved = last_checkpoint(folder)
        assert saved is not None
        position = load_checkpoint(saved, model, trainer.optimizer)
    trainer.run(position, StopRequest())
    return [p.detach().clone() for p in model.parameters()], keeper.losses


@needs_cuda
@pytest.mark.parametrize("accumulate", [1, 3])
def test_recorded_updates_equal_computed_ones(accumulate: int) -> None:
    """Also with dropout, which follows the seed of each micro-batch."""
    found, losses = trained(CapturedUpdates, accumulate=accumulate)
    wanted, expected = trained(EagerUpdates, accumulate=accumulate)
    assert losses == pytest.approx(expected, rel=1e-3)
    assert losses[-1] < losses[0]
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=2e-2)


def two_passes(dropout: float) -> tuple[nn.Module, Objective[Any], Feed[Any]]:
    model, _, feed = translating(dropout)
    return model, RDrop(NextToken(0.1), 3.0), feed


@needs_cuda
def test_recorded_updates_of_two_passes_equal_computed_ones() -> None:
    """Each pass draws its own dropout, recorded or not."""
    found, losses = trained(CapturedUpdates, work=two_passes)
    wanted, expected = trained(EagerUpdates, work=two_passes)
    assert losses == pytest.approx(expected, rel=1e-3)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=2e-2)


READERS = {pool: classifying(pool) for pool in ("mean", "max", "first", "attention")} | {"filling": filling}


@needs_cuda
@pytest.mark.parametrize("name", READERS)
def test_recorded_updates_of_readers_equal_computed_ones(name: str) -> None:
    """Pools need the lengths of a batch's texts: of every batch its own."""
    found, losses = trained(CapturedUpdates, work=READERS[name])
    wanted, expected = trained(EagerUpdates, work=READERS[name])
    assert losses == pytest.approx(expected, rel=5e-3)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=5e-3, rtol=5e-2)


@pytest.mark.parametrize("name", READERS)
def test_a_recording_holds_all_that_is_worked_out_of_a_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was remembered before it would stay that of the first batch in every replay."""
    found: list[bool] = []
    model, objective, feed = READERS[name](0.0)
    batch = feed.batch(next(iter(feed.plan(0))))
    layout = (batch.text if isinstance(batch, MaskedBatch) else batch.inputs).layout

    def recorded(run: Callable[[], object], *_: object) -> tuple[Any, object]:
        found.append("lengths" in layout.__dict__)
        return SimpleNamespace(replay=lambda: None), run()

    for function in ("graph_pool_handle", "Stream", "get_rng_state", "set_rng_state"):
        monkeypatch.setattr(torch.cuda, function, lambda *_: None)
    monkeypatch.setattr(captured_updates, "warm_up", lambda run, _: run())
    monkeypatch.setattr(captured_updates, "record", recorded)
    monkeypatch.setattr(type(batch), "to", lambda self, _: self)
    computing = CapturedUpdates(partial(objective, model), build_optimizer(Adam(), model), None, torch.device("cpu"))
    computing.add(batch, first=True)
    assert found == [False]
    assert "lengths" in layout.__dict__  # a reader does work it out


@needs_cuda
def test_dropout_differs_from_step_to_step_and_comes_again_with_the_seed() -> None:
    once, losses = trained(CapturedUpdates, dropout=0.5)
    again, same = trained(CapturedUpdates, dropout=0.5)
    assert losses == same
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    _, other = trained(CapturedUpdates, dropout=0.0)
    assert other != losses


@needs_cuda
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_resumed_run_ends_in_the_same_bits(accumulate: int, tmp_path: Path) -> None:
    whole, _ = trained(CapturedUpdates, steps=10, accumulate=accumulate)
    trained(CapturedUpdates, steps=4, accumulate=accumulate, folder=tmp_path)
    resumed, _ = trained(CapturedUpdates, steps=10, accumulate=accumulate, folder=tmp_path, resumed=True)
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))


def test_a_batch_takes_over_the_values_of_another() -> None:
    store = corpus()
    mine, theirs = (collate([store], torch.arange(a, a + 10).numpy(), STATIC) for a in (0, 10))
    assert not torch.equal(mine.source.layout.lengths, theirs.source.layout.lengths)
    mine.copy_(theirs)
    assert torch.equal(mine.source.layout.lengths, theirs.source.layout.lengths)  # nothing old is remembered
    for some, others in ((mine.source, theirs.source), (mine.target, theirs.target)):
        assert torch.equal(some.values, others.values)
        assert torch.equal(some.layout.offsets, others.layout.offsets)
        assert torch.equal(some.layout.positions, others.layout.positions)
    assert torch.equal(mine.labels, theirs.labels)
