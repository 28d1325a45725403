"""Classifiers tell what they can only tell by what they learned, and masked models fill in what grammar demands."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import heedful
from heedful.data.builtin.english_spanish import sentence_pairs

pytestmark = pytest.mark.recipes

CLASSIFIER = """
[data]
train = {{ jsonl = "{folder}/train.jsonl", text = "text", label = "label" }}
valid = {{ jsonl = "{folder}/valid.jsonl", text = "text", label = "label" }}
batch_tokens = 2048
max_length = 64
[tokenizer]
kind = "wordpiece"
size = 2000
[model]
family = "classifier"
encoder = {encoder}
[train]
steps = 800
schedule = {{ kind = "linear", lr = 0.002, warmup = 80 }}
validation = {{ every = 200, metric = "accuracy" }}
"""
MASKED = """
[data]
train = {{ text = "{folder}/train.txt", documents = "line", sentences = "line" }}
valid = {{ text = "{folder}/valid.txt", documents = "line", sentences = "line" }}
batch_tokens = 4096
max_length = 64
[tokenizer]
kind = "wordpiece"
size = 2000
[model]
family = "bert"
preset = "tiny"
next_sentence = false
[train]
steps = 2000
schedule = {{ kind = "linear", lr = 0.002, warmup = 200 }}
validation = {{ every = 500, metric = "perplexity", max_sentences = 500 }}
"""
ENCODERS = {
    "transformer": '{ family = "transformer", width = 64, heads = 2, layers = 2, inner = 128 }',
    "recurrent": '{ family = "recurrent", cell = "lstm", width = 64 }',
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_classifier_tells_which_word_comes_first(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The label is whether a sentence was turned round: single words say nothing about it."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    for split, count in (("train", 6000), ("valid", 500)):
        lines = [json.dumps({"text": text, "label": label}) for text, label in turned(split, count)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    recipe = tmp_path / "turned.toml"
    recipe.write_text(CLASSIFIER.format(folder=tmp_path, encoder=ENCODERS[encoder]))
    model = heedful.TextClassifier.load(heedful.train(recipe, tmp_path / "run"))
    texts, labels = zip(*turned("test", 1000), strict=True)
    right = sum(said.label == label for said, label in zip(model.classify(texts), labels, strict=True))
    assert right >= 0.97 * len(texts)


def turned(split: str, count: int) -> Iterator[tuple[str, str]]:
    for number, (english, _) in enumerate(sentence_pairs(split, count)):
        words = english.rstrip(".?!").lower().split()
        yield (" ".join(words), "straight") if number % 2 else (" ".join(reversed(words)), "turned")


def test_a_masked_model_fills_in_what_the_sentence_demands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every held-out sentence one word is masked; the right one comes first far more often than the commonest."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    for split, count in (("train", 8000), ("valid", 500)):
        lines = [english.rstrip(".?!").lower() for english, _ in sentence_pairs(split, count)]
        (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n")
    recipe = tmp_path / "masked.toml"
    recipe.write_text(MASKED.format(folder=tmp_path))
    model = heedful.MaskFiller.load(heedful.train(recipe, tmp_path / "run"))
    sentences = [english.rstrip(".?!").lower().split() for english, _ in sentence_pairs("test", 300)]
    places = [number % len(words) for number, words in enumerate(sentences)]
    asked = [
        " ".join([*words[:place], "[MASK]", *words[place + 1 :]])
        for words, place in zip(sentences, places, strict=True)
    ]
    hidden = [words[place] for words, place in zip(sentences, places, strict=True)]
    commonest = max(hidden.count(word) for word in set(hidden)) / len(hidden)
    found = model.fill(asked, top=1)
    right = sum(filled.masks[0][0].text.strip() == word for filled, word in zip(found, hidden, strict=True)) / len(
        hidden
    )
    assert right > 0.2  # most nouns, verbs and adjectives can be any
    assert right > 2 * commonest
