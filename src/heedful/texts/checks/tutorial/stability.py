"""What makes Transformers hard to train, and what helps: norms, Adam's first updates, warm-ups, ReZero, RAdam."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from heedful.base.packed import Layout
from heedful.config.model.transformer import TransformerModel
from heedful.config.train.optimizers import Adam, AnyOptimizer, RAdam
from heedful.config.train.schedules import Cosine
from heedful.models.from_recipe.network import build_model
from heedful.nn.attention.multi_head import SelfAttention
from heedful.nn.layers.linear import LayerNorm
from heedful.nn.layers.residual import Residual
from heedful.texts.checks.computed import Computed, drawn, given, numbers, randomize
from heedful.training.optimizers.build import build_optimizer
from heedful.training.optimizers.state import forget_momentum
from heedful.training.schedules import build_learning_rate

_WIDTH = 8  # D
_RATE = 0.1
_BETA_1, _BETA_2 = 0.9, 0.999


# --- layer norms ------------------------------------------------------------------------------------------------------


def _jacobian_norm(x: Tensor) -> float:
    """Return the largest factor by which a gradient grows through Heedful's layer norm."""
    norm = LayerNorm(len(x), eps=0.0).double()
    jacobian = torch.autograd.functional.jacobian(lambda y: norm(y.unsqueeze(0))[0], x)
    return float(torch.linalg.matrix_norm(cast(Tensor, jacobian), ord=2))


def _centred() -> Tensor:
    x = numbers(_WIDTH)
    return x - x.mean()


def norm_of_the_jacobian() -> Computed:
    """||dLayernorm[X]/dX|| = O(sqrt(D) / ||X||): of an X with mean 0 exactly sqrt(D) / ||X||, at three sizes"""
    with drawn():
        x = _centred()
        inputs = [factor * x for factor in (0.1, 1.0, 10.0)]
        text = [math.sqrt(_WIDTH) / float(value.norm()) for value in inputs]
        return Computed(text, [_jacobian_norm(value) for value in inputs])


def shrinking_gradients() -> Computed:
    """Above ||X|| = sqrt(D) gradients shrink, below it they grow: factors at half, once and twice that norm"""
    with drawn():
        x = _centred()
        x = x / x.norm() * math.sqrt(_WIDTH)
        return Computed([2.0, 1.0, 0.5], [_jacobian_norm(factor * x) for factor in (0.5, 1.0, 2.0)])


# --- optimizers and schedules -----------------------------------------------------------------------------------------


class _Trained:
    """One weight, and an optimizer as a recipe builds it."""

    def __init__(self, config: AnyOptimizer, rate: float = _RATE) -> None:
        self.model = nn.Linear(1, 1, bias=False).double()
        nn.init.constant_(self.model.weight, 1.0)
        self.optimizer = build_optimizer(config, self.model)
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def update(self, gradient: float) -> float:
        """Return the change of the weight."""
        before = float(self.model.weight.detach())
        self.model.weight.grad = torch.full_like(self.model.weight, gradient)
        self.optimizer.step()
        return float(self.model.weight.detach()) - before

    def moment(self, name: str) -> float:
        """Return the mean of gradients, or of their squares."""
        return float(self.optimizer.state[self.model.weight][name])


def _adam() -> Adam:
    return Adam(beta2=_BETA_2, epsilon=1e-12)


def _radam() -> RAdam:
    return RAdam(kind="radam", beta2=_BETA_2, epsilon=1e-12)


def variance_of_the_first_update() -> Computed:
    """Without bound in the text; the first update is the rate, up or down, so its variance is that of its sign"""
    with drawn():
        gradients = given(torch.randn(64, dtype=torch.float64)).tolist()
        updates = torch.tensor([_Trained(_adam()).update(gradient) / _RATE for gradient in gradients])
        signs = torch.tensor([-math.copysign(1.0, gradient) for gradient in gradients])
        return Computed([math.inf], [float(updates.var())], [float(signs.var())])


def adam_divides_by_size() -> Computed:
    """Weights with small gradients change more slowly in the text: by 1/25; by Adam they change as fast: by 1"""
    with drawn():
        small, large = (sum(_Trained(_adam()).update(sign * size) for sign in (1, 1, 1)) for size in (0.031, 0.775))
        return Computed([1 / 25], [small / large])


