"""Laws of training, for every family and every pair of options: it learns, is kept, and resumes bit-identically."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.contract.families import ALL, FAMILIES, VALUES, config_of, open_branches
from tests.shared.covering import one_in

from heedful.config.corpora.containers import AlignedFiles
from heedful.config.data import Data
from heedful.config.recipe import Recipe
from heedful.config.tokenizer import Words
from heedful.config.train.schedules import Constant
from heedful.config.train.table import Train
from heedful.data.batches.pairs import PairBatch, collate
from heedful.data.token_store import TokenStore
from heedful.models.bundle import read_bundle
from heedful.models.from_recipe.network import build_model, build_network
from heedful.models.networks import EncoderDecoder, set_precision
from heedful.runs.training_run import train
from heedful.training.objectives import NextToken

WORDS = 14
Make = Callable[[str, int], Recipe]


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> PairBatch:
    sources, targets = zip(*pairs, strict=True)
    return collate([TokenStore.of(source=list(sources), target=list(targets))], np.arange(len(pairs)))


def one_batch() -> PairBatch:
    return batch_of([([4, 5, 6, 7], [8, 9, 10]), ([7, 4], [11]), ([6, 6, 5], [12, 13, 8, 9])])


@pytest.mark.parametrize("any_family", [*one_in(2, FAMILIES), *one_in(3, VALUES)])
def test_overfits_one_batch(any_family: str) -> None:
    torch.manual_seed(2)
    model, batch, objective = build_model(config_of(any_family, 0.0), WORDS, WORDS), one_batch(), NextToken(0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    before = objective(model, batch).loss.detach()
    updates, share = (60, 0.3) if any_family in FAMILIES else (10, 0.85)  # there are many pairs of options
    for _ in range(updates):
        optimizer.zero_grad()
        loss = objective(model, batch).loss
        if loss.detach() < share * before:
            return
        (loss / batch.target_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert objective(model, batch).loss.detach() < share * before


def test_every_weight_has_a_gradient(any_family: str) -> None:
    torch.manual_seed(2)
    model = build_model(config_of(any_family, 0.0), WORDS, WORDS).double()
    open_branches(model)
    set_precision(model, torch.float64)
    NextToken(0.1)(model, one_batch()).loss.backward()
    lacking = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert [
        name for name in lacking if not name.endswith("alignment.bias")
    ] == []  # one addend to all scores may be idle


@torch.no_grad()
def test_neighbours_cannot_change_a_loss(model_of: Callable[..., EncoderDecoder], any_family: str) -> None:
    pairs = [([4, 5, 6, 7], [8, 9, 10]), ([7, 4], [11]), ([6, 6, 5], [12, 13, 8, 9])]
    model, objective = model_of(any_family), NextToken(0.1)
    alone = sum(float(objective(model, batch_of([pair])).loss) for pair in pairs)
    assert float(objective(model, batch_of(pairs)).loss) == pytest.approx(alone, rel=1e-10)


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A recipe on files of its own for a family, of so many steps."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    chance = np.random.default_rng(0)
    lines = ["".join(chance.choice(list("abcdef "), size)).strip() or "a" for size in chance.integers(1, 12, 20)]
    for name, side in (("a", lines), ("b", [line[::-1] for line in lines])):
        (tmp_path / name).write_text("".join(line + "\n" for line in side))
    corpus = AlignedFiles(source="a", target="b")

    def made(family: str, steps: int) -> Recipe:
        return Recipe(
            data=Data(folder=str(tmp_path), train=(corpus,), batch_tokens=30, max_length=39),
            tokenizer=Words(kind="word"),
            model=config_of(family, dropout=0.3),
            train=Train(
                steps=steps, device="cpu", precision="float32", schedule=Constant(kind="constant", lr=0.01),
                log_every=1, checkpoint_every=1,
            ),
        )  # fmt: skip

    return made


@pytest.mark.parametrize(
    "any_family",
    [*one_in(3, FAMILIES), *(pytest.param(name, marks=pytest.mark.wide) for name in ALL if name not in FAMILIES)],
)
def test_a_run_in_two_halves_ends_with_the_bits_of_a_whole_one_and_is_read_as_it_was(
    make: Make, tmp_path: Path, any_family: str
) -> None:
    def run(steps: int, folder: str, resume: bool = False) -> Path:
        return train(make(any_family, steps), tmp_path / folder, resume=resume, console=Console(file=StringIO()))

    whole = run(2, "whole")
    run(1, "halves")
    halves = run(2, "halves", resume=True)
    assert (halves / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    bundle = read_bundle(whole)
    assert bundle.recipe.model == make(any_family, 2).model
    fresh = build_network(bundle.recipe.model, bundle.vocabularies)
    fresh.load_state_dict(bundle.model.state_dict())
    batch = one_batch()
    assert torch.equal(NextToken(0.1)(fresh.eval(), batch).loss, NextToken(0.1)(bundle.model.eval(), batch).loss)
