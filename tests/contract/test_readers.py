"""Laws of all that read one sequence, classifiers and masked language models: they learn, are kept, leak nothing."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.contract.families import CLASSIFIERS, PAIRED, classifier_of, masked_of
from tests.shared.covering import one_in
from torch import Tensor, nn

from heedful.base.packed import IGNORED, Nested
from heedful.config.recipe import Recipe
from heedful.config.train.table import Masking
from heedful.data.batches.masked import MaskedBatch, MaskedFeed
from heedful.data.batches.texts import AnyTextCollator, DocumentCollator, PairedTextCollator, TextBatch, TextCollator
from heedful.data.collate import StaticShape
from heedful.data.epochs.plan import Indices
from heedful.data.token_store import TokenStore
from heedful.models.bundle import read_bundle
from heedful.models.from_recipe.encoder_only import build_classifier, build_masked_model
from heedful.models.from_recipe.network import build_network
from heedful.models.networks import Classifier, MaskedModel, set_precision
from heedful.nn.initialization import init_xavier
from heedful.runs.training_run import train
from heedful.tasks.classify.objective import OneLabel, SeveralLabels
from heedful.tasks.classify.task import ClassifyTask
from heedful.tasks.fill.objective import MaskedTokens
from heedful.tasks.shared.pooled.network_outputs import collator_of
from heedful.training.objectives import Objective

WORDS, CLASSES = 14, 3
MASK = 4
Make = Callable[[str, int], Recipe]

# --- classifiers ------------------------------------------------------------------------------------------------------

TEXTS = TokenStore.of(
    text=[[5, 6, 7, 8, 9], [10, 4], [11, 12, 13, 5, 6, 7], [8]],
    second=[[4], [5, 6, 7, 8], [9, 9], [10, 11]],
    sentences=[[2, 3], [1, 1], [6], [1]],
    letters=[[97, 98, 99, 97, 100], [99, 98], [97, 98, 99, 100, 101], [102]],
    spelled=[[2, 0, 1, 1, 1], [1, 1], [0, 2, 1, 1, 0, 1], [1]],
    label=[[0], [2], [1], [2]],
)
SEVERAL = TokenStore({**TEXTS.streams, **TokenStore.of(label=[[0, 1], [], [2], [0, 1, 2]]).streams})


def collator(name: str) -> AnyTextCollator:
    config = classifier_of(name, 0.0)
    classes = CLASSES if config.labels == "several" else 0
    if config.nested:
        return DocumentCollator(20, 3, classes=classes, letters=config.reads_letters)
    if config.joins_after_reading:
        return PairedTextCollator(20, classes=classes)
    return TextCollator(20, paired=name in PAIRED, classes=classes)


def rows(*numbers: int) -> Indices:
    return np.array(numbers or range(len(TEXTS)))


def batch_of(name: str, *numbers: int, **shape: Any) -> TextBatch:
    return collator(name).batch([SEVERAL if is_several(name) else TEXTS], rows(*numbers), **shape)


def is_several(name: str) -> bool:
    return classifier_of(name, 0.0).labels == "several"


def objective_of(name: str) -> OneLabel:
    return SeveralLabels(0.0) if is_several(name) else OneLabel(0.0)


def exact(model: nn.Module) -> None:
    """In float64, every parameter counting."""
    model.double().eval()
    set_precision(model, torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)


def overfitted(model: nn.Module, batch: Any, objective: Objective[Any]) -> float:
    """The share of the loss that is left after a few updates.

    All begin alike: the small deviation that BERT begins with is for layers that are fifty times as wide.
    """
    init_xavier(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    before = float(objective(model, batch).loss.detach())
    for _ in range(30):
        optimizer.zero_grad()
        (objective(model, batch).loss / objective.units(batch)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return float(objective(model, batch).loss.detach()) / before


def without_gradient(model: nn.Module, batch: Any, objective: Objective[Any]) -> list[str]:
    objective(model, batch).loss.backward()
    return [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]


@pytest.mark.parametrize("classifier", one_in(3, CLASSIFIERS))
def test_a_classifier_overfits_one_batch(classifier: str) -> None:
    torch.manual_seed(2)
    model = build_classifier(classifier_of(classifier, 0.0), WORDS, CLASSES)
    assert overfitted(model, batch_of(classifier), objective_of(classifier)) < 0.1


def test_every_weight_of_a_classifier_has_a_gradient(classifier: str) -> None:
    model = build_classifier(classifier_of(classifier, 0.0), WORDS, CLASSES)
    exact(model)
    assert without_gradient(model, batch_of(classifier), objective_of(classifier)) == []


@torch.no_grad()
def test_neighbours_cannot_change_the_scores_of_a_text(classifier: str) -> None:
    model = build_classifier(classifier_of(classifier, 0.0), WORDS, CLASSES)
    exact(model)
    alone = torch.cat([model(batch_of(classifier, number).inputs) for number in rows()])
    together = model(batch_of(classifier).inputs)
    assert torch.allclose(together, alone, rtol=1e-10, atol=1e-12)
    turned = model(batch_of(classifier, 3, 1, 0, 2).inputs)
    assert torch.allclose(turned, alone[[3, 1, 0, 2]], rtol=1e-10, atol=1e-12)
    assert not torch.allclose(alone[0], alone[1], rtol=1e-3)
    if isinstance(batch_of(classifier).inputs, Nested):
        return
    shape = StaticShape.around(tokens=64, max_sentences=6, longest=20)
    for filled in (batch_of(classifier, static=shape), batch_of(classifier, multiple=64)):
        assert torch.allclose(model(filled.inputs)[: len(alone)], alone, rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_what_follows_the_markers_of_a_pair_is_told_apart() -> None:
    """The same pieces in the other order make another pair."""
    for name in PAIRED:
        model = build_classifier(classifier_of(name, 0.0), WORDS, CLASSES)
        exact(model)
        store = TokenStore.of(text=[[5, 6], [7, 8]], second=[[7, 8], [5, 6]])
        scores = model(collator(name).batch([store], np.arange(2)).inputs)
        assert not torch.allclose(scores[0], scores[1], rtol=1e-3)


# --- masked language models -------------------------------------------------------------------------------------------

DOCUMENTS = TokenStore.of(
    text=[[5, 6, 7, 8, 9, 10], [11, 12, 13, 5], [6, 6, 7, 13, 12, 11, 10]],
    sentences=[[2, 1, 3], [2, 2], [3, 1, 3]],
)


def feed_of(name: str, store: TokenStore = DOCUMENTS, **masking: float) -> MaskedFeed:
    config = masked_of(name, 0.0)
    return MaskedFeed(
        [store],
        [1.0],
        seed=3,
        batch_tokens=200,
        max_length=16,
        next_sentence=config.next_sentence,
        masking=Masking.model_validate({"share": 0.3, **masking}),
        mask_id=MASK,
        vocabulary=range(5, WORDS),
    )


def masked_batch(name: str, store: TokenStore = DOCUMENTS, epoch: int = 0, **masking: float) -> MaskedBatch:
    feed = feed_of(name, store, **masking)
    (planned,) = feed.plan(epoch)
    return feed.batch(planned)


def masked_model(name: str) -> MaskedModel:
    torch.manual_seed(2)
    return build_masked_model(masked_of(name, 0.0), WORDS)


def test_a_masked_model_overfits_one_batch(masked: str) -> None:
    assert overfitted(masked_model(masked), masked_batch(masked), MaskedTokens()) < 0.1


def test_every_weight_of_a_masked_model_has_a_gradient(masked: str) -> None:
    model = masked_model(masked)
    exact(model)
    assert without_gradient(model, masked_batch(masked), MaskedTokens()) == []


@torch.no_grad()
def test_neighbours_cannot_change_what_a_masked_model_makes_of_a_text(masked: str) -> None:
    model, feed = masked_model(masked), feed_of(masked)
    exact(model)
    (planned,) = feed.plan(0)
    together = model(feed.batch(planned).text).split()
    for number in range(len(together)):
        text = feed.batch(planned).text
        begin, end = text.layout.offsets[number : number + 2].tolist()
        segments = None if text.segments is None else text.segments[begin:end]
        alone = type(text)(text.values[begin:end], type(text.layout).of([end - begin]), segments)
        assert torch.allclose(model(alone).values, together[number], rtol=1e-10, atol=1e-12)


def test_a_token_is_seen_or_asked_for_and_never_both(masked: str) -> None:
    """Whatever stands behind a mask, the inputs are the same: so are all scores."""
    before = masked_batch(masked, masked=1.0, random=0.0)
    assert (before.text.values[before.places] == MASK).all()
    asked = torch.zeros_like(before.text.values, dtype=torch.bool)
    asked[before.places] = True
    model = masked_model(masked).eval()
    hidden = 0
    for row, document in enumerate(DOCUMENTS.streams["text"][number].tolist() for number in range(3)):
        for place in range(len(document)):
            after = masked_batch(masked, changed(row, place), masked=1.0, random=0.0)
            assert torch.equal(after.places, before.places)
            seen = after.text.values != before.text.values
            assert not (seen & asked).any()
            told = after.labels != before.labels
            assert seen.any() or told.any()
            hidden += not seen.any()
            if not seen.any():
                assert torch.equal(model(after.text).values, model(before.text).values)
    assert hidden > 0


def changed(row: int, place: int) -> TokenStore:
    """The documents with one token that is another."""
    texts = [DOCUMENTS.sentence("text", number).tolist() for number in range(len(DOCUMENTS))]
    texts[row][place] = 5 if texts[row][place] != 5 else 6
    sentences = [DOCUMENTS.sentence("sentences", number).tolist() for number in range(len(DOCUMENTS))]
    return TokenStore.of(text=texts, sentences=sentences)


def test_half_of_all_second_texts_follow_the_first() -> None:
    documents = [[[5 + (i + j) % 9] * (1 + (i * j) % 4) for j in range(8)] for i in range(120)]
    store = TokenStore.of(
        text=[[token for sentence in document for token in sentence] for document in documents],
        sentences=[[len(sentence) for sentence in document] for document in documents],
    )
    feed = feed_of("next-sentence", store)
    answers = torch.cat([batch.next[batch.next != IGNORED] for batch in map(feed.batch, feed.plan(0))])
    deviation = 0.5 / len(answers) ** 0.5
    assert len(answers) > 250
    assert abs(float(answers.float().mean()) - 0.5) < 4 * deviation


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A recipe on files of its own, of so many steps."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    chance = np.random.default_rng(0)
    texts = [" ".join(chance.choice(list("abcdefghi."), size)) for size in chance.integers(1, 12, 60)]
    labels = [sorted(set(text) & set("abc")) for text in texts]
    lines = [
        json.dumps({"text": text, "second": text[::-1], "label": label[0] if label else "c", "labels": label})
        for text, label in zip(texts, labels, strict=True)
    ]
    (tmp_path / "texts.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def made(name: str, steps: int) -> Recipe:
        fills = name.startswith("masked ")
        model = masked_of(name.removeprefix("masked "), 0.3) if fills else classifier_of(name, 0.3)
        corpus = {"jsonl": "texts.jsonl", "text": "text"}
        if not fills:
            corpus["label"] = "labels" if is_several(name) else "label"
        if name in PAIRED:
            corpus["second"] = "second"
        return Recipe.model_validate(
            {
                "data": {
                    "folder": str(tmp_path),
                    "train": corpus | {"lines": "1-50"},
                    "valid": corpus | {"lines": "51-60"},
                    "batch_tokens": 64,
                    "max_length": 30,
                },
                "tokenizer": {"kind": "word"},
                "model": model,
                "train": {
                    "steps": steps,
                    "device": "cpu",
                    "precision": "float32",
                    "schedule": {"kind": "constant", "lr": 0.01},
                    "log_every": 1,
                },
            }
        )

    return made


def run(recipe: Recipe, folder: Path, resume: bool = False) -> Path:
    return train(recipe, folder, resume=resume, console=Console(file=StringIO()))


def state(folder: Path, step: int) -> list[bytes]:
    """The bits of weights and optimizer after so many steps."""
    files = ("model.safetensors", "optimizer.safetensors")
    return [(folder / f"checkpoints/step-{step:08d}" / file).read_bytes() for file in files]


def check_runs(make: Make, name: str, folder: Path) -> Path:
    """A whole run, whose bits are those of one in two halves, is read as it was."""
    whole = run(make(name, 2), folder / "whole")
    run(make(name, 1), folder / "halves")
    halves = run(make(name, 2), folder / "halves", resume=True)
    assert state(halves, 2) == state(whole, 2)
    bundle = read_bundle(whole, nn.Module)
    assert bundle.recipe == make(name, 2)
    fresh = build_network(bundle.recipe.model, bundle.vocabularies)
    fresh.load_state_dict(bundle.model.state_dict())
    assert all(torch.equal(one, two) for one, two in zip(fresh.parameters(), bundle.model.parameters(), strict=True))
    return whole


@pytest.mark.parametrize("classifier", one_in(4, CLASSIFIERS))
def test_a_classifier_trained_in_two_halves_has_the_bits_of_a_whole_run_and_is_read_as_it_was(
    make: Make, tmp_path: Path, classifier: str
) -> None:
    whole = check_runs(make, classifier, tmp_path)
    bundle = read_bundle(whole, Classifier)
    bundle.model.eval()
    assert bundle.vocabularies.labels == ("a", "b", "c")
    made = collator_of(bundle.recipe, 3)
    assert type(made) is type(collator(classifier))
    store = SEVERAL if is_several(classifier) else TEXTS
    judged = ClassifyTask().evaluate_stores(bundle, (store,))
    assert judged.texts == len(store)
    scores = bundle.model(made.batch([store], rows()).inputs)
    assert judged.loss * len(store) == pytest.approx(by_hand(scores.detach(), store, is_several(classifier)), rel=1e-5)


def by_hand(scores_BC: Tensor, store: TokenStore, several: bool) -> float:
    total = 0.0
    for scores_C, labels in zip(scores_BC, (store.sentence("label", row).tolist() for row in rows()), strict=True):
        if several:
            aims = torch.tensor([float(number in labels) for number in range(CLASSES)])
            shares = scores_C.sigmoid()
            total -= float((aims * shares.log() + (1 - aims) * (1 - shares).log()).sum())
        else:
            total -= float(scores_C.log_softmax(0)[labels[0]])
    return total


def test_a_masked_model_trained_in_two_halves_has_the_bits_of_a_whole_run_and_is_read_as_it_was(
    make: Make, tmp_path: Path, masked: str
) -> None:
    bundle = read_bundle(check_runs(make, f"masked {masked}", tmp_path), MaskedModel)
    assert bundle.vocabularies["text"].mask == MASK
    assert bundle.vocabularies.labels == ()


@pytest.mark.parametrize("name", one_in(3, ["masked next-sentence", "bert-pairs", "hierarchical"]))
def test_training_is_the_same_twice_and_another_with_another_seed(name: str, make: Make, tmp_path: Path) -> None:
    recipe = make(name, 2)
    other = recipe.model_copy(update={"train": recipe.train.model_copy(update={"seed": 2})})
    runs = [run(each, tmp_path / str(number)) for number, each in enumerate((recipe, recipe, other))]
    assert state(runs[0], 2) == state(runs[1], 2) != state(runs[2], 2)
