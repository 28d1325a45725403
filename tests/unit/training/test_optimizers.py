"""Optimizers against their equations."""

import torch
from torch import nn

from heedful.config.train.optimizers import Adam, AdamW
from heedful.training.optimizers import build_optimizer


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
