"""From a recipe of texts to its tokenizer, its classes and its stores; what is there is not made again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.shared.refusals import refuses

from heedful.base.errors import UserError
from heedful.config.model.pooled import ClassifierModel
from heedful.config.recipe import Recipe
from heedful.data.prepare import texts as module
from heedful.data.prepare.prepared import Prepared
from heedful.data.prepare.texts import texts_of
from heedful.data.token_store import TokenStore
from heedful.data.tokenize import training as tokenizer_training
from heedful.data.tokenize.tokenizer import MASK, Tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies


def prepare_texts(
    recipe: Recipe, say: Callable[[str], None] = lambda message: None, given: Vocabularies | None = None
) -> Prepared:
    """As the tasks of the two families ask for it."""
    if isinstance(recipe.model, ClassifierModel):
        return module.prepare_texts(recipe, say, given, labelled=recipe.model.labels, documents=recipe.model.nested)
    return module.prepare_texts(recipe, say, given, documents=True, mask=True)


CLASSIFIER = {"family": "classifier"}
BERT = {"family": "bert", "preset": "tiny"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "train.tsv").write_text("pos\tgood Film\nneg\tbad film\n\npos\tgood . Very good\n")
    (tmp_path / "valid.tsv").write_text("neg\tbad bad\n")
    (tmp_path / "several.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in ({"t": "a b", "l": ["x", "y"]}, {"t": "c", "l": []}))
    )
    (tmp_path / "pairs.tsv").write_text("yes\tone\ttwo words\nno\tthree\tfour\n")
    (tmp_path / "text.txt").write_text("One two . Three\n\nFour\n")
    return tmp_path


class Said(list[str]):
    """Collects progress."""

    def __call__(self, message: str) -> None:
        self.append(message)


def recipe(
    folder: Path, model: dict[str, Any], train: Any, tokenizer: dict[str, Any] | None = None, **data: Any
) -> Recipe:
    return Recipe.model_validate(
        {
            "data": {"folder": str(folder), "train": train, **data},
            "tokenizer": tokenizer or {"kind": "word"},
            "model": model,
        }
    )


def reviews(folder: Path, **data: Any) -> Recipe:
    valid = {"tsv": "valid.tsv", "text": 2, "label": 1}
    return recipe(folder, CLASSIFIER, {"tsv": "train.tsv", "text": 2, "label": 1}, valid=valid, **data)


def texts(prepared: Prepared, store: TokenStore, stream: str = "text") -> list[str]:
    return [
        prepared.vocabularies["text"].decode(store.sentence(stream, number).tolist()) for number in range(len(store))
    ]


def vocabulary(tokenizer: Tokenizer) -> set[str]:
    return {piece for piece in tokenizer.pieces(range(tokenizer.markers, tokenizer.size)) if piece}


# --- what is prepared -------------------------------------------------------------------------------------------------


def test_texts_come_tokenized_with_their_classes(files: Path) -> None:
    prepared = prepare_texts(reviews(files))
    (train,), (valid,) = prepared.train, prepared.valid
    assert list(prepared.vocabularies.tokenizers) == ["text"]
    assert prepared.vocabularies.labels == ("neg", "pos")
    assert texts(prepared, train) == ["good Film", "bad film", "good . Very good"]
    assert train.streams["label"].values.tolist() == [1, 0, 1]
    assert texts(prepared, valid) == ["bad bad"]
    assert prepared.weights == (1.0,)
    assert prepared.vocabularies["text"].mask is None
    assert vocabulary(prepared.vocabularies["text"]) == {"good", "Film", "bad", "film", ".", "Very"}


def test_both_texts_of_a_pair_train_the_tokenizer(files: Path) -> None:
    made = recipe(files, CLASSIFIER, {"tsv": "pairs.tsv", "text": 2, "second": 3, "label": 1})
    prepared = prepare_texts(made)
    assert vocabulary(prepared.vocabularies["text"]) == {"one", "two", "words", "three", "four"}
    assert texts(prepared, prepared.train[0], "second") == ["two words", "four"]


def test_several_labels_of_a_text_are_no_hindrance_to_its_tokenizer(files: Path) -> None:
    made = recipe(files, CLASSIFIER | {"labels": "several"}, {"jsonl": "several.jsonl", "text": "t", "label": "l"})
    prepared = prepare_texts(made)
    assert prepared.vocabularies.labels == ("x", "y")
    assert prepared.train[0].streams["label"].lengths().tolist() == [2, 0]


def test_documents_of_a_hierarchical_model_have_sentences(files: Path) -> None:
    made = recipe(
        files, CLASSIFIER | {"encoder": {"family": "hierarchical"}}, {"tsv": "train.tsv", "text": 2, "label": 1}
    )
    (store,) = prepare_texts(made).train
    assert store.streams["sentences"].lengths().tolist() == [1, 1, 2]
    assert set(store.streams) == {"text", "sentences", "label"}


@pytest.mark.parametrize(
    "corpus",
    [{"text": "text.txt"}, {"tsv": "pairs.tsv", "text": 2, "second": 3}, {"jsonl": "several.jsonl", "text": "t"}],
)
def test_a_masked_model_has_documents_without_classes_and_a_vocabulary_with_a_mask(
    files: Path, corpus: dict[str, Any]
) -> None:
    prepared = prepare_texts(recipe(files, BERT, corpus))
    assert prepared.vocabularies.labels == ()
    assert set(prepared.train[0].streams) == {"text", "sentences"}
    assert prepared.vocabularies["text"].mask == 4
    assert prepared.vocabularies["text"].pieces([4]) == [MASK]
    assert prepared.vocabularies["text"].markers == 5


def test_labels_of_texts_are_no_matter_to_a_masked_model(files: Path) -> None:
    corpus = {"jsonl": "several.jsonl", "text": "t", "label": "l"}
    assert len(prepare_texts(recipe(files, BERT, corpus)).train[0]) == 2


def test_the_form_of_text_is_that_of_the_vocabulary_too(files: Path) -> None:
    prepared = prepare_texts(reviews(files, lowercase=True))
    assert vocabulary(prepared.vocabularies["text"]) == {"good", "bad", "film", ".", "very"}
    assert texts(prepared, prepared.train[0])[0] == "good film"


def test_corpora_are_weighted_by_their_size_at_a_temperature(files: Path) -> None:
    corpora = [{"tsv": "train.tsv", "text": 2, "label": 1}, {"tsv": "valid.tsv", "text": 2, "label": 1, "weight": 2.0}]
    prepared = prepare_texts(recipe(files, CLASSIFIER, corpora, temperature=2))
    assert prepared.weights == pytest.approx((1.0, 2 * 3**0.5))


# --- what is given, or there already ----------------------------------------------------------------------------------


def test_a_vocabulary_and_classes_that_are_given_are_kept(files: Path) -> None:
    other = prepare_texts(recipe(files, BERT, {"text": "text.txt"})).vocabularies["text"]
    prepared = prepare_texts(reviews(files), given=Vocabularies({"text": other}, ("pos", "neutral", "neg")))
    assert prepared.vocabularies["text"] is other
    assert prepared.vocabularies.labels == ("pos", "neutral", "neg")
    assert prepared.train[0].streams["label"].values.tolist() == [0, 2, 0]


def test_all_is_made_once(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, said = prepare_texts(reviews(files)), Said()

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(tokenizer_training, "train_tokenizer", forbidden)
    again = prepare_texts(reviews(files, batch_tokens=50, max_length=9, cut="start"), said)
    assert said == ["train.tsv: 3 texts, 1 empty", "valid.tsv: 1 text"]
    assert again.vocabularies["text"].fingerprint == first.vocabularies["text"].fingerprint
    assert [store.key for store in again.train] == [store.key for store in first.train]


def test_a_masked_model_and_a_classifier_have_tokenizers_of_their_own_on_the_same_texts(files: Path) -> None:
    corpus = {"tsv": "train.tsv", "text": 2, "label": 1}
    both = [prepare_texts(recipe(files, model, corpus)).vocabularies["text"] for model in (CLASSIFIER, BERT)]
    assert [tokenizer.mask for tokenizer in both] == [None, 4]


# --- the sample of texts ----------------------------------------------------------------------------------------------


def test_a_tokenizer_is_trained_on_so_many_texts_at_equal_distances(files: Path) -> None:
    (files / "many.tsv").write_text("".join(f"{'ab'[n % 2]}\tword{n}\n" for n in range(100)))
    corpus = {"tsv": "many.tsv", "text": 2, "label": 1}
    made = recipe(files, CLASSIFIER, corpus, tokenizer={"kind": "word", "sample": 5})
    said = Said()
    trained = prepare_texts(made, said).vocabularies["text"]
    assert vocabulary(trained) == {f"word{number}" for number in (19, 39, 59, 79, 99)}
    assert said[0] == "training the tokenizer: word, 50,000 pieces, on 5 of 100 texts (`tokenizer.sample`)"
    prepare_texts(recipe(files, CLASSIFIER, corpus), said)
    assert "training the tokenizer: word, 50,000 pieces" in said


def test_a_sample_counts_every_sentence_of_running_text_and_every_text_of_a_pair(files: Path) -> None:
    plain = recipe(files, BERT, {"text": "text.txt"})
    assert list(texts_of(plain.data.train[0], plain)) == ["One two .", "Three", "Four"]
    paired = {"tsv": "pairs.tsv", "text": 2, "second": 3, "label": 1}
    pairs = recipe(files, CLASSIFIER, paired)
    assert list(texts_of(pairs.data.train[0], pairs)) == ["one", "two words", "three", "four"]


# --- what is refused, or told -----------------------------------------------------------------------------------------


def test_a_label_of_validation_that_no_training_text_has_is_refused(files: Path) -> None:
    (files / "valid.tsv").write_text("neutral\tbad\n")
    message = (
        r"^valid.tsv, line 1 has the label `neutral`, which no text of `data.train` has: correct it, or add such texts "
        r"there\. Known: neg, pos\.$"
    )
    with pytest.raises(UserError, match=message):
        prepare_texts(reviews(files))


def test_no_text_at_all_is_refused(files: Path) -> None:
    (files / "train.tsv").write_text("\n\n")
    message = "There is no text to ... tokenizer on in {}: all texts are blank."
    with refuses(message.format("train.tsv")):
        prepare_texts(reviews(files))
    (files / "text.txt").write_text("\n\n")
    with refuses(message.format("text.txt")):
        prepare_texts(recipe(files, BERT, {"text": "text.txt"}))


def test_a_missing_file_is_refused_before_anything_is_read(files: Path) -> None:
    (files / "valid.tsv").unlink()
    said = Said()
    with refuses("...valid.tsv: no such file..."):
        prepare_texts(reviews(files), said)
    assert said == []


def test_a_missing_test_set_is_told_and_no_hindrance(files: Path) -> None:
    said = Said()
    prepare_texts(reviews(files, test={"tsv": "test.tsv", "text": 2, "label": 1}), said)
    assert said[0].startswith("`data.test`: ")
    assert said[0].endswith("Training does not need it, but `heedful evaluate` will.")
