"""Taggers whose words read what the word before was given: true labels in training, their own otherwise."""

from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pytest
import torch
from tests.unit.config.rules.family_recipes import complaint
from torch import Tensor

from heedful.config.model.encoder_only import TaggerModel
from heedful.data.batches.tagged import TaggedBatch, TaggedCollator
from heedful.data.token_store import TokenStore
from heedful.models.from_recipe.encoder_only import build_tagger
from heedful.models.networks import FedBackClassifier
from heedful.nn.layers.ngrams import NgramBag

LABELS: Final = ("a", "b", "c")
STORE: Final = TokenStore.of(
    text=[[5, 6, 7, 8, 9], [6, 5]],
    words=[[1] * 5, [1, 1]],
    label=[[0, 1, 2, 0, 1], [2, 2]],
    part=[[0], [0]],
)


def network(feedback: Literal["output", "target"]) -> FedBackClassifier:
    torch.manual_seed(1)
    table = TaggerModel.model_validate(
        {"family": "tagger", "encoder": {"family": "bag", "ngrams": 1, "width": 4}, "feedback": feedback, "dropout": 0}
    )
    made = build_tagger(table, 10, LABELS)
    assert isinstance(made, FedBackClassifier)
    for parameter in made.parameters():
        parameter.data.normal_()
    return made


def word_vectors(model: FedBackClassifier) -> Tensor:
    bag = model.encoder
    assert isinstance(bag, NgramBag)
    return bag.embedding.weight.data


def batch(*changed: tuple[int, int]) -> TaggedBatch:
    made = TaggedCollator().batch([STORE], np.arange(2))
    labels = made.labels.clone()
    for word, label in changed:
        labels[word] = label
    return replace(made, labels=labels)


@torch.no_grad()
def changed_words(model: FedBackClassifier, one: TaggedBatch, other: TaggedBatch) -> list[int]:
    before, after = model(one), model(other)
    return (before != after).any(dim=1).nonzero().flatten().tolist()


def test_in_training_a_label_is_read_by_the_next_word_alone() -> None:
    model = network("target").train()
    assert changed_words(model, batch(), batch((1, 0))) == [2]
    assert changed_words(model, batch(), batch((4, 0))) == []  # the last of its sentence
    assert changed_words(network("output").train(), batch(), batch((1, 0))) == []


def test_in_training_all_words_are_those_of_the_equation() -> None:
    model, given = network("target").train(), batch()
    wiring, words = model.output, word_vectors(model)
    before = [None, 0, 1, 2, 0, None, 2]
    for word, (token, label) in enumerate(zip([5, 6, 7, 8, 9, 6, 5], before, strict=True)):
        fed = 0 if label is None else wiring.from_output.weight[:, label]
        h = torch.tanh(wiring.from_input.weight @ words[token] + wiring.from_input.bias + fed)
        expected = wiring.to_output.weight @ h + wiring.to_output.bias
        torch.testing.assert_close(model(given)[word], expected)


def test_otherwise_a_word_reads_the_label_that_the_word_before_was_given() -> None:
    model = network("target").eval()
    assert changed_words(model, batch(), batch((1, 0), (3, 2))) == []  # true labels are not read
    own = model(batch()).argmax(dim=1)
    torch.testing.assert_close(model(batch()), model.train()(replace(batch(), labels=own)))


def test_scores_that_are_fed_back_reach_all_words_after() -> None:
    model = network("output").train()
    word_vectors(model)[5, 0] += 1.0
    after = model(batch())
    word_vectors(model)[5, 0] -= 1.0
    moved = (after != model(batch())).any(dim=1).tolist()
    assert moved == [True, True, True, True, True, False, True]
    forced = network("target").train()
    before = forced(batch())
    word_vectors(forced)[5, 0] += 1.0
    assert (before != forced(batch())).any(dim=1).tolist() == [True, False, False, False, False, False, True]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            'feedback = "target"\ncrf = true',
            'in `model`, `feedback = "target"` chooses labels one after the other, and `crf = true` all together: '
            "leave one of them out.",
        ),
        (
            'encoder = { family = "bag", weighting = "rarity" }',
            'in `model`, `encoder.weighting = "rarity"` weighs the n-grams of whole texts, but a tagger labels words: '
            "leave it out.",
        ),
    ],
)
def test_mistakes(keys: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint("tagger", '{ conll = "a.conll" }', model=keys) == line
