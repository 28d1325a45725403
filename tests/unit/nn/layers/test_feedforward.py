import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heedful.nn.kernels import without_kernels
from heedful.nn.layers.feedforward import ACTIVATIONS, FeedForward, SwiGLU

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU Triton interprets the kernels
WIDTH, INNER = 3, 5


def relu(z: float) -> float:
    return max(z, 0.0)


def gelu(z: float) -> float:
    return z * (1 + math.erf(z / math.sqrt(2))) / 2


def silu(z: float) -> float:
    return z / (1 + math.exp(-z))


@pytest.mark.parametrize(("name", "activation"), [("relu", relu), ("gelu", gelu)])
def test_a_network_is_two_maps_with_an_activation_between(name: str, activation: Callable[[float], float]) -> None:
    network = FeedForward(WIDTH, INNER, name).double()
    x = torch.randn(4, WIDTH, dtype=torch.float64)
    y = network(x)
    for row, answer in zip(x.tolist(), y.tolist(), strict=True):
        inner = [activation(z) for z in mapped(row, network.into.weight, network.into.bias)]
        assert answer == pytest.approx(mapped(inner, network.out.weight, network.out.bias), abs=1e-12)


def test_swiglu_gates_one_map_by_another_and_has_no_biases() -> None:
    network = SwiGLU(WIDTH, INNER).double()
    assert {name for name, _ in network.named_parameters()} == {"into.weight", "out.weight"}
    gates, values = network.into.weight[:INNER], network.into.weight[INNER:]
    x = torch.randn(4, WIDTH, dtype=torch.float64)
    y = network(x)
    for row, answer in zip(x.tolist(), y.tolist(), strict=True):
        inner = [silu(g) * v for g, v in zip(mapped(row, gates), mapped(row, values), strict=True)]
        assert answer == pytest.approx(mapped(inner, network.out.weight), abs=1e-12)


@pytest.mark.parametrize("network", [FeedForward(4, 64, "relu", 0.5), SwiGLU(4, 64, 0.5)], ids=["ffn", "swiglu"])
def test_inner_dropout_acts_in_training_alone(network: torch.nn.Module) -> None:
    x = torch.randn(2, 4)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


@pytest.mark.parametrize(
    "network",
    [
        FeedForward(4, 9, "relu", 0.5),
        FeedForward(4, 9, "gelu", 0.5),
        FeedForward(4, 9, "relu", 0.5, bias=False),
        FeedForward(4, 9, "gelu_tanh", bias=False),
        SwiGLU(4, 9, 0.5),
    ],
    ids=["relu", "gelu", "relu-without-biases", "gelu-without-biases", "swiglu"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_by_the_kernels_is_the_same_network(
    network: torch.nn.Module, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    network = network.to(DEVICE)
    x, slopes = torch.randn(2, 7, 4, dtype=dtype, device=DEVICE)
    x.requires_grad_()

    def answers() -> list[Tensor]:
        torch.manual_seed(0)  # what is dropped is the same
        y = network(x)
        return [y, *torch.autograd.grad(y, [x, *network.parameters()], slopes)]

    with without_kernels():
        plain = answers()
    for module in ("linear", "feedforward"):
        monkeypatch.setattr(f"heedful.nn.layers.{module}.use_kernels", lambda _: True)
    for found, expected in zip(answers(), plain, strict=True):
        torch.testing.assert_close(found, expected)


def test_the_table_names_the_activations_of_a_plain_network() -> None:
    assert set(ACTIVATIONS) == {"relu", "gelu", "gelu_tanh", "silu"}


def mapped(row: list[float], weight: Tensor, bias: Tensor | None = None) -> list[float]:
    """x W^T + b, word by word."""
    shifts = [0.0] * len(weight) if bias is None else bias.tolist()
    return [
        sum(w * x for w, x in zip(weights, row, strict=True)) + shift
        for weights, shift in zip(weight.tolist(), shifts, strict=True)
    ]
