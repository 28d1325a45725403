"""Trained classifiers in use, against the network asked for one text at a time."""

import math
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.text import (
    BERT,
    HIERARCHICAL,
    RECURRENT,
    classifier_recipe,
    film_texts,
    fresh_classifier,
    fresh_masked_model,
    masked_recipe,
    written,
)
from tests.shared.refusals import refuses

import heedful
from heedful.base.errors import UserError
from heedful.base.packed import Nested, Packed
from heedful.data.collate import layout_of
from heedful.data.corpora.sentence_splitting import split_sentences
from heedful.data.corpora.texts import Text
from heedful.models.hierarchical import HierarchicalEncoder
from heedful.tasks.classify.model import Classification, TextClassifier, load_classifier
from heedful.tasks.fill.model import MaskFiller
from heedful.tasks.translate.model import Translator

BEGIN, END, LONGEST = 1, 2, 24
HOME = Path("nowhere")
PAIRS = {"train": [{"tsv": "train.tsv", "label": 1, "text": 2, "second": 3}], "valid": [], "test": []}
VALIDATED_BY_LOSS = {"validation": {"metric": "loss"}}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "class token": {"pool": "first", "pooler": True},
    "recurrent": {"encoder": RECURRENT, "pool": "attention"},
    "bert": {"encoder": BERT, "pool": None},
    "hierarchical": {"encoder": HIERARCHICAL, "pool": None},
}


def made(name: str = "transformer", data: Mapping[str, Any] = {}, **model: Any) -> TextClassifier:
    recipe = classifier_recipe(HOME, {**MODELS[name], **model}, data=data, train=VALIDATED_BY_LOSS)
    return TextClassifier(fresh_classifier(recipe, ("bad", "good", "so-so")))


def reviews(count: int = 12) -> list[str]:
    """Of lengths that are not sorted, the longest of which are cut."""
    return [text for _, text in film_texts(count, seed=3)] + ["The film was great . " * 7, "dull"]


def packed(ids: list[int], segments: list[int] | None = None) -> Packed:
    layout = layout_of(np.array([len(ids)]), len(ids))
    return Packed(torch.tensor(ids), layout, None if segments is None else torch.tensor(segments))


@torch.inference_mode()
def naive(classifier: TextClassifier, text: str, second: str | None = None) -> list[float]:
    """The probabilities of one text by itself, read by hand."""
    encode, network = classifier.vocabularies["text"].encode, classifier.network.eval()
    inputs: Packed | Nested
    if isinstance(network.encoder, HierarchicalEncoder):
        sentences, left = [], LONGEST
        for sentence in split_sentences(text):
            ids = encode(sentence)[:left]
            left -= len(ids)
            sentences += [[*ids[begin : begin + 4], END] for begin in range(0, len(ids), 4)]
        lengths = np.array([len(sentence) for sentence in sentences])
        words = Packed(torch.tensor([i for ids in sentences for i in ids]), layout_of(lengths, int(lengths.max())))
        inputs = Nested(words, layout_of(np.array([len(sentences)]), len(sentences)))
    elif second is None:
        inputs = packed([BEGIN, *encode(text)[: LONGEST - 2], END])
    else:
        first, other = encode(text), encode(second)
        while len(first) + len(other) > LONGEST - 3:  # the longer one loses, at its end
            (first if len(first) > len(other) else other).pop()
        inputs = packed([BEGIN, *first, END, *other, END], [0] * (len(first) + 2) + [1] * (len(other) + 1))
    return network(inputs)[0].softmax(0).tolist()


@pytest.mark.parametrize("name", MODELS)
def test_each_text_gets_its_own_answer_whatever_stands_beside_it(name: str) -> None:
    classifier, texts = made(name), reviews()
    found = classifier.classify(texts)
    answers = [list(one.probabilities.values()) for one in found]
    assert answers == [pytest.approx(naive(classifier, text), abs=1e-5) for text in texts]
    assert [one.label for one in found] == [classifier.labels[int(np.argmax(shares))] for shares in answers]
    assert len({tuple(np.round(shares, 4)) for shares in answers}) > 10
    assert [list(one.probabilities) for one in found] == [["bad", "good", "so-so"]] * len(texts)


