"""A trained tagger in Python: words in, labels out."""

from pathlib import Path

import numpy as np
import pytest
from tests.shared.refusals import Refusal, each, refuses
from tests.shared.taggers import LABELS, fresh_tagger, tagged_sentences, tagger_recipe, trained_tagger

import heedful
from heedful.tasks.tag.model import TaggedSpan, Tagger, Tagging

TEXT = "the old dog sees a cat ."
FOUND = ("B-NP", "I-NP", "I-NP", "O", "B-NP", "I-NP", "O")


@pytest.fixture(scope="module")
def phrases(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    return trained_tagger(tmp_path_factory.mktemp("tagger"))


@pytest.fixture(scope="module")
def trained(phrases: Path) -> Tagger:
    return heedful.Tagger.load(phrases, "cpu")


def test_a_tagger_finds_the_phrases_of_sentences_it_never_saw(trained: Tagger) -> None:
    found = trained.tag(TEXT)
    assert (found.words, found.labels) == (tuple(TEXT.split()), FOUND)
    assert all(0.5 < share <= 1 for share in found.probabilities)
    assert found.spans() == [TaggedSpan("NP", 0, 3, "the old dog"), TaggedSpan("NP", 4, 6, "a cat")]


def test_a_list_of_words_is_the_text_with_spaces_between_them(trained: Tagger) -> None:
    one, two, blank, three = trained.tag([TEXT, TEXT.split(), "  ", [*TEXT.split()[:3]]])
    assert one == two
    assert blank == Tagging((), (), ())
    assert three.words == ("the", "old", "dog")
    assert list(trained.stream(iter([TEXT, "", TEXT.split()]), chunk=2)) == [one, blank, one]


def test_a_long_sentence_loses_no_word(trained: Tagger) -> None:
    found = trained.tag(" ".join([TEXT] * 30))
    assert found.labels.count("B-NP") == 60
    assert len(found.labels) == len(found.words) == len(found.probabilities) == 210


def test_labels_that_do_not_mark_spans_have_none(tmp_path: Path) -> None:
    model = Tagger(fresh_tagger(tagger_recipe(tmp_path), ("DT", "NN")))
    assert set(model.tag(TEXT).labels) <= {"DT", "NN"}
    assert model.tag(TEXT).spans() == []


REFUSALS = [
    Refusal(
        "a number among texts",
        lambda trained: trained.tag(["a", 3]),
        "texts, line 2 is 3, but must be a text or a list of words.",
    ),
    Refusal(
        "a blank word",
        lambda trained: trained.tag([["a", " "]]),
        "texts, line 1: word 2 is blank: leave it out.",
    ),
    Refusal(
        "a word that is missing",
        lambda trained: trained.tag([[None]]),
        "texts, line 1: word 1 is None, but must be a text...",
    ),
    Refusal(
        "a number",
        lambda trained: trained.tag(3),
        "`texts` is 3, but must be a text or a...",
    ),
]


@each(REFUSALS)
def test_what_cannot_be_tagged_is_refused(refusal: Refusal, trained: Tagger) -> None:
    refusal.check(trained)


def test_an_overlong_line_is_refused_with_its_number(tmp_path: Path) -> None:
    model = Tagger(fresh_tagger(tagger_recipe(tmp_path, data={"max_line": 10})))
    assert len(model.tag("the dog").labels) == 2
    with refuses("texts, line 2 has 11 characters, but this model..."):
        model.tag(["the dog", "the old dog"])


def test_data_in_memory_is_evaluated(trained: Tagger) -> None:
    rows = [tuple(zip(*sentence, strict=True)) for sentence in tagged_sentences(20, seed=7)]
    found = trained.evaluate(
        rows, metrics={"sentences": lambda said, true: np.mean([s == t for s, t in zip(said, true, strict=True)])}
    )
    scores = {score.name: score.value for score in found.scores()}
    assert scores["accuracy"] == scores["f1"] == scores["precision"] == scores["recall"] == scores["sentences"] == 1
    as_text = trained.evaluate([{"text": " ".join(words), "label": " ".join(labels)} for words, labels in rows])
    assert as_text.loss == found.loss
    with refuses("data, row 2 has 2 words but 1 label: each word needs one."):
        trained.evaluate([("a dog", "O O"), ("a dog", "O")])
    with refuses("data, line 1 has the label `B-VP`, which is not a label of the model..."):
        trained.evaluate([("a dog", "B-VP O")])
    with refuses("data has no word to tag."):
        trained.evaluate([("", "")])


def test_labels_that_the_rules_forbid_are_told_and_scored_as_seqeval_does(trained: Tagger) -> None:
    found = trained.evaluate([("the old dog sees", "I-NP I-NP I-NP O"), ("a cat", "B-NP I-NP")])
    assert found.forbidden == (1, "data, line 1: I-NP starts a sentence, which BIO forbids")
    assert found.result.f1 == 1, "a span begins there"
    assert any(
        "1 sentence with true labels that break the rules, the first at data, line 1" in line
        for line in found.remarks()
    )


def test_the_loader_returns_it_and_its_name_says_what_it_is(phrases: Path) -> None:
    model = heedful.load(phrases, "cpu")
    assert isinstance(model, heedful.Tagger)
    assert "task tag, family tagger" in repr(model)
    assert "3 labels: B-NP, I-NP, O" in repr(model)
    assert model.labels == LABELS
    assert model.embed(["the dog"]).shape == (1, 16)


def test_a_tagger_that_reads_letters_has_no_vectors_of_texts(tmp_path: Path) -> None:
    model = Tagger(fresh_tagger(tagger_recipe(tmp_path, {"letters": {"family": "convolutional"}})))
    assert len(model.tag("the dogs").labels) == 2
    with refuses("This model reads the letters of words too, without which its encoder has no..."):
        model.embed(["the dog"])


def test_a_tagger_is_trained_on_data_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    rows = [tuple(zip(*sentence, strict=True)) for sentence in tagged_sentences(20)]
    recipe = {
        "tokenizer": {"kind": "word"},
        "model": {"family": "tagger", "encoder": {"family": "recurrent", "width": 8}},
        "train": {"steps": 1, "device": "cpu", "precision": "float32"},
    }
    run = heedful.train(recipe, tmp_path / "run", train=rows, valid=rows[:5])
    assert len(heedful.Tagger.load(run, "cpu").tag([rows[0][0]])[0].labels) == len(rows[0][0])
