"""Laws of all taggers: they learn, are kept, leak nothing, and their labels stay with their words."""

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.contract.families import TAGGERS, tagger_of
from tests.shared.covering import one_in
from tests.shared.taggers import LABELS, tagged_sentences, write_conll

from heedful.base.label_schemes import first_forbidden
from heedful.config.recipe import Recipe
from heedful.data.batches.tagged import TaggedBatch, TaggedCollator
from heedful.data.collate import StaticShape
from heedful.data.token_store import TokenStore
from heedful.models.bundle import Bundle, read_bundle
from heedful.models.from_recipe.encoder_only import build_tagger
from heedful.models.networks import WordClassifier, set_precision
from heedful.nn.initialization import init_xavier
from heedful.runs.training_run import train
from heedful.tasks.tag.data import prepare_tagged
from heedful.tasks.tag.model import Tagger
from heedful.tasks.tag.objective import LabelSequences, WordLabels
from heedful.tasks.tag.task import TagTask

WORDS = 14
TEXTS = TokenStore.of(
    text=[[5, 6, 7, 8, 9], [10, 4], [11, 12, 13, 5, 6, 7], [8]],
    words=[[2, 1, 2], [1, 1], [1, 1, 1, 1, 1, 1], [1]],
    label=[[0, 1, 2], [2, 0], [2, 0, 1, 1, 2, 0], [2]],
    part=[[0], [0], [0], [0]],
    letters=[[65, 66, 67, 68], [70, 65], [65, 66, 67, 68, 69, 70, 71], [2050]],
    spelled=[[1, 2, 1], [1, 1], [1, 1, 2, 1, 1, 1], [1]],
)


@pytest.fixture(params=TAGGERS)
def tagger(request: pytest.FixtureRequest) -> str:
    """Every tagger, one after the other."""
    return str(request.param)


def batch_of(*rows: int, **shape: Any) -> TaggedBatch:
    return TaggedCollator(most_words=6).batch([TEXTS], np.array(rows or range(len(TEXTS))), **shape)


def network_of(name: str) -> WordClassifier:
    torch.manual_seed(2)
    return build_tagger(tagger_of(name, 0.0), WORDS, LABELS)