@pytest.mark.parametrize("name", ["transformer", "bert"])
def test_pairs_are_read_together(name: str) -> None:
    classifier = made(name, PAIRS)
    texts = reviews()
    seconds = [*reversed(texts[1:]), "The plot was flat . " * 3]
    found = classifier.classify(texts, seconds)
    expected = [naive(classifier, text, second) for text, second in zip(texts, seconds, strict=True)]
    assert [list(one.probabilities.values()) for one in found] == [pytest.approx(one, abs=1e-5) for one in expected]
    assert classifier.classify(texts[0], seconds[0]) == classifier.classify(texts[:1], seconds[:1])[0]
    for text, second in ((texts[0], seconds[:1]), (texts[:1], seconds[0])):
        with refuses("`texts` and `seconds` must be one text each, or a list of texts each."):
            classifier.classify(text, second)


@pytest.mark.parametrize("join", ["parallel", "alternating"])
@pytest.mark.parametrize("name", ["transformer", "recurrent", "bert"])
def test_co_attention_joins_pairs_that_are_read_one_by_one(name: str, join: str) -> None:
    classifier = made(name, PAIRS, pool=None, join=join)
    texts = reviews()
    seconds = [*reversed(texts[1:]), "The plot was flat . " * 7]
    found = classifier.classify(texts, seconds)
    encode, network = classifier.vocabularies["text"].encode, classifier.network.eval()
    for one, pair in zip(found, zip(texts, seconds, strict=True), strict=True):
        ids = [[BEGIN, *encode(text)[: LONGEST - 2], END] for text in pair]
        with torch.inference_mode():
            expected = network(Packed.of(ids))[0].softmax(0).tolist()
        assert list(one.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    assert classifier.classify(texts[0], seconds[0]) != classifier.classify(seconds[0], texts[0])
    weights = classifier.weights("The film was great .", "The plot was dull")
    assert [one.pieces for one in weights] == [
        ("<s>", "The", "film", "was", "great", ".", "</s>"), ("<s>", "The", "plot", "was", "dull", "</s>"),
    ]  # fmt: skip
    assert [one.weight for one in weights] == [1, 1]
    assert [sum(one.weights) for one in weights] == pytest.approx([1, 1])
    assert weights != classifier.weights("The film was great .", "The cast was dull")


def test_one_text_has_one_answer_whose_probabilities_sum_to_one() -> None:
    found = made().classify("The film was great .")
    assert isinstance(found, Classification)
    assert found.labels == (found.label,)
    assert sum(found.probabilities.values()) == pytest.approx(1)
    assert found.probabilities[found.label] == max(found.probabilities.values())


@pytest.mark.parametrize("name", ["transformer", "hierarchical"])
def test_a_blank_text_has_no_answer_and_shifts_none(name: str) -> None:
    classifier, texts = made(name), reviews(3)
    found = classifier.classify(["", texts[0], " \t ", texts[1], ""])
    assert [one.probabilities == {} for one in found] == [True, False, True, False, True]
    assert found[0] == Classification((), {})
    assert found[0].label == ""
    assert [found[1].label, found[3].label] == [one.label for one in classifier.classify(texts[:2])]
    assert classifier.classify([]) == []


def test_a_document_without_a_sentence_has_an_answer_too() -> None:
    """`<br />` is no sentence, but it is not blank either."""
    classifier = made("hierarchical")
    alone, beside = classifier.classify("<br />"), classifier.classify(["great", "<br />"])[1]
    assert sum(alone.probabilities.values()) == pytest.approx(1)
    assert list(beside.probabilities.values()) == pytest.approx(list(alone.probabilities.values()), abs=1e-5)
    assert classifier.weights("<br />") == []


@pytest.mark.parametrize("family", ["convolutional", "recurrent"])
def test_letters_tell_unknown_words_of_a_document_apart(family: str) -> None:
    letters = {"family": family, "width": 6, "embedding": 4}
    classifier = made("hierarchical", encoder={**HIERARCHICAL, "letters": letters})
    texts = [f"The film was {word} . It was great ." for word in ("qwxjz", "zjxwq")]
    assert len({classifier.vocabularies["text"].encode(text)[3] for text in texts}) == 1, "both words are unknown"
    one, other = classifier.classify(texts)
    assert one.probabilities != other.probabilities
    plain = made("hierarchical").classify(texts)
    assert plain[0].probabilities == plain[1].probabilities
    alone = classifier.classify(texts[1])
    assert list(alone.probabilities.values()) == pytest.approx(list(other.probabilities.values()), abs=1e-5)
    assert not np.array_equal(*classifier.embed(texts))
    assert len(classifier.weights(texts[0])) == len(made("hierarchical").weights(texts[0]))


def test_several_labels_are_said_where_each_is_more_likely_than_not() -> None:
    classifier = made(labels="several")
    texts = reviews(30)
    found = classifier.classify(texts)
    for text, one in zip(texts, found, strict=True):
        assert list(one.labels) == sorted(
            (label for label, share in one.probabilities.items() if share > 0.5),
            key=lambda label: -one.probabilities[label],
        )
        with torch.inference_mode():
            ids = [BEGIN, *classifier.vocabularies["text"].encode(text)[: LONGEST - 2], END]
            expected = classifier.network.eval()(packed(ids))[0].sigmoid().tolist()
        assert list(one.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    assert {len(one.labels) for one in found} > {1, 2}


def test_texts_take_the_form_of_the_recipe() -> None:
    classifier = made(data={"lowercase": True, "nfc": True})
    plain = "the film was caf\u00e9 ."
    assert classifier.classify(unicodedata.normalize("NFD", plain.upper())) == classifier.classify(plain)
    assert made().classify(plain.upper()) != made().classify(plain)


def test_dropout_is_off_and_stays_off() -> None:
    classifier = made()
    classifier.network.train()
    assert classifier.classify("The film was great .") == classifier.classify("The film was great .")
    assert not classifier.network.training


def test_a_stream_is_answered_in_chunks_and_up_to_its_error() -> None:
    classifier, texts = made(), reviews()
    taken = []

    def arriving() -> Iterator[Text]:
        for text in texts:
            taken.append(text)
            yield Text(text)
        raise UserError("line 15 is broken")

    stream, answers = classifier.stream_texts(arriving(), chunk=5), []
    answers.append(next(stream))
    assert len(taken) == 5
    with refuses("...line 15 is broken..."):
        answers += stream  # what came before the error is appended all the same
    whole = classifier.classify(texts)
    assert [one.label for one in answers] == [one.label for one in whole]
    shares = [list(one.probabilities.values()) for one in whole]
    assert [list(one.probabilities.values()) for one in answers] == [pytest.approx(one, abs=1e-5) for one in shares]
    assert [one.label for one in classifier.stream(iter(texts))] == [one.label for one in whole]


# --- vectors and weights ----------------------------------------------------------------------------------------------


def test_tokens_of_a_text_have_vectors() -> None:
    ((pieces, vectors),) = made().embed("great film", of="tokens")
    assert pieces == ["great", "film"]
    assert vectors.shape == (2, 16)


@pytest.mark.parametrize("name", ["recurrent", "class token"])
def test_a_text_is_weighed_token_by_token(name: str) -> None:
    classifier = made(name)
    (found,) = classifier.weights("The film was great .")
    assert found.pieces == ("<s>", "The", "film", "was", "great", ".", "</s>")
    assert found.weight == 1
    assert sum(found.weights) == pytest.approx(1)
    assert (found.weights == (1.0, *[0.0] * 6)) == (name == "class token")
    assert classifier.weights("  ") == []


def test_a_document_is_weighed_sentence_by_sentence() -> None:
    """The weights are those that make the document's vector of its sentences', and theirs of words'."""
    classifier = made("hierarchical")
    text = "The plot was flat . The cast was great ."
    found = classifier.weights(text)
    assert [one.pieces for one in found] == [
        ("The", "plot", "was", "flat", "</s>"), (".", "</s>"), ("The", "cast", "was", "great", "</s>"), (".", "</s>"),
    ]  # fmt: skip
    assert sum(one.weight for one in found) == pytest.approx(1)
    assert [sum(one.weights) for one in found] == pytest.approx([1] * 4)
    assert len({round(one.weight, 6) for one in found}) > 1
    sentences = classifier.network.encoder
    assert isinstance(sentences, HierarchicalEncoder)
    vectors = []
    with torch.inference_mode():
        classifier.network.eval()
        for one in found:
            ids = classifier.vocabularies["text"].encode(" ".join(one.pieces[:-1]))
            states = sentences.words.encoder(packed([*ids, END])).values
            vectors.append((torch.tensor(one.weights).unsqueeze(1) * states).sum(0))
        states = sentences.sentences(Packed(torch.stack(vectors), layout_of(np.array([4]), 4))).values
        document = (torch.tensor([one.weight for one in found]).unsqueeze(1) * states).sum(0)
        shares = classifier.network.output(document).softmax(0).tolist()
    assert shares == pytest.approx(list(classifier.classify(text).probabilities.values()), abs=1e-5)


# --- loading ----------------------------------------------------------------------------------------------------------


def test_what_is_loaded_follows_from_the_recipe(tmp_path: Path, reversing_folder: Path) -> None:
    classifier = made()
    folder = written(classifier._bundle, tmp_path / "films")
    loaded = heedful.load(folder, device="cpu")
    assert isinstance(loaded, TextClassifier)
    assert loaded.labels == ("bad", "good", "so-so")
    assert loaded.recipe == classifier.recipe
    for found, expected in zip(loaded.classify(reviews()), classifier.classify(reviews()), strict=True):
        assert found.labels == expected.labels
        assert found.probabilities == pytest.approx(expected.probabilities, abs=1e-6)
    assert isinstance(heedful.load(reversing_folder, device="cpu"), Translator)
    masked = written(fresh_masked_model(masked_recipe(HOME)), tmp_path / "masked")
    assert isinstance(heedful.load(masked, device="cpu"), MaskFiller)


def test_a_classifier_can_compute_in_bfloat16(tmp_path: Path) -> None:
    folder = written(made()._bundle, tmp_path / "films")
    exact, rough = (load_classifier(folder, "cpu", precision) for precision in ("auto", "bfloat16"))
    assert exact.network.output.weight.dtype == torch.float32
    assert rough.network.output.weight.dtype == torch.bfloat16
    answers = [list(one.classify("The film was great .").probabilities.values()) for one in (exact, rough)]
    assert answers[1] == pytest.approx(answers[0], abs=0.05)
    assert answers[1] != answers[0]


def test_impossible_wishes_are_refused(tmp_path: Path, reversing_folder: Path) -> None:
    folder = written(made()._bundle, tmp_path / "films")
    with refuses("...films neither translates nor parses, and only such models make an ..."):
        heedful.load(folder, ensemble=[folder])
    with refuses("`gpu` is not a device:..."):
        heedful.load(folder, device="gpu")
    with refuses("`half` is not a precision:..."):
        heedful.load(folder, device="cpu", precision="half")
    with refuses("...is a model that translates: load it with `heedful.Translator.load(..."):
        load_classifier(reversing_folder)
    masked = written(fresh_masked_model(masked_recipe(HOME)), tmp_path / "masked")
    with refuses("...masked is a model that fills masks: load it with `heedful.MaskFiller.load(..."):
        load_classifier(masked)


def test_what_is_not_a_text_is_refused_with_its_line() -> None:
    with refuses("texts, line 2 is None, but must be a text: leave it out, or give an empty..."):
        made().classify(["a", None])  # type: ignore[list-item]
    with refuses("`texts` is 5, but must be a text or a..."):
        made().classify(5)  # type: ignore[call-overload]
    stream = made().stream(["The film was great .", 5])  # type: ignore[list-item]
    assert next(stream).labels
    with refuses("texts, line 2 is 5, but must be a text: convert it with `str()`."):
        next(stream)
    with refuses("seconds, line 1 is None, ..."):
        made(data=PAIRS).classify(["a"], [None])  # type: ignore[list-item]
    with refuses("`poll` is not an option. Did you mean `pool`?", TypeError):
        made().embed("a", poll="max")  # type: ignore[call-overload]


def test_seconds_are_for_models_of_pairs() -> None:
    with refuses("This model reads single..."):
        made().classify(["a"], ["b"])
    paired = made(data=PAIRS)
    with refuses("This model reads pairs of texts: give `seconds`, one per text."):
        paired.classify("a")
    with refuses("2 texts, but 1 second text: each text needs one."):
        paired.classify(["a", "b"], ["c"])
    with refuses("This model reads pairs of texts: use `stream_texts`."):
        paired.stream(["a"])


# --- evaluation -------------------------------------------------------------------------------------------------------


def test_an_evaluation_counts_what_classify_says() -> None:
    classifier = made()
    texts = [Text(text, None, (("bad", "good", "so-so")[number % 3],)) for number, text in enumerate(reviews(40))]
    ready: list[int] = []
    found = classifier.evaluate_rows([Text("  ", None, ("bad",)), *texts], progress=ready.append)
    assert found.blank == 1
    assert sum(ready) == len(found.texts) == len(texts)
    said = classifier.classify([text.text for text in texts])
    assert [one.label for one in found.found] == [one.label for one in said]
    right = sum(one.label == text.labels[0] for one, text in zip(said, texts, strict=True))
    assert found.result.right_texts == right
    losses = [-math.log(one.probabilities[text.labels[0]]) for one, text in zip(said, texts, strict=True)]
    assert found.loss == pytest.approx(sum(losses) / len(losses), abs=1e-4)
    assert found.per_second > 0


def test_texts_that_cannot_be_judged_are_refused() -> None:
    with refuses("films has no text to classify."):
        made().evaluate_rows([Text(" ", None, ("bad",))], name="films")
    message = r"^films has the label `god`, which is not a class of the model\. Did you mean `good`\?$"
    with pytest.raises(UserError, match=message):
        made().evaluate_rows([Text("a", None, ("god",))], name="films")
