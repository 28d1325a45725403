"""Memory of training, against what a real forward pass saves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.shared.sound_corpora import CORPORA, recipe_of, write
from tests.shared.taggers import tagged_sentences, tagger_recipe, write_conll
from tests.unit.doctor.estimates.small_transformers import ACTIVATIONS, CONFIGS, VOCABULARY, config, store
from torch import Tensor

from heedful.config.reading.load import recipe_from_json
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.data.batches.pairs import PairBatch, PairCollator
from heedful.data.epochs.loader import RowFeed
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.doctor.estimates.memory import Memory, largest_batch, measure_memory, saved_bytes
from heedful.models.from_recipe.network import build_model, build_network
from heedful.models.networks import set_precision
from heedful.tasks.classify.objective import OneLabel
from heedful.tasks.loading import find_task
from heedful.training.objectives import NextToken

RAGGED = [(3, 8), (12, 2), (7, 7), (20, 25), (1, 1)]


def feed(lengths: list[tuple[int, int]], batch_tokens: int = 1000) -> RowFeed[PairBatch]:
    return RowFeed([store(lengths)], [1.0], PairCollator(), 1, batch_tokens, multiple=64)


def recipe_for(options: dict[str, Any]) -> Recipe:
    corpus = {"source": "a", "target": "b"}
    model = config(**options).model_dump(exclude_defaults=True)
    return recipe_from_json({"data": {"train": [corpus]}, "model": model}, "test recipe")


def vocabularies() -> Vocabularies:
    tokenizer = train_tokenizer(Words(kind="word", size=VOCABULARY), [" ".join(f"w{n}" for n in range(60))])
    assert tokenizer.size == VOCABULARY
    return Vocabularies({"source": tokenizer, "target": tokenizer})


def measured(options: dict[str, Any], precision: torch.dtype, whole: RowFeed[PairBatch] | None = None) -> Memory:
    device, whole = torch.device("cpu"), whole or feed(RAGGED)
    return measure_memory(recipe_for(options), vocabularies(), NextToken(0.1), whole, device, precision)


def really_saved(options: dict[str, Any], precision: torch.dtype) -> int:
    model = build_model(config(**options), VOCABULARY, VOCABULARY)
    set_precision(model, precision)
    whole = feed(RAGGED)
    return saved_bytes(model, whole.batch(next(iter(whole.plan(0)))), NextToken(0.1))


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

    def summing(model: Tiny, batch: object) -> torch.Tensor:
        return model.states(batch, batch)

    assert saved_bytes(Tiny(), None, summing) == 80  # type: ignore[arg-type]


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
    chosen = largest_batch(whole).planned
    assert sum(sum(lengths[i]) + 2 for i in chosen) == max(tokens)
    batch = measured({}, torch.float32, whole).batch
    assert sum(batch.tokens.values()) == max(tokens)
    assert batch.sentences == len(chosen)
    assert batch.longest == max(max(lengths[i]) + 1 for i in chosen)


def test_memory_of_weighted_classes_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    write(tmp_path, CORPORA["classify"]())
    recipe = recipe_of("classify", tmp_path)
    of_task = find_task(recipe)
    prepared = of_task.prepare(recipe, None, lambda message: None)
    whole, classes = of_task.feed(recipe, prepared), len(prepared.vocabularies.labels)

    def activations(weights: Tensor | None) -> int:
        weighted, device = OneLabel(0.0, weights), torch.device("cpu")
        found = measure_memory(recipe, prepared.vocabularies, weighted, whole, device, torch.float32).activations
        assert found is not None
        return found

    assert activations(torch.ones(classes)) == activations(None) + 4 * classes  # the weights themselves


@pytest.mark.parametrize("task", ["classify", "fill"])
def test_memory_of_other_tasks_is_that_of_a_real_forward_pass(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    write(tmp_path, CORPORA[task]())
    recipe = recipe_of(task, tmp_path)
    of_task = find_task(recipe)
    prepared = of_task.prepare(recipe, None, lambda message: None)
    whole, objective = of_task.feed(recipe, prepared), of_task.objective(recipe, prepared)
    memory = measure_memory(recipe, prepared.vocabularies, objective, whole, torch.device("cpu"), torch.float32)
    model = build_network(recipe.model, prepared.vocabularies)
    saved = saved_bytes(model, whole.batch(largest_batch(whole).planned), objective)
    assert memory.activations == (saved if task == "classify" else pytest.approx(saved, rel=0.05))


@pytest.mark.parametrize("encoder", ["transformer", "bert", "recurrent"])
@pytest.mark.parametrize("letters", ["convolutional", "recurrent"])
def test_memory_of_taggers_that_read_letters_is_measured(
    encoder: str, letters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    for name in ("train", "valid"):
        write_conll(tmp_path / f"{name}.conll", tagged_sentences(8))
    shape = {"width": 8} if encoder == "recurrent" else {"width": 8, "heads": 2, "layers": 1, "inner": 8}
    model = {"encoder": {"family": encoder, **shape}, "letters": {"family": letters, "width": 6}, "crf": True}
    recipe = tagger_recipe(tmp_path, model)
    of_task = find_task(recipe)
    prepared = of_task.prepare(recipe, None, lambda message: None)
    whole, objective = of_task.feed(recipe, prepared), of_task.objective(recipe, prepared)
    memory = measure_memory(recipe, prepared.vocabularies, objective, whole, torch.device("cpu"), torch.float32)
    network = build_network(recipe.model, prepared.vocabularies)
    saved = saved_bytes(network, whole.batch(largest_batch(whole).planned), objective)
    assert memory.activations == pytest.approx(saved, rel=0.05)
