"""Memory of training, against what a real forward pass saves."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.lab.small_transformers import ACTIVATIONS, CONFIGS, VOCABULARY, config, store

from heedful.data.batches.pairs import PairFeed
from heedful.lab import memory as memory_module
from heedful.lab.memory import Memory, largest_batch, measure_memory, saved_bytes
from heedful.models.build.network import build_model
from heedful.models.networks import set_precision

RAGGED = [(3, 8), (12, 2), (7, 7), (20, 25), (1, 1)]


def feed(lengths: list[tuple[int, int]], batch_tokens: int = 1000) -> PairFeed:
    return PairFeed([store(lengths)], [1.0], 1, batch_tokens, multiple=64)


def measured(options: dict[str, Any], precision: torch.dtype) -> Memory:
    return measure_memory(
        config(**options), (VOCABULARY, VOCABULARY), feed(RAGGED), 0.1, torch.device("cpu"), precision
    )


def really_saved(options: dict[str, Any], precision: torch.dtype) -> int:
    model = build_model(config(**options), VOCABULARY, VOCABULARY)
    set_precision(model, precision)
    whole = feed(RAGGED)
    return saved_bytes(model, whole.batch(next(iter(whole.plan(0)))), 0.1)


@pytest.mark.parametrize("options", CONFIGS)
def test_memory_without_values_is_that_of_a_real_forward_pass(options: dict[str, Any]) -> None:
    assert measured(options, torch.float32).activations == really_saved(options, torch.float32)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_of_a_recipe_has_its_memory(activation: str) -> None:
    options = {"activation": activation, "layers": 1}
    assert measured(options, torch.float32).activations == really_saved(options, torch.float32)


@pytest.mark.parametrize("options", CONFIGS)
def test_in_bfloat16_it_differs_by_the_statistics_of_norms_at_most(options: dict[str, Any]) -> None:
    assert measured(options, torch.bfloat16).activations == pytest.approx(
        really_saved(options, torch.bfloat16), rel=0.01
    )


def test_a_storage_that_is_saved_twice_counts_once_and_weights_not_at_all() -> None:
    class Tiny(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(10))

        def states(self, source: object, target: object) -> torch.Tensor:
            twice = self.weight.exp()  # saves its result: 40 bytes
            return twice * twice * self.weight  # saves the same again, its square (40 bytes), and the weight

    class Summing:
        def __init__(self, smoothing: float) -> None: ...

        def __call__(self, model: Tiny, batch: object) -> torch.Tensor:
            return model.states(batch, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_module, "NextToken", Summing)
        assert saved_bytes(Tiny(), None, 0.0) == 80  # type: ignore[arg-type]


def test_adam_holds_two_numbers_a_weight_beside_weight_and_gradient() -> None:
    memory = measured({}, torch.float32)
    model = build_model(config(), VOCABULARY, VOCABULARY)
    weights = 4 * sum(p.numel() for p in model.parameters())
    assert (memory.parameters, memory.gradients, memory.optimizer) == (weights, weights, 2 * weights)
    assert memory.activations is not None
    assert memory.total == 4 * weights + memory.activations
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    state = [value for values in optimizer.state.values() for name, value in values.items() if name != "step"]
    assert sum(value.nbytes for value in state) == memory.optimizer


def test_the_largest_batch_is_the_one_with_most_tokens() -> None:
    chance = np.random.default_rng(1)
    lengths = [(int(a), int(b)) for a, b in chance.integers(1, 30, (200, 2))]
    whole = feed(lengths, batch_tokens=120)
    tokens = [sum(sum(lengths[i]) + 2 for i in indices) for indices in whole.plan(0)]
    chosen = largest_batch(whole)
    assert sum(sum(lengths[i]) + 2 for i in chosen) == max(tokens)
    batch = measure_memory(config(), (50, 50), whole, 0.1, torch.device("cpu"), torch.float32).batch
    assert batch.source_tokens + batch.target_tokens == max(tokens)
    assert batch.sentences == len(chosen)
    assert batch.longest == max(max(lengths[i]) + 1 for i in chosen)