def exact_network(name: str) -> WordClassifier:
    """In float64, every parameter counting."""
    model = network_of(name).double().eval()
    set_precision(model, torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def objective_of(name: str) -> WordLabels | LabelSequences:
    return LabelSequences() if tagger_of(name, 0.0).crf else WordLabels(0.0)


@pytest.mark.parametrize("tagger", one_in(2, TAGGERS))
def test_a_tagger_overfits_one_batch(tagger: str) -> None:
    model, objective, batch = network_of(tagger), objective_of(tagger), batch_of()
    init_xavier(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    before = float(objective(model, batch).loss.detach())
    for _ in range(30):
        optimizer.zero_grad()
        (objective(model, batch).loss / objective.units(batch)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert float(objective(model, batch).loss.detach()) < 0.1 * before


def test_every_weight_of_a_tagger_has_a_gradient(tagger: str) -> None:
    model = exact_network(tagger)
    objective_of(tagger)(model, batch_of()).loss.backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()] == []


@torch.no_grad()
def test_neighbours_cannot_change_the_scores_of_a_sentence(tagger: str) -> None:
    model, objective = exact_network(tagger), objective_of(tagger)
    alone = [model(batch_of(row)) for row in range(len(TEXTS))]
    losses = sum(float(objective(model, batch_of(row)).loss) for row in range(len(TEXTS)))
    static = StaticShape.around(tokens=64, max_sentences=6, longest=20)
    for rows, shape in (((), {}), ((3, 1, 0, 2), {}), ((), {"static": static}), ((), {"multiple": 64})):
        batch = batch_of(*rows, **shape)
        expected = torch.cat([alone[row] for row in rows or range(len(TEXTS))])
        assert torch.allclose(model(batch)[: batch.real_words], expected, rtol=1e-10, atol=1e-12)
        assert float(objective(model, batch).loss) == pytest.approx(losses, rel=1e-6)
        assert objective.units(batch) == batch.real_words == len(expected)
    assert not torch.allclose(alone[0][0], alone[1][0], rtol=1e-3)


@pytest.mark.parametrize("tagger", [name for name in TAGGERS if name != "bag-target"], indirect=True)
def test_scores_of_a_word_depend_on_the_words_around_it(tagger: str) -> None:
    model, changed = (
        exact_network(tagger),
        TokenStore.of(
            text=[[5, 6, 7, 8, 4]], words=[[2, 1, 2]], part=[[0]], letters=[[65, 66, 67, 68]], spelled=[[1, 2, 1]]
        ),
    )
    (before, after) = (model(TaggedCollator().batch([store], np.array([0]))).detach() for store in (TEXTS, changed))
    assert not torch.allclose(before[0], after[0], rtol=1e-6)


@pytest.mark.parametrize("tagger", [name for name in TAGGERS if "letters" in name], indirect=True)
def test_letters_of_a_word_change_its_scores_and_those_of_its_neighbours(tagger: str) -> None:
    model = exact_network(tagger)
    letters = TokenStore.of(letters=[[65, 66, 99, 68]]).streams
    changed = TokenStore(
        {
            **{name: TokenStore.of(x=[TEXTS.sentence(name, 0).tolist()]).streams["x"] for name in TEXTS.streams},
            **letters,
        }
    )
    before, after = (model(TaggedCollator().batch([store], np.array([0]))).detach() for store in (TEXTS, changed))
    assert not any(torch.allclose(one, two, rtol=1e-6) for one, two in zip(before, after, strict=True))


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    for seed, name in enumerate(("train", "valid")):
        write_conll(tmp_path / f"{name}.conll", tagged_sentences(20, seed))
    return tmp_path


def recipe_of(name: str, home: Path, steps: int) -> Recipe:
    return Recipe.model_validate(
        {
            "data": {
                "folder": str(home),
                "train": {"conll": "train.conll"},
                "valid": {"conll": "valid.conll"},
                "batch_tokens": 64,
                "max_length": 9,
            },
            "tokenizer": {"kind": "word"},
            "model": tagger_of(name, 0.3),
            "train": {"steps": steps, "device": "cpu", "precision": "float32", "log_every": 1},
        }
    )


def run(recipe: Recipe, folder: Path, resume: bool = False) -> Path:
    return train(recipe, folder, resume=resume, console=Console(file=StringIO()))


def state(folder: Path) -> list[bytes]:
    files = ("model.safetensors", "optimizer.safetensors")
    return [(folder / "checkpoints/step-00000002" / file).read_bytes() for file in files]


@pytest.mark.parametrize("tagger", one_in(3, TAGGERS))
def test_a_tagger_trained_in_two_halves_has_the_bits_of_a_whole_run_and_is_read_as_it_was(
    home: Path, tagger: str
) -> None:
    whole = run(recipe_of(tagger, home, 2), home / "whole")
    run(recipe_of(tagger, home, 1), home / "halves")
    assert state(run(recipe_of(tagger, home, 2), home / "halves", resume=True)) == state(whole)
    bundle = read_bundle(whole, WordClassifier)
    assert bundle.recipe == recipe_of(tagger, home, 2)
    assert bundle.vocabularies.labels == LABELS
    check_cut_sentences(Tagger(bundle), home)


def check_cut_sentences(model: Tagger, home: Path) -> None:
    """Sentences that were cut are validated as they are evaluated and tagged: each word with its label."""
    prepared = prepare_tagged(model.recipe, given=model.vocabularies)
    assert len(prepared.valid[0]) > 20, "some sentences are cut"
    model.network.eval()
    judged = TagTask().evaluate_stores(model.bundle, prepared.valid)
    sentences = tagged_sentences(20, seed=1)
    assert [list(labels) for labels in judged.true] == [[label for _, label in sentence] for sentence in sentences]
    found = model.tag([[word for word, _ in sentence] for sentence in sentences])
    assert [tagging.labels for tagging in found] == list(judged.said)
    evaluated = model.evaluate([tuple(zip(*sentence, strict=True)) for sentence in sentences])
    assert evaluated.loss == pytest.approx(judged.loss, rel=1e-5)
    assert evaluated.result.f1 == judged.f1


def test_a_tagger_with_a_crf_never_breaks_the_rules_even_across_a_cut(home: Path) -> None:
    config = tagger_of("transformer-crf", 0.0)
    recipe = recipe_of("transformer-crf", home, 1).model_copy(update={"model": config})
    prepared = prepare_tagged(recipe)
    torch.manual_seed(1)
    network = build_tagger(config, prepared.vocabularies["text"].size, LABELS)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter))
    model = Tagger(Bundle(recipe, prepared.vocabularies, network))
    for found in model.tag([[word for word, _ in sentence] for sentence in tagged_sentences(20)]):
        assert first_forbidden(found.labels, "BIO") is None
        assert len(found.labels) == len(found.words)
        assert all(0 < share <= 1 for share in found.probabilities)
