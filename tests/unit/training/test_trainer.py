"""The loop: exact under accumulation, safe against what is not finite, equal to the bits after a resume."""

import copy
import json
import math
import random
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared.covering import in_turn

from heedful.base.errors import Stopped, UserError
from heedful.config.model.transformer import TransformerModel
from heedful.config.train.optimizers import Adam
from heedful.config.train.schedules import Constant
from heedful.data.batches.pairs import PairBatch, PairCollator
from heedful.data.epochs.loader import RowFeed
from heedful.data.token_store import TokenStore
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.training.checkpoints import Position, Retention, last_checkpoint, load_checkpoint, save_checkpoint
from heedful.training.meter import Meter
from heedful.training.objectives import NextToken, Sums
from heedful.training.optimizers.build import build_optimizer
from heedful.training.schedules import build_learning_rate
from heedful.training.signals import StopRequest
from heedful.training.trainer import Observer, StepMetrics, Trainer, TrainerSettings

VOCABULARY = 23
SETTINGS = TrainerSettings(
    steps=8,
    accumulate=1,
    clip_norm=None,
    seed=5,
    log_every=4,
    checkpoint_every=1000,
    validate_every=1000,
    patience=None,
    higher_is_better=False,
)


class Watcher(Observer):
    """Remembers what the loop tells."""

    def __init__(self, folder: Path | None = None, scores: Sequence[float | Mapping[str, float]] | None = None) -> None:
        self.metrics: list[StepMetrics] = []
        self.best_steps: list[int | None] = []
        self.folder, self.scores = folder, list(scores or [])
        self.trainer: Trainer[PairBatch] | None = None

    def step_metrics(self, metrics: StepMetrics, logged: bool) -> None:
        if logged:
            self.metrics.append(metrics)

    def validate(self) -> Mapping[str, float]:
        found = self.scores.pop(0) if self.scores else {}
        return found if isinstance(found, Mapping) else {"loss": found}

    def validated(self, position: Position, scores: Mapping[str, float], best: bool) -> None:
        if best:
            self.best_steps.append(position.step)

    def checkpoint(self, position: Position) -> None:
        if self.folder and self.trainer:
            save_checkpoint(self.folder, self.trainer.model, self.trainer.optimizer, position, Retention(1))


def corpus(seed: int = 0, pairs: int = 40) -> TokenStore:
    draw = random.Random(seed)
    lengths = [draw.randint(1, 9) for _ in range(pairs)]
    source = [[draw.randrange(4, VOCABULARY) for _ in range(n)] for n in lengths]
    return TokenStore.of(source=source, target=[sentence[::-1] for sentence in source])


def trainer(
    watcher: Watcher,
    settings: TrainerSettings = SETTINGS,
    dropout: float = 0.1,
    batch_tokens: int = 60,
    dtype: torch.dtype = torch.float32,
    objective: Any = None,
) -> Trainer[PairBatch]:
    torch.manual_seed(0)
    config = TransformerModel(
        width=16, heads=2, layers=1, inner=32, dropout=dropout, dropout_inner=dropout, dropout_attention=dropout
    )
    model = build_model(config, VOCABULARY, VOCABULARY).to(dtype)
    set_precision(model, dtype)
    made = Trainer(
        model,
        objective or NextToken(0.1),
        build_optimizer(Adam(), model),
        build_learning_rate(Constant(kind="constant", lr=1e-2), 16, settings.steps),
        RowFeed([corpus()], [1.0], PairCollator(), seed=3, batch_tokens=batch_tokens),
        torch.device("cpu"),
        settings,
        watcher,
    )
    watcher.trainer = made
    return made


def weights_of(made: Trainer[PairBatch]) -> list[torch.Tensor]:
    return [p.detach().clone() for p in made.model.parameters()]


def test_the_loss_falls() -> None:
    watcher = Watcher()
    made = trainer(watcher, replace(SETTINGS, steps=60, log_every=10), dropout=0.0)
    made.run(Position(), StopRequest())
    assert watcher.metrics[-1].loss < 0.8 * watcher.metrics[0].loss
    assert [metrics.step for metrics in watcher.metrics] == [10, 20, 30, 40, 50, 60]


def test_an_update_of_many_micro_batches_equals_one_of_all_their_sentences() -> None:
    """Sum over target tokens, divide once: in float64 the way of cutting leaves no trace."""
    settings = replace(SETTINGS, steps=1, accumulate=1000)
    many = trainer(Watcher(), settings, dropout=0.0, batch_tokens=30, dtype=torch.float64)
    whole = trainer(Watcher(), settings, dropout=0.0, batch_tokens=10_000, dtype=torch.float64)
    many.run(Position(), StopRequest())
    whole.run(Position(), StopRequest())
    for a, b in zip(weights_of(many), weights_of(whole), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-6)  # Adam's first step is lr * sign(gradient): small noise only
    first = many.optimizer.state_dict()["state"], whole.optimizer.state_dict()["state"]
    for index, state in first[0].items():
        assert torch.allclose(state["exp_avg"], first[1][index]["exp_avg"], rtol=1e-9, atol=1e-12)


