"""Optimizers against their equations."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.shared.refusals import refuses
from torch import Tensor, nn

from heedful.config.train.optimizers import Adagrad, Adam, AdamW, AnyOptimizer, Muon, RAdam, RmsProp, Sgd
from heedful.nn.layers.embedding import Embedding
from heedful.training.objectives import Sums
from heedful.training.optimizers.build import build_optimizer
from heedful.training.optimizers.state import (
    check_optimizer_state,
    forget_momentum,
    load_optimizer_state,
    optimizer_state,
)
from heedful.training.updates import EagerUpdates

RATE = 0.01
KINDS: list[AnyOptimizer] = [
    Adam(),
    AdamW(kind="adamw", weight_decay=0.1),
    RAdam(kind="radam", weight_decay=0.1),
    Muon(kind="muon"),
    RmsProp(kind="rmsprop"),
    RmsProp(kind="rmsprop", momentum=0.5),
    Adagrad(kind="adagrad"),
    Sgd(kind="sgd"),
    Sgd(kind="sgd", momentum=0.0, weight_decay=0.1),
    Sgd(kind="sgd", nesterov=True),
]


def holder(*shape: int) -> tuple[nn.Module, nn.Parameter]:
    """A module with one weight, in float64."""
    module = nn.Module()
    drawn = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = nn.Parameter(drawn)
    module.register_parameter("weight", weight)
    return module, weight


def test_adam_is_the_equation_of_the_paper() -> None:
    """Kingma and Ba 2015, algorithm 1, in float64."""
    weight = nn.Parameter(torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    holder = nn.Module()
    holder.register_parameter("weight", weight)
    optimizer = build_optimizer(Adam(beta1=0.9, beta2=0.98, epsilon=1e-9), holder)
    optimizer.param_groups[0]["lr"] = 0.01
    theta, m, v = weight.detach().clone(), torch.zeros(7, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)
    for t in range(1, 6):
        gradient = torch.sin(theta * t)
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient**2
        theta = theta - 0.01 * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
        weight.grad = torch.sin(weight.detach() * t)
        optimizer.step()
    assert torch.allclose(weight, theta, rtol=1e-12, atol=1e-12)


def test_adam_that_waits_without_momentum_is_adam_2k() -> None:
    """Liu et al. 2020, 3.1: the mean of squares settles for three updates; weights and momentum stay fixed."""
    module, weight = holder(7)
    optimizer = build_optimizer(Adam(beta2=0.999), module)
    theta, m, v = weight.detach().clone(), torch.zeros(7, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)
    for t in range(1, 8):
        gradient = torch.sin(theta * t)
        v = 0.999 * v + 0.001 * gradient**2
        if t > 3:
            m = 0.9 * m + 0.1 * gradient
            theta = theta - RATE * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-9)
        if t == 4:
            forget_momentum(optimizer)
        optimizer.param_groups[0]["lr"] = RATE if t > 3 else 0.0
        weight.grad = torch.sin(weight.detach() * t)
        optimizer.step()
        assert torch.allclose(weight, theta, rtol=1e-10, atol=1e-12), t


@pytest.mark.parametrize("config", KINDS, ids=lambda config: str(config.kind))
def test_momentum_is_forgotten_whatever_the_optimizer(config: AnyOptimizer) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    optimizer = build_optimizer(config, model)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    forget_momentum(optimizer)
    state = optimizer_state(model, optimizer)
    for name, tensor in state.items():
        forgotten = name.endswith((".exp_avg", ".momentum_buffer"))
        assert bool((tensor == 0).all()) == forgotten or name.endswith(".step"), name


def test_adamw_decays_matrices_but_neither_biases_nor_norms() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    optimizer = build_optimizer(AdamW(kind="adamw", weight_decay=0.5), model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, p in model.named_parameters():
        expected = before[name] * (1 - 0.1 * 0.5) if p.ndim > 1 else before[name]
        assert torch.allclose(p, expected, rtol=1e-6), name


def follow(config: AnyOptimizer, step: Callable[[int, Tensor, Tensor], Tensor], *shape: int) -> None:
    """Compare five steps with an equation that takes the number of the step, the weight and its gradient."""
    module, weight = holder(*(shape or (7,)))
    optimizer = build_optimizer(config, module)
    for group in optimizer.param_groups:
        group["lr"] = RATE
    theta = weight.detach().clone()
    for t in range(1, 6):
        theta = step(t, theta, torch.sin(theta * t))
        weight.grad = torch.sin(weight.detach() * t)
        optimizer.step()
        assert torch.allclose(weight, theta, rtol=1e-10, atol=1e-12), t


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_carries_its_momentum(nesterov: bool) -> None:
    velocity = torch.zeros(7, dtype=torch.float64)

    def step(t: int, theta: Tensor, gradient: Tensor) -> Tensor:
        velocity.mul_(0.9).add_(gradient)
        return theta - RATE * (gradient + 0.9 * velocity if nesterov else velocity)

    follow(Sgd(kind="sgd", nesterov=nesterov), step)


def test_adagrad_divides_by_the_root_of_all_squares() -> None:
    total = torch.full((7,), 0.5, dtype=torch.float64)

    def step(t: int, theta: Tensor, gradient: Tensor) -> Tensor:
        total.add_(gradient**2)
        return theta - RATE * gradient / (total.sqrt() + 1e-10)

    follow(Adagrad(kind="adagrad", initial=0.5), step)


def test_rmsprop_divides_by_the_root_of_the_mean_of_squares() -> None:
    mean, velocity = torch.zeros(7, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)

    def step(t: int, theta: Tensor, gradient: Tensor) -> Tensor:
        mean.mul_(0.9).add_(0.1 * gradient**2)
        velocity.mul_(0.5).add_(gradient / (mean.sqrt() + 1e-8))
        return theta - RATE * velocity

    follow(RmsProp(kind="rmsprop", decay=0.9, momentum=0.5), step)


def test_radam_is_the_algorithm_of_the_paper() -> None:
    """Liu et al. 2020, algorithm 2: with beta2 = 0.9 the variance is trusted from the sixth step on."""
    m, v = torch.zeros(7, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)
    longest = 2 / (1 - 0.6) - 1

    def step(t: int, theta: Tensor, gradient: Tensor) -> Tensor:
        m.mul_(0.9).add_(0.1 * gradient)
        v.mul_(0.6).add_(0.4 * gradient**2)
        length = longest - 2 * t * 0.6**t / (1 - 0.6**t)
        mean = m / (1 - 0.9**t)
        if length <= 5:
            return theta - RATE * mean
        top = (length - 4) * (length - 2) * longest
        return (
            theta - RATE * mean * math.sqrt(top / ((longest - 4) * (longest - 2) * length)) / (v / (1 - 0.6**t)).sqrt()
        )

    follow(RAdam(kind="radam", beta2=0.6, epsilon=1e-30), step)


def test_muon_makes_the_step_of_a_hidden_matrix_orthogonal_and_leaves_others_to_adamw() -> None:
    torch.manual_seed(0)
    model = nn.Module()
    model.embedding = Embedding(nn.Parameter(torch.randn(9, 6)), None, 0.0)
    model.layer = nn.Linear(6, 6)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    muon = build_optimizer(Muon(kind="muon", weight_decay=0.0), model)
    for group in muon.param_groups:
        group["lr"] = RATE
    gradients = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        p.grad = gradients[name].clone()
    muon.step()
    moved = {name: before[name] - p.detach() for name, p in model.named_parameters()}
    values = torch.linalg.svdvals(moved["layer.weight"]) / (RATE * 0.2 * math.sqrt(6))  # the size of AdamW's steps
    assert values.min() > 0.5
    assert values.max() < 1.3
    for name in ("embedding.weight", "layer.bias"):
        assert torch.allclose(moved[name], RATE * gradients[name].sign(), atol=1e-6), name  # as Adam's first step


def test_embeddings_need_not_decay() -> None:
    for decays in (True, False):
        model = nn.Module()
        model.embedding = Embedding(nn.Parameter(torch.ones(3, 2)), None, 0.0)
        model.layer = nn.Linear(2, 2, bias=False)
        optimizer = build_optimizer(AdamW(kind="adamw", weight_decay=0.5, decay_embeddings=decays), model)
        decay = {p: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
        assert decay[model.layer.weight] == 0.5
        assert decay[model.embedding.weight] == (0.5 if decays else 0.0)


def steps_of(optimizer: torch.optim.Optimizer, model: nn.Module, inputs: list[Tensor], clip: float | None) -> None:
    def loss(batch: Tensor) -> Sums:
        total = model(batch).pow(2).sum()
        return Sums(total, total.detach())

    updates: EagerUpdates[Tensor] = EagerUpdates(loss, optimizer, clip, torch.device("cpu"))  # type: ignore[type-var]
    for batch in inputs:
        updates.add(batch, first=True)
        updates.step(len(batch), RATE)


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def drawn(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(3, 4, generator=generator) for _ in range(count)]


@pytest.mark.parametrize("config", KINDS, ids=repr)
def test_a_step_that_is_not_finite_changes_nothing(config: AnyOptimizer) -> None:
    model = network()
    optimizer = build_optimizer(config, model)
    steps_of(optimizer, model, drawn(2), clip=1.0)
    before = [p.detach().clone() for p in model.parameters()]
    state = {key: tensor.clone() for key, tensor in optimizer_state(model, optimizer).items()}
    steps_of(optimizer, model, [torch.full((3, 4), torch.inf)], clip=1.0)
    assert all(map(torch.equal, before, model.parameters()))
    after = optimizer_state(model, optimizer)
    assert all(torch.equal(state[key], after[key]) for key in state)


@pytest.mark.parametrize("config", KINDS, ids=repr)
def test_a_step_takes_the_mean_gradient_clipped(config: AnyOptimizer) -> None:
    """Twice the loss with twice the units is the same step."""
    models = [network(), network()]
    (batch,) = drawn(1)
    for model, factor in zip(models, (1, 2), strict=True):

        def loss(given: Tensor, model: nn.Module = model, factor: int = factor) -> Sums:
            total = factor * model(given).pow(2).sum()
            return Sums(total, total.detach())

        updates: EagerUpdates[Tensor] = EagerUpdates(  # type: ignore[type-var]
            loss, build_optimizer(config, model), 0.5, torch.device("cpu")
        )
        for _ in range(3):
            updates.add(batch, first=True)
            updates.step(3 * factor, RATE)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert not torch.equal(next(models[0].parameters()), next(network().parameters()))


@pytest.mark.parametrize("config", KINDS, ids=repr)
def test_a_resumed_optimizer_goes_on_bit_by_bit(config: AnyOptimizer) -> None:
    inputs = drawn(6)
    whole = network()
    steps_of(build_optimizer(config, whole), whole, inputs, clip=None)
    first = network()
    optimizer = build_optimizer(config, first)
    steps_of(optimizer, first, inputs[:3], clip=None)
    second = network()
    second.load_state_dict(first.state_dict())
    resumed = build_optimizer(config, second)
    saved = optimizer_state(first, optimizer)
    check_optimizer_state(second, resumed, saved, Path("optimizer.safetensors"), "start again.")
    load_optimizer_state(second, resumed, saved)
    steps_of(resumed, second, inputs[3:], clip=None)
    assert all(map(torch.equal, whole.parameters(), second.parameters()))


@pytest.mark.parametrize("config", [one for one in KINDS if one.moments], ids=repr)
def test_a_state_of_another_shape_is_refused(config: AnyOptimizer) -> None:
    model = network()
    optimizer = build_optimizer(config, model)
    steps_of(optimizer, model, drawn(1), clip=None)
    saved = optimizer_state(model, optimizer)
    odd = max(key for key in saved if key.startswith("0.weight."))
    saved[odd] = torch.zeros(3)
    with refuses(f"here: `{odd}` is (3,) of float32, but must be (...) of float32: start again."):
        check_optimizer_state(model, optimizer, saved, Path("here"), "start again.")


def test_muon_needs_a_hidden_matrix() -> None:
    with refuses('`train.optimizer` is "muon", but this model has no hidden matrices: use "adamw".'):
        build_optimizer(Muon(kind="muon"), holder(7)[0])
