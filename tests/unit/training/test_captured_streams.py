"""Recorded updates of a model that carries its state: warm-ups leave the state alone, replays carry it on."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.config.model.language import LanguageModelTable
from heedful.config.train.optimizers import AdamW
from heedful.data.batches.windows import Streams
from heedful.data.collate import StaticShape
from heedful.models.from_recipe.language import build_language_model
from heedful.models.networks import LanguageModel, set_precision
from heedful.training import updates as captured_updates
from heedful.training.optimizers.build import build_optimizer
from heedful.training.truncated import ActivationPenalty, TruncatedBackPropagation
from heedful.training.updates import CapturedUpdates, EagerUpdates, ModelLoss

WORDS, ROWS, LENGTH = 40, 8, 16
TEXT = [random.Random(0).randrange(4, WORDS) for _ in range(1000)]
FEED = Streams.of(TEXT, ROWS, LENGTH, seed=3).placed(StaticShape(ROWS * LENGTH, ROWS, LENGTH), pin=False)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def model_of(dropout: float) -> LanguageModel:
    torch.manual_seed(1)
    decoder = {
        "family": "recurrent",
        "width": 48,
        "embedding": 32,
        "last_width": 32,
        "dropout": dropout,
        "dropout_weights": dropout,
        "dropout_words": dropout,
        "variational": True,
    }
    return build_language_model(LanguageModelTable.model_validate({"family": "language", "decoder": decoder}), WORDS)


def losses_of(
    kind: type[EagerUpdates[Any]], device: torch.device, dropout: float, carried: dict[str, Tensor], first: int = 0
) -> list[float]:
    """The losses of the segments of an epoch from one on, with the state that was carried there, and an update each."""
    model, objective = model_of(dropout).to(device), TruncatedBackPropagation(0.0, ActivationPenalty(2.0, 1.0))
    if device.type == "cuda":
        set_precision(model, torch.bfloat16)
    objective.load_state_dict(carried)
    computation = kind(ModelLoss(objective, model), build_optimizer(AdamW(kind="adamw"), model), 1.0, device)
    losses = []
    for step, planned in enumerate(FEED.plan(0)):
        if step >= first:
            torch.manual_seed(step)
            losses.append(float(computation.add(FEED.batch(planned), first=True).loss))
            computation.step(ROWS * LENGTH, 3e-3)
    return losses


def carried_state() -> dict[str, Tensor]:
    torch.manual_seed(5)
    return {name: torch.randn(2, ROWS, 48) for name in ("hidden", "cell")}


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs without a GPU: what is recorded is computed at every replay."""

    def record(run: Callable[[], Any], *_: object) -> tuple[Any, Any]:
        result = SimpleNamespace(loss=torch.zeros(()), likelihood=torch.zeros(()))

        def replay() -> None:
            made = run()
            if isinstance(made, Tensor):
                return
            result.loss, result.likelihood = made.loss, made.likelihood

        return SimpleNamespace(replay=replay), result

    def warm_up(run: Callable[[], None], _: object) -> None:
        run()
        run()

    for function in ("graph_pool_handle", "Stream", "get_rng_state", "set_rng_state"):
        monkeypatch.setattr(torch.cuda, function, lambda *_: None)
    monkeypatch.setattr(captured_updates, "warm_up", warm_up)
    monkeypatch.setattr(captured_updates, "record", record)
    monkeypatch.setattr(CapturedUpdates, "step", lambda self, units, rate: EagerUpdates.step(self, units, rate))


@pytest.mark.usefixtures("replays")
@pytest.mark.parametrize("first", [0, 2], ids=["begun", "resumed"])
def test_replays_carry_the_state_and_warm_ups_leave_it_alone(first: int) -> None:
    cpu, carried = torch.device("cpu"), carried_state() if first else {}
    expected = losses_of(EagerUpdates, cpu, 0.0, carried, first)
    assert losses_of(CapturedUpdates, cpu, 0.0, carried, first) == expected
    assert len(expected) == 7 - first
    if first:
        assert expected != losses_of(EagerUpdates, cpu, 0.0, {}, first)


def test_the_carried_state_stays_where_it_is_in_memory() -> None:
    model, objective = model_of(0.0), TruncatedBackPropagation()
    objective(model, FEED.segment(0))
    held = objective._carried
    assert held is not None
    addresses = [part.data_ptr() for part in held.parts]
    objective(model, FEED.segment(1))
    objective.load_state_dict(carried_state())
    assert objective._carried is held
    assert [part.data_ptr() for part in held.parts] == addresses
    assert all(torch.equal(objective.state_dict()[name], part) for name, part in carried_state().items())


@needs_cuda
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("first", [0, 2], ids=["begun", "resumed"])
def test_recorded_updates_equal_computed_ones(first: int, dropout: float) -> None:
    device, carried = torch.device("cuda"), carried_state() if first else {}
    found = losses_of(CapturedUpdates, device, dropout, carried, first)
    assert found == pytest.approx(losses_of(EagerUpdates, device, dropout, carried, first), rel=5e-3)
