"""The moving average of the weights: its equation, and where it is kept."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from heedful.config.train.optimizers import Adam, AnyOptimizer, Muon, Sgd
from heedful.training.objectives import Sums
from heedful.training.optimizers.build import build_optimizer
from heedful.training.optimizers.moving_average import MovingAverage
from heedful.training.optimizers.state import check_optimizer_state, load_optimizer_state, optimizer_state
from heedful.training.updates import EagerUpdates

KINDS: list[AnyOptimizer] = [Adam(), Muon(kind="muon"), Sgd(kind="sgd", momentum=0.0)]
DECAY = 0.8


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def updated(model: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> list[list[Tensor]]:
    """Take these steps, and return the weights after each."""

    def loss(batch: Tensor) -> Sums:
        total = model(batch).pow(2).sum()
        return Sums(total, total.detach())

    updates: EagerUpdates[Tensor] = EagerUpdates(loss, optimizer, None, torch.device("cpu"))  # type: ignore[type-var]
    found = []
    for number in range(first, last):
        torch.manual_seed(number)
        updates.add(torch.randn(3, 4), first=True)
        updates.step(3, 0.05)
        found.append([p.detach().clone() for p in model.parameters()])
    return found


@pytest.mark.parametrize("config", KINDS, ids=repr)
def test_it_is_the_recursion_over_all_weights_and_can_take_their_place(config: AnyOptimizer) -> None:
    model = network()
    optimizer = build_optimizer(config, model, average=DECAY)
    after = updated(model, optimizer, 0, 5)
    average = after[0]
    for weights in after[1:]:
        average = [DECAY * a + (1 - DECAY) * w for a, w in zip(average, weights, strict=True)]
    with MovingAverage(optimizer).in_place_of_weights():
        for weight, expected in zip(model.parameters(), average, strict=True):
            torch.testing.assert_close(weight.detach(), expected)
    assert all(map(torch.equal, model.parameters(), after[-1]))


@pytest.mark.parametrize("config", KINDS, ids=repr)
def test_it_goes_on_bit_by_bit_from_a_saved_state(config: AnyOptimizer) -> None:
    whole, first, second = network(), network(), network()
    kept = build_optimizer(config, whole, average=DECAY)
    updated(whole, kept, 0, 6)
    optimizer = build_optimizer(config, first, average=DECAY)
    updated(first, optimizer, 0, 3)
    second.load_state_dict(first.state_dict())
    resumed = build_optimizer(config, second, average=DECAY)
    saved = optimizer_state(first, optimizer)
    assert any(key.endswith(".average") for key in saved)
    check_optimizer_state(second, resumed, saved, Path("optimizer.safetensors"), "start again.")
    load_optimizer_state(second, resumed, saved)
    updated(second, resumed, 3, 6)
    ended, expected = optimizer_state(second, resumed), optimizer_state(whole, kept)
    assert ended.keys() == expected.keys()
    assert all(torch.equal(ended[key], expected[key]) for key in expected)


def test_without_a_decay_nothing_is_kept() -> None:
    model = network()
    optimizer = build_optimizer(Adam(), model)
    updated(model, optimizer, 0, 2)
    assert not [key for key in optimizer_state(model, optimizer) if key.endswith(".average")]