def test_an_update_is_the_mean_loss_over_target_tokens_clipped_by_its_norm() -> None:
    """The same update by plain autograd and torch's own clipping."""
    clip = 0.05
    made = trainer(Watcher(), replace(SETTINGS, steps=1, clip_norm=clip), dropout=0.0, dtype=torch.float64)
    model = copy.deepcopy(made.model)
    batch = made.feed.batch(next(iter(made.feed.plan(0))))
    made.run(Position(), StopRequest())
    assert isinstance(model, EncoderDecoder)
    logits = model(batch.source, batch.target)
    torch.nn.functional.cross_entropy(logits, batch.labels, label_smoothing=0.1).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    assert norm > clip
    moments = made.optimizer.state_dict()["state"]
    for index, parameter in enumerate(model.parameters()):
        assert parameter.grad is not None
        assert torch.allclose(moments[index]["exp_avg"], 0.1 * parameter.grad, rtol=1e-5, atol=1e-10)


@pytest.mark.parametrize(("killed_at", "accumulate"), in_turn([1, 7, 13], [1, 3]))
def test_killed_and_resumed_equals_undisturbed_bit_by_bit(accumulate: int, killed_at: int, tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=16, accumulate=accumulate, clip_norm=1.0)
    undisturbed = trainer(Watcher(), settings)
    end = undisturbed.run(Position(), StopRequest())

    stop = StopRequest()
    watcher = Watcher(tmp_path)
    killed = trainer(watcher, settings)
    learning = killed.learning_rate

    def kill_after(step: int) -> float:
        stop.signal = signal.SIGTERM if step == killed_at else None
        return learning(step)

    killed.learning_rate = kill_after
    with pytest.raises(Stopped, match=rf"Stopped at step {killed_at} of 16, checkpoint saved") as stopped:
        killed.run(Position(), stop)
    assert stopped.value.exit_code == 143

    resumed = trainer(Watcher(), settings)
    path = last_checkpoint(tmp_path)
    assert path is not None
    position = load_checkpoint(path, resumed.model, resumed.optimizer)
    assert position.step == killed_at
    torch.rand(100)  # whatever happened to the generators in between must not matter
    assert resumed.run(position, StopRequest()) == end
    for a, b in zip(weights_of(undisturbed), weights_of(resumed), strict=True):
        assert torch.equal(a, b)


def test_dropout_makes_another_run_with_another_seed() -> None:
    one, two = (trainer(Watcher(), replace(SETTINGS, seed=seed)) for seed in (1, 2))
    one.run(Position(), StopRequest())
    two.run(Position(), StopRequest())
    assert any(not torch.equal(a, b) for a, b in zip(weights_of(one), weights_of(two), strict=True))


class Sick:
    """An objective whose loss is not finite at chosen calls."""

    def __init__(self, calls: set[int]) -> None:
        self.calls, self.count, self.inner = calls, 0, NextToken(0.1)

    def __call__(self, model: EncoderDecoder, batch: PairBatch) -> Sums:
        self.count += 1
        sums = self.inner(model, batch)
        return replace(sums, loss=sums.loss * math.nan) if self.count in self.calls else sums

    def units(self, batch: PairBatch) -> int:
        return self.inner.units(batch)

    def tokens(self, batch: PairBatch) -> int:
        return self.inner.tokens(batch)


def test_an_update_that_is_not_finite_changes_nothing_and_is_counted() -> None:
    watcher = Watcher()
    made = trainer(watcher, replace(SETTINGS, steps=1, log_every=10), objective=Sick({1}))
    before = weights_of(made)
    made.run(Position(), StopRequest())
    for a, b in zip(before, weights_of(made), strict=True):
        assert torch.equal(a, b)

    made = trainer(watcher, replace(SETTINGS, steps=4, log_every=4), objective=Sick({2}))
    made.run(Position(), StopRequest())
    assert watcher.metrics[-1].skipped == 1
    assert all(p.isfinite().all() for p in weights_of(made))


def test_training_that_never_is_finite_ends_with_the_way_out() -> None:
    made = trainer(Watcher(), replace(SETTINGS, log_every=1), objective=Sick(set(range(100))))
    way_out = r"last 5 updates \(step 5\): lower the learning rate,"
    with pytest.raises(UserError, match=way_out):
        made.run(Position(), StopRequest())


