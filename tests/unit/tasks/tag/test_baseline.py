"""The line that taggers have to beat: the most frequent label of each word, against its definition."""

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.shared.taggers import LABELS, fresh_tagger, tagged_sentences, tagger_recipe, write_conll

from heedful.data.prepare.prepared import Prepared
from heedful.tasks.shared.validation import Asked
from heedful.tasks.tag import baseline
from heedful.tasks.tag.baseline import UsualLabels, tag_as_usual
from heedful.tasks.tag.task import TagTask

Tagged = list[tuple[str, int]]


def usual_label(train: Tagged, word: str) -> int:
    """The definition, as slowly as it reads."""
    own = [label for known, label in train if known == word]
    endings = [word[-length:] for length in (3, 2, 1) if length <= len(word)]
    groups = [own, *([label for known, label in set(train) if known.endswith(ending)] for ending in endings)]
    first = next((group for group in groups if group), [label for _, label in train])
    counts = Counter(first)
    return min(counts, key=lambda label: (-counts[label], label))


@pytest.mark.parametrize("seed", range(5))
def test_words_get_their_usual_label_and_new_words_that_of_their_ending(seed: int) -> None:
    chance = random.Random(seed)
    words = ["".join(chance.choices("abc", k=chance.randint(1, 6))) for _ in range(60)]
    train = [(word, chance.randint(0, 3)) for word in words]
    usual = UsualLabels(train)
    for word in [*words, *("".join(chance.choices("abcd", k=chance.randint(1, 6))) for _ in range(100)), "", "xyz"]:
        assert usual.label(word) == usual_label(train, word), word


def prepared(folder: Path, model: Mapping[str, Any] = {}, **sections: Mapping[str, Any]) -> Prepared:
    write_conll(folder / "train.conll", tagged_sentences(30))
    write_conll(folder / "valid.conll", tagged_sentences(9, seed=1))
    return TagTask().prepare(tagger_recipe(folder, model, **sections), None, lambda line: None)


@pytest.mark.parametrize("tokenizer", [{"kind": "word"}, {"kind": "byte_bpe", "size": 300}])
@pytest.mark.parametrize("letters", [False, True])
def test_it_tags_words_of_files_whatever_reads_them(
    tokenizer: Mapping[str, Any], letters: bool, tmp_path: Path
) -> None:
    model = {"letters": {"family": "convolutional"}} if letters else {}
    made = prepared(tmp_path, model, tokenizer=tokenizer)
    assert ("letters" in made.train[0].streams) == letters
    said, sample = tag_as_usual(made.train, made.valid, np.arange(9), made.vocabularies["text"])
    names = made.vocabularies.labels
    train = [(word, names.index(label)) for sentence in tagged_sentences(30) for word, label in sentence]
    assert said == [[usual_label(train, word) for word, _ in sentence] for sentence in tagged_sentences(9, seed=1)]
    assert sample == "the 30 training sentences"


def test_of_many_sentences_some_at_equal_distances_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared(tmp_path)
    monkeypatch.setattr(baseline, "_MOST_SENTENCES", 10)
    said, sample = tag_as_usual(made.train, made.valid, np.array([0, 4]), made.vocabularies["text"])
    assert sample == "10 of 30 training sentences"
    names = made.vocabularies.labels
    train = [(word, names.index(label)) for sentence in tagged_sentences(30)[::3] for word, label in sentence]
    assert said == [[usual_label(train, word) for word, _ in tagged_sentences(9, seed=1)[row]] for row in (0, 4)]


def test_sentences_that_are_cut_stay_whole(tmp_path: Path) -> None:
    whole = prepared(tmp_path)
    cut = prepared(tmp_path, data={"max_length": 5})
    assert len(cut.train[0]) > len(whole.train[0])
    one, other = (
        tag_as_usual(made.train, made.valid, np.arange(9), made.vocabularies["text"]) for made in (whole, cut)
    )
    assert one == other


@pytest.mark.parametrize(
    ("labels", "names"), [(LABELS, ["f1", "accuracy"]), (("ADJ", "DET", "NOUN"), ["accuracy", "f1"])]
)
def test_spans_are_scored_by_f1_and_other_labels_by_accuracy(
    labels: tuple[str, ...], names: list[str], tmp_path: Path
) -> None:
    made, bundle = prepared(tmp_path), fresh_tagger(tagger_recipe(tmp_path), labels)
    assert list(TagTask().line(bundle, made, Asked("loss")).scores) == names
