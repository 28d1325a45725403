"""Encoders with heads go to `transformers`, answer alike, and come back with equal weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared.refusals import like, refuses
from tests.unit.interop.bert.bert_folders import MARKERS
from tests.unit.interop.bert.encoder_folders import write_encoder
from tests.unit.interop.written.tiny_models import (
    ENCODER,
    LABELS,
    TEXTS,
    assert_equal,
    make_model,
    there_and_back,
    tiny_recipe,
    weights_of,
)
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, pipeline

import heedful
from heedful.base.errors import UserError
from heedful.data.tokenize.own_tokenizer import OwnTokenizer
from heedful.interop.exports.exporting import export_model
from heedful.interop.exports.formats import FORMATS
from heedful.interop.importing import import_model
from heedful.interop.tensors import write_pairs
from heedful.interop.transformers.encoders import writing
from heedful.models.bundle import read_bundle
from heedful.models.networks import MaskedModel

SINGLE = ENCODER | {"segments": 1, "next_sentence": False}
NONE = ENCODER | {"segments": 0, "next_sentence": False}


def on(family: str, encoder: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"family": family, "encoder": encoder, **keys}


VARIANTS: dict[str, tuple[str, dict[str, Any], str]] = {  # class of theirs, our model, tokenizer
    **{f"BERT of {kind}": ("BertForPreTraining", ENCODER, kind) for kind in ("wordpiece", "bpe", "word", "char")},
    "BERT without next sentences": ("BertForMaskedLM", ENCODER | {"next_sentence": False}, "byte_bpe"),
    "BERT, relu": ("BertForMaskedLM", SINGLE | {"activation": "relu"}, "byte_bpe"),
    "BERT that classifies": ("BertForSequenceClassification", on("classifier", ENCODER, pooler=True), "wordpiece"),
    "BERT with several labels": (
        "BertForSequenceClassification",
        on("classifier", ENCODER, pooler=True, labels="several"),
        "wordpiece",
    ),
    "BERT that tags": ("BertForTokenClassification", on("tagger", ENCODER), "wordpiece"),
    "BERT that reads": ("BertForQuestionAnswering", on("reader", ENCODER, dropout=0.0), "unigram"),
    "RoBERTa": ("RobertaForMaskedLM", SINGLE, "byte_bpe"),
    "RoBERTa that classifies": (
        "RobertaForSequenceClassification",
        on("classifier", SINGLE, pooler=True),
        "byte_bpe",
    ),
    "RoBERTa that tags": ("RobertaForTokenClassification", on("tagger", SINGLE), "byte_bpe"),
    "XLM-RoBERTa": ("XLMRobertaForMaskedLM", SINGLE, "unigram"),
    "XLM-RoBERTa that classifies": (
        "XLMRobertaForSequenceClassification",
        on("classifier", SINGLE, pooler=True),
        "unigram",
    ),
    "XLM-RoBERTa that tags": ("XLMRobertaForTokenClassification", on("tagger", SINGLE), "unigram"),
    "DistilBERT": ("DistilBertForMaskedLM", NONE, "wordpiece"),
    "DistilBERT that classifies": (
        "DistilBertForSequenceClassification",
        on("classifier", NONE, head_hidden=16),
        "wordpiece",
    ),
    "DistilBERT that tags": ("DistilBertForTokenClassification", on("tagger", NONE), "wordpiece"),
    "DistilBERT that reads": ("DistilBertForQuestionAnswering", on("reader", NONE), "wordpiece"),
}


@pytest.mark.parametrize(("name", "model", "pieces"), VARIANTS.values(), ids=list(VARIANTS))
def test_a_model_answers_alike_and_comes_back_with_equal_weights(
    name: str, model: dict[str, Any], pieces: str, tmp_path: Path
) -> None:
    folder = make_model(tmp_path / "ours", model, pieces)
    exported, back = there_and_back(folder, tmp_path)
    assert exported.comparison is not None
    assert exported.comparison.count > 20
    assert json.loads((tmp_path / "theirs/config.json").read_text())["architectures"] == [name]
    assert_equal(back, weights_of(folder))


def test_pairs_of_texts_have_segments_of_their_own(tmp_path: Path) -> None:
    data = {"train": {"tsv": "x.tsv", "text": 1, "second": 2, "label": 3}}
    folder = make_model(tmp_path / "ours", on("classifier", ENCODER, pooler=True), data=data)
    exported = export_model(folder, "transformers", tmp_path / "theirs")
    assert exported.comparison is not None
    assert exported.comparison.count > 20
    given = AutoTokenizer.from_pretrained(tmp_path / "theirs")("a dog", "the house")
    ours = heedful.load(folder, device="cpu").vocabularies["text"]
    first, second = ours.encode("a dog"), ours.encode("the house")
    assert given["input_ids"] == [1, *first, 2, *second, 2]
    assert given["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_texts_are_brought_into_the_form_of_the_recipe(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", ENCODER, data={"lowercase": True, "nfc": True})
    texts = ["ÜBER den Wolken", "u\u0308ber", "ΣΙΣΥΦΟΣ Σ", "NEVER"]
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    export_model(folder, "transformers", tmp_path / "theirs", samples=tmp_path / "lines.txt")


def test_a_regressor_predicts_in_the_unit_of_its_numbers(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", on("regressor", ENCODER, pooler=True))
    export_model(folder, "transformers", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "back")
    asked = pipeline("text-classification", model=str(tmp_path / "theirs"), device="cpu", function_to_apply="none")
    for text in TEXTS:
        number = heedful.TextRegressor.load(folder, device="cpu").regress(text)
        assert asked(text)[0]["score"] == pytest.approx(number, abs=1e-4)
        assert heedful.TextRegressor.load(tmp_path / "back", device="cpu").regress(text) == pytest.approx(
            number, abs=1e-4
        )
    first = weights_of(tmp_path / "back")
    _, again = there_and_back(tmp_path / "back", tmp_path / "twice")
    assert_equal(again, first)


def test_two_classes_that_share_a_score_get_one_each(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", on("classifier", ENCODER, pooler=True, one_score=True), labels=("no", "yes"))
    exported, back = there_and_back(folder, tmp_path)
    assert exported.comparison is not None
    assert torch.equal(back["output.weight"][1:] - back["output.weight"][:1], weights_of(folder)["output.weight"])


@pytest.mark.parametrize("head", ["MaskedLM", "SequenceClassification", "TokenClassification"])
@pytest.mark.parametrize("name", ["Bert", "Roberta", "XLMRoberta", "DistilBert"])
def test_what_was_imported_goes_back_as_its_type(name: str, head: str, tmp_path: Path) -> None:
    """The rows of its matrices are then in our order; texts become the same pieces."""
    write_encoder(tmp_path / "first", name, head)
    import_model(tmp_path / "first", tmp_path / "ours")
    _, back = there_and_back(tmp_path / "ours", tmp_path)
    assert_equal(back, weights_of(tmp_path / "ours"))
    first, second = (json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("first", "theirs"))
    assert (second["architectures"], second["model_type"]) == (first["architectures"], first["model_type"])
    markers = dict(zip(MARKERS, ("<pad>", "<s>", "</s>", "<unk>", "<mask>"), strict=True))
    tokenizers = [Library.from_file(str(tmp_path / folder / "tokenizer.json")) for folder in ("first", "theirs")]
    for text in TEXTS:
        read, written = (tokenizer.encode(text).tokens for tokenizer in tokenizers)
        assert [markers.get(piece, piece) for piece in read] == written


# --- pipelines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", ["wordpiece", "byte_bpe", "unigram", "word"])
def test_a_pipeline_fills_masks_as_the_original(pieces: str, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", ENCODER, pieces)
    export_model(folder, "transformers", tmp_path / "theirs")
    asked, model = (
        pipeline("fill-mask", model=str(tmp_path / "theirs"), device="cpu"),
        heedful.MaskFiller.load(folder, device="cpu"),
    )
    for text in ("the old <mask> was sold", "<mask> dog ran away!", "Never say <mask>"):
        found = [candidate.token for candidate in model.fill(text, top=5).masks[0]]
        said = [answer["token"] for answer in asked(text, top_k=10) if answer["token"] > 4]
        assert said[: len(found)] == found


def test_a_pipeline_classifies_as_the_original(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", on("classifier", ENCODER, pooler=True), "byte_bpe")
    export_model(folder, "transformers", tmp_path / "theirs")
    asked = pipeline("text-classification", model=str(tmp_path / "theirs"), device="cpu", top_k=None)
    for text in ("the </s> dog <s>", TEXTS[0]):
        wanted = heedful.TextClassifier.load(folder, device="cpu").classify(text).probabilities
        assert {each["label"]: each["score"] for each in asked([text])[0]} == pytest.approx(wanted, abs=1e-5)


def test_a_pipeline_tags_words_as_the_original(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", on("tagger", ENCODER))
    export_model(folder, "transformers", tmp_path / "theirs")
    asked = pipeline("token-classification", model=str(tmp_path / "theirs"), device="cpu", ignore_labels=[])
    text, starts = "old dog ran away", []
    for word in text.split():
        starts.append(text.index(word))
    found = {each["start"]: each["entity"] for each in asked(text)}
    assert tuple(found[start] for start in starts) == heedful.Tagger.load(folder, device="cpu").tag(text).labels


def test_a_reader_is_opened_as_its_card_says(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", on("reader", ENCODER, dropout=0.0))
    export_model(folder, "transformers", tmp_path / "theirs")
    card = (tmp_path / "theirs/README.md").read_text()
    assert "pipeline_tag: question-answering" in card
    assert "AutoModelForQuestionAnswering" in card
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    scores = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "theirs")(
        **tokenizer("what was sold?", "the old house", return_tensors="pt")
    )
    assert scores.start_logits.shape == scores.end_logits.shape


def test_a_card_has_a_program_and_no_path(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", on("classifier", ENCODER, pooler=True))
    export_model(folder, "transformers", tmp_path / "theirs")
    card = (tmp_path / "theirs/README.md").read_text()
    assert 'pipeline("text-classification", model="this folder")' in card
    assert not any(str(tmp_path) in path.read_text(errors="replace") for path in (tmp_path / "theirs").iterdir())


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "key", "why"),
    [
        (ENCODER | {"norm": "pre"}, "model.norm", 'in BERT it is "post", but here it is "pre"'),
        (ENCODER | {"positions": "rope"}, "model.positions", 'in BERT it is "learned", but here it is "rope"'),
        (ENCODER | {"embedding_scale": True}, "model.embedding_scale", "in BERT it is false, but here it is true"),
        (ENCODER | {"embedding_norm": False}, "model.embedding_norm", "in BERT it is true, but here it is false"),
        (ENCODER | {"norm_kind": "rms"}, "model.norm_kind", 'in BERT it is "layer", but here it is "rms"'),
        (ENCODER | {"alignment": "dot"}, "model.alignment", 'in BERT it is "scaled_dot", but here it is "dot"'),
        (
            ENCODER | {"activation": "swiglu"},
            "model.activation",
            'in BERT it is "gelu", "gelu_tanh", "relu" or "silu", but here it is "swiglu"',
        ),
        (
            on("classifier", ENCODER),
            "model.pooler",
            "in BERT it is true, but here it is false",
        ),
        (
            on("classifier", ENCODER, pooler=True, pool="mean"),
            "model.pool",
            'in BERT it is "first", but here it is another',
        ),
        (
            on("classifier", {"family": "recurrent"}),
            "model.encoder.family",
            'transformers has encoders like "bert" only, not like "recurrent"',
        ),
        (on("tagger", ENCODER, crf=True), "model.crf", "in BERT it is false, but here it is true"),
        (on("reader", ENCODER, head_hidden=8), "model.head_hidden", "in BERT there is none, but here it is 8"),
        (
            on("tagger", ENCODER, letters={"family": "convolutional", "width": 8}),
            "model.letters",
            "in BERT there is none, but here it is a table",
        ),
    ],
)
def test_what_no_encoder_of_transformers_has_is_refused(model: dict[str, Any], key: str, why: str) -> None:
    assert FORMATS["transformers"].refusals(tiny_recipe(model)) == [(key, why)]


def test_a_text_that_is_cut_in_its_middle_is_refused() -> None:
    recipe = tiny_recipe(on("classifier", ENCODER, pooler=True), data={"cut": "middle"})
    why = "transformers cuts texts at their start or end, and not in the middle"
    assert FORMATS["transformers"].refusals(recipe) == [("data.cut", why)]


def test_a_tokenizer_of_the_callers_program_is_refused(tmp_path: Path) -> None:
    library = Library(models.WordLevel({"old": 0, "dog": 1, "<unk>": 2}, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model = on("classifier", ENCODER, pooler=True)
    folder = make_model(tmp_path / "ours", model, tokenizer=OwnTokenizer(library))
    with refuses(
        "The model has a tokenizer of the program that trained it, which transformers cannot hold: export a model "
        "with a tokenizer of Heedful."
    ):
        export_model(folder, "transformers", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_a_wrong_export_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a matrix, of the order of labels, of the first position: each changes answers."""
    folder = make_model(tmp_path / "ours", on("classifier", SINGLE, pooler=True), "byte_bpe")
    whole = write_pairs

    def swapped(pairs: Any, weights: Any) -> dict[str, Tensor]:
        tensors = whole(pairs, weights)
        one, other = (f"roberta.encoder.layer.1.attention.self.{part}.weight" for part in ("query", "value"))
        return tensors | {one: tensors[other], other: tensors[one]}

    monkeypatch.setattr(writing, "write_pairs", swapped)
    with pytest.raises(UserError) as caught:
        export_model(folder, "transformers", tmp_path / "theirs")
    assert str(caught.value) == like(f"{folder} answers differently in transformers: ...")
    monkeypatch.undo()
    monkeypatch.setattr(writing, "label_entries", lambda labels: {"id2label": dict(enumerate(reversed(labels)))})
    export_model(folder, "transformers", tmp_path / "labels")  # names are no part of scores
    monkeypatch.setattr(writing, "_first", lambda kind: 2)
    with pytest.raises(UserError):
        export_model(folder, "transformers", tmp_path / "positions")


def test_a_masked_model_that_comes_back_fills_masks(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "ours", ENCODER, "unigram")
    there_and_back(folder, tmp_path)
    assert read_bundle(tmp_path / "back", MaskedModel).recipe.tokenizer.kind == "unigram"
    text = "the old <mask> was sold"
    first, second = (heedful.MaskFiller.load(path, device="cpu").fill(text) for path in (folder, tmp_path / "back"))
    assert [each.token for each in first.masks[0]] == [each.token for each in second.masks[0]]
    assert LABELS
