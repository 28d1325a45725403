"""Low rank: W + s B A against the definition written as loops, and which matrices it applies to."""

import pytest
import torch
import torch.nn.functional as F
from tests.contract.families import classifier_of, config_of
from tests.shared.refusals import refuses
from torch import nn

from heedful.config.train.adapters import Lora
from heedful.models.adapters.low_rank import Adapter, LowRank
from heedful.models.adapters.matrices import adapted_matrices
from heedful.models.from_recipe.encoder_only import build_classifier
from heedful.models.from_recipe.network import build_model
from heedful.nn.layers.linear import Linear


def part_of(weight: torch.Tensor, **settings: object) -> LowRank:
    """A low-rank part with random values in both of its matrices."""
    made = LowRank(weight, Lora.model_validate({"kind": "lora", "rank": 3, **settings}), torch.Generator())
    torch.manual_seed(5)
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made


@pytest.mark.parametrize(("alpha", "scale"), [(None, 2.0), (6.0, 2.0), (1.5, 0.5)])
def test_a_map_with_an_adapter_is_the_sum_of_the_paper(alpha: float | None, scale: float) -> None:
    """y = W x + alpha / r B A x, as loops over all numbers."""
    linear, x = Linear(5, 4).double(), torch.randn(5, dtype=torch.float64)
    part = part_of(linear.weight, alpha=alpha)
    w, a, b, bias = (p.tolist() for p in (linear.weight, part.down, part.up, linear.bias))
    expected = [
        bias[n]
        + sum(w[n][k] * float(x[k]) for k in range(5))
        + scale * sum(b[n][r] * a[r][k] * float(x[k]) for r in range(3) for k in range(5))
        for n in range(4)
    ]
    found = F.linear(x, linear.weight + part(), linear.bias)
    assert found.tolist() == pytest.approx(expected, rel=1e-12)
    wide_first = linear(x) + scale * F.linear(F.linear(x, part.down), part.up)
    torch.testing.assert_close(found, wide_first, rtol=1e-12, atol=1e-12)


def test_a_batch_of_matrices_has_one_part_for_each() -> None:
    weight = torch.randn(2, 6, 4, dtype=torch.float64)
    part = part_of(weight)
    assert (part.down.shape, part.up.shape) == ((2, 3, 4), (2, 6, 3))
    for head in range(2):
        torch.testing.assert_close(part()[head], 2 * part.up[head] @ part.down[head])


def test_one_matrix_is_random_and_the_other_zero_with_the_same_numbers_for_a_seed() -> None:
    def adapter(seed: int) -> Adapter:
        torch.manual_seed(1)
        model = build_model(config_of("post-sinusoidal", 0.0), 14, 14)
        settings = Lora(kind="lora", rank=4)
        return Adapter(model, adapted_matrices(model, settings, frozenset()), [], settings, seed)

    one, again, other = ({n: p.detach() for n, p in adapter(seed).named_parameters()} for seed in (1, 1, 2))
    ups, downs = ([name for name in one if name.endswith(end)] for end in (".up", ".down"))
    assert len(ups) == len(downs) == len(one) / 2
    assert not any(one[name].any() for name in ups)
    assert all(one[name].unique().numel() == one[name].numel() for name in downs)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in downs)


def test_dropout_drops_inputs_in_training_alone() -> None:
    part = part_of(torch.randn(6, 40), dropout=0.5)
    whole = 2 * part.up @ part.down
    torch.testing.assert_close(part.eval()(), whole)
    torch.manual_seed(1)
    dropped = part.train()()
    kept = dropped.any(0)
    assert 8 < int(kept.sum()) < 32
    torch.testing.assert_close(dropped[:, kept], 2 * whole[:, kept])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"on": ["attention", "recurrent"]},
            '`train.adapter.on` has "recurrent", which this model does not have: use "attention", "cross", '
            '"embedding", "network" or "output".',
        ),
        (
            {"rank": 17},
            "`train.adapter.rank` is 17, but `encoder.blocks.0.attention.project.weight` has 48 rows and 16 columns: "
            "use 16 or less, or other groups in `train.adapter.on`.",
        ),
    ],
)
def test_what_cannot_be_adapted_is_refused(settings: dict[str, object], message: str) -> None:
    model = build_model(config_of("post-sinusoidal", 0.0), 14, 14)
    with refuses(message):
        adapted_matrices(model, Lora.model_validate({"kind": "lora", **settings}), frozenset())


def test_a_model_without_hidden_layers_has_nothing_to_adapt() -> None:
    bag = build_classifier(classifier_of("bag", 0.0), 14, 3)
    with refuses("`train.adapter` needs linear maps, which this model does not have: leave it out."):
        adapted_matrices(bag, Lora(kind="lora"), frozenset())
    assert adapted_matrices(bag, Lora(kind="lora", rank=2, on=("output",)), frozenset()) == ["output.weight"]
    with refuses('`train.adapter.on` has "output", which this model does not have: use "embedding".'):
        adapted_matrices(bag, Lora(kind="lora", rank=2, on=("output",)), frozenset(["output.weight"]))
