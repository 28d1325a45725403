"""Laws of adapters, for every family: at first they add nothing, then s B A; A and B alone are trained and saved."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from tests.contract.families import FAMILIES, TAGGERS, classifier_of, config_of, masked_of, open_branches, tagger_of
from tests.shared.covering import one_in
from torch import Tensor, nn

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.config.train.adapters import Lora, MapName
from heedful.config.train.schedules import Constant
from heedful.config.train.table import Train
from heedful.data.batches.pairs import collate
from heedful.data.token_store import TokenStore
from heedful.models.adapters.low_rank import Adapter
from heedful.models.adapters.matrices import adapted_matrices, groups_of
from heedful.models.bundle import read_bundle
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model, build_tagger
from heedful.models.from_recipe.network import build_model
from heedful.models.networks import set_precision
from heedful.runs.merging import merge
from heedful.runs.training_run import train
from heedful.training.objectives import Adapted, NextToken

WORDS = 14
EVERY: tuple[MapName, ...] = ("attention", "cross", "network", "recurrent", "embedding", "output")
STORE = TokenStore.of(source=[[4, 5, 6, 7], [7, 4], [6, 6, 5]], target=[[8, 9, 10], [11], [12, 13, 8, 9]])
BATCH = collate([STORE], np.arange(3))
Make = Callable[..., Recipe]


def made(family: str) -> nn.Module:
    """A tiny network in float64 whose every parameter counts, without dropout."""
    torch.manual_seed(2)
    model = open_branches(build_model(config_of(family, 0.0), WORDS, WORDS)).double()
    set_precision(model, torch.float64)
    return model


def adapter_of(model: nn.Module, *on: MapName, rank: int = 2, dropout: float = 0.0) -> Adapter:
    """An adapter of these groups, by default of all that there are."""
    there = {group for groups in groups_of(model).values() for group in groups}
    settings = Lora(kind="lora", rank=rank, on=on or tuple(sorted(there)), dropout=dropout)
    return Adapter(model, adapted_matrices(model, settings, frozenset()), [], settings, seed=3)


def learn(adapter: Adapter) -> Adapter:
    """Give the adapter values as if it had been trained."""
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return adapter


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# --- networks ---------------------------------------------------------------------------------------------------------


def test_a_new_adapter_adds_nothing(family: str) -> None:
    model, objective = made(family), NextToken(0.1)
    adapter = adapter_of(model)
    before = float(objective(model, BATCH).loss.detach())
    assert float(Adapted(objective, adapter)(model, BATCH).loss.detach()) == pytest.approx(before, rel=1e-12)
    with adapter.merged():
        assert float(objective(model, BATCH).loss.detach()) == before


def test_a_network_computes_with_an_adapter_as_with_its_matrices_and_is_left_as_it_was(family: str) -> None:
    model, objective = made(family), NextToken(0.1)
    own = weights_of(model)
    adapter = learn(adapter_of(model))
    loss = float(Adapted(objective, adapter)(model, BATCH).loss.detach())
    assert abs(loss - float(objective(model, BATCH).loss.detach())) > 1e-6
    with adapter.merged():  # without gradients, other kernels may sum in another order
        assert float(objective(model, BATCH).loss.detach()) == pytest.approx(loss, rel=1e-12)
    assert equal(weights_of(model), own)
    named = {name for name, parameter in model.named_parameters() if isinstance(parameter, nn.Parameter)}
    assert named == own.keys()


def test_gradients_reach_every_part_of_an_adapter_and_nothing_else(family: str) -> None:
    model = made(family)
    adapter = learn(adapter_of(model))
    Adapted(NextToken(0.1), adapter)(model, BATCH).loss.backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is not None] == []
    lacking = [name for name, part in adapter.named_parameters() if part.grad is None or not part.grad.any()]
    assert lacking == []


@pytest.mark.parametrize("family", one_in(4, FAMILIES))
def test_a_step_is_the_chain_rule_of_the_matrices_that_are_trained_as_a_whole(family: str) -> None:
    """dA = s B^T dW and dB = s dW A^T, with the gradient dW of the adapted matrix itself."""
    model = made(family)
    adapter = learn(adapter_of(model))
    Adapted(NextToken(0.1), adapter)(model, BATCH).loss.backward()
    adapter.merge()
    NextToken(0.1)(model.requires_grad_(True), BATCH).loss.backward()
    for name, weight in model.named_parameters():
        if f"{name}.down" in dict(adapter.named_parameters()):
            part = adapter.get_submodule(name)
            assert weight.grad is not None
            torch.testing.assert_close(part.down.grad, 2 * part.up.mT @ weight.grad)  # type: ignore[operator]
            torch.testing.assert_close(part.up.grad, 2 * weight.grad @ part.down.mT)  # type: ignore[operator]


def test_every_matrix_of_a_layer_is_in_a_group(family: str) -> None:
    model = made(family)
    groups = groups_of(model)
    assert {group for found in groups.values() for group in found} <= {*EVERY}
    missing = [name for name, parameter in model.named_parameters() if parameter.ndim == 2 and name not in groups]
    tables = ("positions", "columns", "vector", "predicted.out.")  # no linear maps, but that to one number
    assert [name for name in missing if not any(table in name for table in tables) and "mix" not in name] == []


def test_tied_matrices_stay_tied() -> None:
    model = made("post-sinusoidal")
    adapter = learn(adapter_of(model, "output"))
    with adapter.applied():
        assert model.decoder.output.weight is model.decoder.embedding.weight  # type: ignore[union-attr]
        assert not isinstance(model.decoder.output.weight, nn.Parameter)  # type: ignore[union-attr]
    assert [name for name, _ in adapter.named_parameters()] == [
        "encoder.embedding.weight.down", "encoder.embedding.weight.up"
    ]  # fmt: skip


@pytest.mark.parametrize("name", [*TAGGERS, "masked", "first", "gpt-pairs", "hierarchical", "bag"])
def test_models_of_other_tasks_have_matrices_to_adapt(name: str) -> None:
    if name == "masked":
        model: nn.Module = build_masked_model(masked_of("next-sentence", 0.0), WORDS)
    elif name in TAGGERS:
        model = build_tagger(tagger_of(name, 0.0), WORDS, ("a", "b"))
    else:
        model = build_classifier(classifier_of(name, 0.0), WORDS, 3)
    names = [part for part, _ in adapter_of(model).named_parameters()]
    assert len(names) == 2 * len(groups_of(model))


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A recipe on files of its own for a family, of so many steps; with a start, an adapter of it."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    chance = np.random.default_rng(0)
    lines = ["".join(chance.choice(list("abcdef "), size)).strip() or "a" for size in chance.integers(1, 12, 20)]
    for name, side in (("a", lines), ("b", [line[::-1] for line in lines])):
        (tmp_path / name).write_text("".join(line + "\n" for line in side))
    corpus = AlignedFiles(source="a", target="b")

    def made(family: str, steps: int, start: Path | None = None) -> Recipe:
        adapter = {} if start is None else {"start_from": str(start), "adapter": Lora(kind="lora", rank=2, dropout=0.2)}
        settings = Train(
            steps=steps, device="cpu", precision="float32", schedule=Constant(kind="constant", lr=0.02),
            log_every=1, checkpoint_every=1, report=False, **adapter,  # type: ignore[arg-type]
        )  # fmt: skip
        data = Data(folder=str(tmp_path), train=(corpus,), valid=(corpus,), batch_tokens=30, max_length=39)
        return Recipe(data=data, tokenizer=Words(kind="word"), model=config_of(family, dropout=0.3), train=settings)

    return made


@pytest.mark.parametrize("any_family", one_in(4, FAMILIES))
def test_an_adapter_in_two_halves_has_the_bits_of_a_whole_one_is_read_and_merged(
    make: Make, tmp_path: Path, any_family: str
) -> None:
    def run(steps: int, folder: str, start: Path | None, resume: bool = False) -> Path:
        recipe = make(any_family, steps, start)
        return train(recipe, tmp_path / folder, resume=resume, console=Console(file=StringIO()))

    base = run(1, "base", None)
    before = (base / "model.safetensors").read_bytes()
    whole = run(3, "whole", base)
    run(1, "halves", base)
    halves = run(3, "halves", base, resume=True)
    adapter = (whole / "adapter.safetensors").read_bytes()
    assert (halves / "adapter.safetensors").read_bytes() == adapter
    assert (base / "model.safetensors").read_bytes() == before
    assert not (whole / "model.safetensors").exists()

    adapted, start = read_bundle(base, nn.Module, adapter=whole), read_bundle(base)
    parts = load_file(whole / "adapter.safetensors")
    learned = [name for name in parts if name.endswith(".up") and parts[name].any()]
    assert learned  # branches of rezero are still closed in places
    for name, weight in adapted.model.named_parameters():
        added = torch.zeros(())
        if f"{name}.down" in parts:
            added = 2.0 * (parts[f"{name}.up"] @ parts[f"{name}.down"])
        assert torch.equal(weight, dict(start.model.named_parameters())[name] + added)
    merged = read_bundle(merge(base, whole, tmp_path / "merged"))
    assert equal(weights_of(merged.model), weights_of(adapted.model))
    assert equal(weights_of(read_bundle(whole).model), weights_of(adapted.model))