def _rectification(step: int) -> float:
    """r_t of Liu et al. 2020; without a rectified step, 1: it is then that of the momentum alone."""
    longest = 2 / (1 - _BETA_2) - 1
    length = longest - 2 * step * _BETA_2**step / (1 - _BETA_2**step)
    if length <= 5:
        return 1.0
    above = (length - 4) * (length - 2) * longest
    return math.sqrt(above / ((longest - 4) * (longest - 2) * length))


def rectified_steps() -> Computed:
    """Steps of RAdam under one gradient: r_t times the rate, 0.026 at the sixth, 0.96 at the 4,000th: a warm-up"""
    with drawn():
        trained, found = _Trained(_radam()), {}
        for step in range(1, 4001):
            found[step] = -trained.update(1.0) / _RATE
        steps = (6, 10, 100, 1000, 4000)
        return Computed([_rectification(step) for step in steps], [found[step] for step in steps], tolerance=1e-5)


def settling_squares() -> Computed:
    """Adam-2k before its last step: the weight and the momentum stay, 1 and 0, and the mean of squares settles"""
    with drawn():
        trained, squares = _Trained(_adam(), rate=0.0), 0.0  # `wait`, with `momentum = false`
        for gradient in (0.5, -1.0, 2.0):
            trained.update(gradient)
            forget_momentum(trained.optimizer)
            squares = _BETA_2 * squares + (1 - _BETA_2) * gradient**2
        found = [float(trained.model.weight.detach()), trained.moment("exp_avg"), trained.moment("exp_avg_sq")]
        return Computed([1.0, 0.0, squares], found, tolerance=1e-12)


def momentum_of_radam() -> Computed:
    """RAdam changes the momentum in the text, here by r_t; its momentum is Adam's, and the step is rectified"""
    with drawn():
        trained, momentum = _Trained(_radam()), 0.0
        for step in range(1, 11):
            trained.update(1.0 / step)
            momentum = _BETA_1 * momentum + (1 - _BETA_1) / step
        return Computed([_rectification(10) * momentum], [trained.moment("exp_avg")], [momentum])


def cosine_warmup_scheduler() -> Computed:
    """get_lr_factor of the printed class, with warmup = 3 and max_iters = 50 times the 176 batches of its classifier"""
    warmup, max_iters = 3 * 176, 50 * 176

    def get_lr_factor(epoch: int) -> float:
        lr_factor = 0.5 * (1 + math.cos(math.pi * epoch / max_iters))
        if epoch <= warmup:
            lr_factor *= epoch * 1.0 / warmup
        return lr_factor

    rate = build_learning_rate(Cosine(kind="cosine", lr=1.0, warmup=warmup, span="run"), 8, max_iters)
    steps = (1, 100, warmup, warmup + 1, 4400, max_iters)
    return Computed([get_lr_factor(step) for step in steps], [rate(step) for step in steps], tolerance=1e-12)


def first_rate() -> Computed:
    """The rate of the first update, of a peak of 1 after 528 updates: 0 by the printed class; 1/528"""
    rate = build_learning_rate(Cosine(kind="cosine", lr=1.0, warmup=3 * 176, span="run"), 8, 50 * 176)
    return Computed([0.0], [rate(1)])


# --- ReZero -----------------------------------------------------------------------------------------------------------


def rezero_residual() -> Computed:
    """X + alpha MhSa[X]"""
    with drawn():
        attention, x = cast(SelfAttention, randomize(SelfAttention(4, 2, bias=False))), numbers(3, 4)
        around, layout = Residual(nn.Identity(), nn.Identity(), 0.0, learned=True).double(), Layout.of([3])
        assert around.weight is not None
        nn.init.constant_(around.weight, 0.3)
        q, k, v = (x @ w.T for w in attention.project.weight.detach().chunk(3))
        heads = []
        for part in (slice(0, 2), slice(2, 4)):
            weights = (q[:, part] @ k[:, part].T / math.sqrt(2)).exp()
            heads.append(weights / weights.sum(1, keepdim=True) @ v[:, part])
        text = x + 0.3 * torch.cat(heads, dim=1) @ attention.output.weight.detach().T
        return Computed(text, around(x, lambda h: attention(h, layout)))


def rezero_at_first() -> Computed:
    """alpha = 0 at first: the blocks of a new network give back what they are given"""
    with drawn():
        config = TransformerModel(norm="rezero", width=4, heads=2, layers=3, inner=6, dropout=0.0)
        model = build_model(config, 5, 5).double()
        x, layout = numbers(3, 4), Layout.of([3])
        y = x
        for block in model.encoder.blocks:  # type: ignore[attr-defined]
            y = block(y, layout)
        return Computed(x, y)
