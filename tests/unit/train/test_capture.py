"""Recorded updates are those that would have been computed, with dropout and accumulation; resumed ones to the bit."""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful.config.models import TransformerModel
from heedful.config.schema import Adam, Constant
from heedful.data.batches import PairBatch, collate
from heedful.data.layouts import StaticShape
from heedful.data.loader import PairFeed
from heedful.data.store import TokenStore
from heedful.models.build import build_model
from heedful.models.families import set_precision
from heedful.train.capture import Captured
from heedful.train.checkpoints import Position, Retention, last_checkpoint, load_checkpoint, save_checkpoint
from heedful.train.computing import Eager
from heedful.train.objectives import NextToken
from heedful.train.optimizers import build_optimizer
from heedful.train.schedules import learning_rate
from heedful.train.signals import StopRequest
from heedful.train.trainer import Reading, Settings, Trainer

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
VOCABULARY = 50
STATIC = StaticShape.around(128, 24, 12)


class Keeper:
    """Keeps readings, and checkpoints where it has a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder, self.losses = folder, list[float]()
        self.trainer: Trainer[PairBatch] | None = None

    def reading(self, reading: Reading, logged: bool) -> None:
        self.losses.append(reading.loss)

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


def trained(
    kind: type[Eager[PairBatch]],
    steps: int = 12,
    accumulate: int = 1,
    folder: Path | None = None,
    resumed: bool = False,
    dropout: float = 0.2,
) -> tuple[list[Tensor], list[float]]:
    """Weights and losses after so many steps."""
    device, keeper = torch.device("cuda"), Keeper(folder)
    torch.manual_seed(0)
    config = TransformerModel(width=64, heads=2, layers=2, inner=64, dropout=dropout, dropout_attention=dropout)
    model = build_model(config, VOCABULARY, VOCABULARY).to(device)
    set_precision(model, torch.bfloat16)
    settings = Settings(steps, accumulate, 1.0, 5, 1, 10**9, 10**9, None, False)
    keeper.trainer = trainer = Trainer(
        model,
        NextToken(0.1),
        build_optimizer(Adam(), model),
        learning_rate(Constant(kind="constant", lr=3e-3), 64, steps),
        PairFeed([corpus()], [1.0], seed=3, batch_tokens=128, max_sentences=24, static=STATIC, pin=True),
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
    found, losses = trained(Captured, accumulate=accumulate)
    wanted, expected = trained(Eager, accumulate=accumulate)
    assert losses == pytest.approx(expected, rel=1e-3)
    assert losses[-1] < losses[0]
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=2e-2)


@needs_cuda
def test_dropout_differs_from_step_to_step_and_comes_again_with_the_seed() -> None:
    once, losses = trained(Captured, dropout=0.5)
    again, same = trained(Captured, dropout=0.5)
    assert losses == same
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    _, other = trained(Captured, dropout=0.0)
    assert other != losses


@needs_cuda
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_resumed_run_ends_in_the_same_bits(accumulate: int, tmp_path: Path) -> None:
    whole, _ = trained(Captured, steps=10, accumulate=accumulate)
    trained(Captured, steps=4, accumulate=accumulate, folder=tmp_path)
    resumed, _ = trained(Captured, steps=10, accumulate=accumulate, folder=tmp_path, resumed=True)
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