def test_patience_ends_training_after_so_many_validations_without_a_better_one() -> None:
    watcher = Watcher(scores=[3.0, 2.0, 2.5, 2.1, 1.0])
    settings = replace(SETTINGS, steps=50, validate_every=2, patience=2)
    end = trainer(watcher, settings).run(Position(), StopRequest())
    assert watcher.best_steps == [2, 4]
    assert (end.step, end.best_step, end.best_score, end.worse_since) == (8, 4, 2.0, 2)


def test_a_score_that_is_not_a_number_beats_nothing_and_is_beaten_by_everything() -> None:
    watcher = Watcher(scores=[math.nan, 3.0, math.nan, 2.0])
    end = trainer(watcher, replace(SETTINGS, steps=8, validate_every=2)).run(Position(), StopRequest())
    assert watcher.best_steps == [2, 4, 8]
    assert end.best_score == 2.0


def test_higher_is_better_for_bleu() -> None:
    watcher = Watcher(scores=[10.0, 30.0, 20.0])
    settings = replace(SETTINGS, steps=6, validate_every=2, higher_is_better=True)
    assert trainer(watcher, settings).run(Position(), StopRequest()).best_step == 4


def test_of_equal_scores_the_one_with_the_lower_loss_is_best(tmp_path: Path) -> None:
    scores = [{"accuracy": accuracy, "loss": loss} for accuracy, loss in [(0.5, 2), (0.9, 1), (0.9, 0.8), (0.9, 0.9)]]
    settings = replace(SETTINGS, steps=8, validate_every=2, higher_is_better=True)
    watcher = Watcher(scores=scores)
    whole = trainer(watcher, settings).run(Position(), StopRequest())
    assert watcher.best_steps == [2, 4, 6]
    assert (whole.best_step, whole.best_score, whole.best_loss, whole.worse_since) == (6, 0.9, 0.8, 1)
    for stopped in (4, 6):  # what is the best is part of a checkpoint
        first = trainer(Watcher(scores=scores), replace(settings, steps=stopped)).run(Position(), StopRequest())
        read = Position.from_json(json.loads(json.dumps(first.to_json())), tmp_path / "position.json")
        watcher = Watcher(scores=scores[stopped // 2 :])
        end = trainer(watcher, settings).run(read, StopRequest())
        assert (end.best_step, end.best_loss, end.worse_since) == (6, 0.8, 1)


def test_equal_scores_keep_the_first_model_where_a_loss_is_not_known() -> None:
    settings = replace(SETTINGS, steps=4, validate_every=2, higher_is_better=True)
    for scores in ([{"bleu": 9.0}, {"bleu": 9.0, "loss": 1.0}], [{"bleu": 9.0, "loss": 1.0}, {"bleu": 9.0}]):
        assert trainer(Watcher(scores=scores), settings).run(Position(), StopRequest()).best_step == 2
    watcher = Watcher(scores=[{"bleu": 9.0, "loss": 1.0}])  # resumed from a checkpoint of an earlier version
    begun = Position(step=2, best_step=2, best_score=9.0)
    assert trainer(watcher, settings).run(begun, StopRequest()).best_step == 2


def test_a_gpu_waits_for_data_only_while_it_has_nothing_else_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host waits twice; the device is still busy at first, and idle for 30 ms the second time."""
    clock = iter([100.0, 100.0, 200.0, 230.0])  # ms, when the device comes to each mark

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.time = next(clock)

        def record(self, stream: object) -> None:
            assert stream == "stream of cuda:1"

        def elapsed_time(self, other: "Event") -> float:
            return other.time - self.time

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    meter = Meter(torch.device("cpu"), 0)
    meter.device = torch.device("cuda:1")
    for _ in range(2):
        with meter.waiting():
            pass
    assert meter.waited == pytest.approx(0.03)


def test_a_signal_that_comes_after_a_step_was_saved_or_not_waits_for_the_next_one() -> None:
    """Otherwise "checkpoint saved" would be said of a step that was not saved."""
    saved: list[int] = []

    class Saving(Watcher):
        def checkpoint(self, position: Position) -> None:
            saved.append(position.step)

    class Late(StopRequest):
        """A signal that comes as soon as the loop has looked whether one has."""

        looks = 0

        @property
        def signal(self) -> int | None:
            self.looks += 1
            return signal.SIGTERM if self.looks > 3 else None

        @signal.setter
        def signal(self, number: int | None) -> None: ...

    with pytest.raises(Stopped) as stopped:
        trainer(Saving()).run(Position(), Late())
    assert str(stopped.value).startswith(f"Stopped at step {saved[-1]} of 8, checkpoint saved.")
