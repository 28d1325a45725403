import math

import pytest
import torch
from torch import Tensor, nn

from heedful.nn.attention.multi_head import CrossAttention, SelfAttention
from heedful.nn.initialization import init_xavier
from heedful.nn.layers.feedforward import FeedForward, SwiGLU
from heedful.nn.layers.linear import LayerNorm
from heedful.nn.layers.positions import Learned

WIDTH, INNER = 48, 80


def assert_uniform(matrix: Tensor, gain: float) -> None:
    """Glorot's bound for this very matrix, reached nearly and never passed; the variance of a uniform variable."""
    rows, columns = matrix.shape
    bound = gain * math.sqrt(6 / (rows + columns))
    assert 0.97 * bound < float(matrix.abs().max()) <= bound
    assert float(matrix.var()) == pytest.approx(bound**2 / 3, rel=0.1)
    assert abs(float(matrix.mean())) < 5 * bound / math.sqrt(3 * matrix.numel())


@pytest.mark.parametrize(
    ("module", "name", "pieces", "gain"),
    [
        (SelfAttention(WIDTH, 4), "project.weight", 3, math.sqrt(0.5)),
        (SelfAttention(WIDTH, 4), "output.weight", 1, 1),
        (CrossAttention(WIDTH, 4), "project_query.weight", 1, math.sqrt(0.5)),
        (CrossAttention(WIDTH, 4), "project_memory.weight", 2, math.sqrt(0.5)),
        (CrossAttention(WIDTH, 4), "output.weight", 1, 1),
        (FeedForward(WIDTH, INNER), "into.weight", 1, 1),
        (FeedForward(WIDTH, INNER), "out.weight", 1, 1),
        (SwiGLU(WIDTH, INNER), "into.weight", 2, 1),
        (SwiGLU(WIDTH, INNER), "out.weight", 1, 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_each_stacked_matrix_starts_as_it_would_alone(module: nn.Module, name: str, pieces: int, gain: float) -> None:
    torch.manual_seed(1)
    init_xavier(nn.Sequential(module))
    for matrix in module.get_parameter(name).detach().chunk(pieces):
        assert_uniform(matrix, gain)


def test_projections_to_fewer_heads_start_as_they_would_alone() -> None:
    torch.manual_seed(1)
    own, other = SelfAttention(WIDTH, 4, key_value_heads=2), CrossAttention(WIDTH, 4, key_value_heads=2)
    init_xavier(nn.Sequential(own, other))
    for matrix in own.project.weight.detach().split([WIDTH, WIDTH // 2, WIDTH // 2]):
        assert_uniform(matrix, math.sqrt(0.5))
    for matrix in other.project_memory.weight.detach().split([WIDTH // 2, WIDTH // 2]):
        assert_uniform(matrix, math.sqrt(0.5))


def test_biases_start_at_zero_and_norms_at_one() -> None:
    model = nn.Sequential(
        SelfAttention(WIDTH, 4), CrossAttention(WIDTH, 4), FeedForward(WIDTH, INNER), LayerNorm(WIDTH)
    )
    init_xavier(model)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name
    assert (model.get_parameter("3.weight") == 1).all()


def test_learned_positions_start_normal_with_variance_one_over_the_width() -> None:
    torch.manual_seed(2)
    learned = Learned(WIDTH, limit=200)
    init_xavier(learned)
    count = learned.weight.numel()
    assert abs(float(learned.weight.detach().mean())) < 5 * WIDTH**-0.5 / math.sqrt(count)
    assert float(learned.weight.detach().std()) == pytest.approx(WIDTH**-0.5, rel=5 / math.sqrt(2 * count))
