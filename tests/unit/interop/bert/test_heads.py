"""From folders of encoders with heads to bundles: recipes and labels, and one line for every other folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tests.shared.refusals import like
from tests.unit.interop.bert.encoder_folders import LABELS, write_encoder
from tests.unit.interop.marian_folders import Change

import heedful
from heedful.base.errors import UserError
from heedful.config.model.encoder_only import BertModel
from heedful.config.model.pooled import ClassifierModel
from heedful.interop.importing import import_model

ENCODER = {
    "family": "bert",
    "width": 16,
    "heads": 4,
    "layers": 2,
    "inner": 24,
    "norm_epsilon": 1e-12,
    "max_positions": 96,
    "next_sentence": False,
    "dropout": 0.25,
    "dropout_attention": 0.125,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BERT that classifies."""
    write_encoder(tmp_path / "theirs", "Bert", "SequenceClassification")
    return tmp_path / "theirs"


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        import_model(folder, folder.parent / "ours")
    assert "\n" not in str(caught.value)
    assert not (folder.parent / "ours").exists()
    return str(caught.value)


def change_tensors(folder: Path, called: Callable[[str], str] = str) -> None:
    """Rename tensors; those that are called nothing are taken away."""
    tensors = {called(name): tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file({name: tensor for name, tensor in tensors.items() if name}, folder / "model.safetensors")


def test_a_classifier_comes_in_with_its_labels(folder: Path, tmp_path: Path) -> None:
    import_model(folder, tmp_path / "ours")
    model = heedful.load(tmp_path / "ours", device="cpu")
    assert isinstance(model, heedful.TextClassifier)
    assert model.labels == LABELS
    encoder = BertModel.model_validate(ENCODER | {"segments": 2})
    assert model.recipe.model == ClassifierModel(family="classifier", encoder=encoder, pooler=True, dropout=0.375)
    assert set(model.classify("the old dog").probabilities) == set(LABELS)


def test_labels_that_are_independent_stay_so(folder: Path, tmp_path: Path, change: Change) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"problem_type": "multi_label_classification"}))
    import_model(folder, tmp_path / "ours")
    model = heedful.load(tmp_path / "ours", device="cpu")
    assert isinstance(model, heedful.TextClassifier)
    assert model.several


@pytest.mark.parametrize(
    ("name", "segments", "epsilon", "head"),
    [("Roberta", 1, 1e-12, {"pooler": True}), ("DistilBert", 0, 1e-12, {"head_hidden": 16})],
)
def test_other_types_are_a_bert_with_other_keys(
    name: str, segments: int, epsilon: float, head: dict[str, Any], tmp_path: Path
) -> None:
    write_encoder(tmp_path / "theirs", name, "SequenceClassification")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    encoder = BertModel.model_validate(ENCODER | {"segments": segments, "norm_epsilon": epsilon})
    found = heedful.load(tmp_path / "ours", device="cpu").recipe.model
    assert found == ClassifierModel(family="classifier", encoder=encoder, dropout=0.375, **head)


def test_a_tagger_and_a_reader_are_used_as_ours(tmp_path: Path) -> None:
    write_encoder(tmp_path / "tags", "Bert", "TokenClassification")
    write_encoder(tmp_path / "reads", "DistilBert", "QuestionAnswering")
    for name in ("tags", "reads"):
        import_model(tmp_path / name, tmp_path / f"our {name}")
    tagger, reader = (heedful.load(tmp_path / f"our {name}", device="cpu") for name in ("tags", "reads"))
    assert isinstance(tagger, heedful.Tagger)
    assert isinstance(reader, heedful.Reader)
    assert set(tagger.tag("the old dog").labels) <= set(LABELS)
    assert reader.answer("what is old?", "the old dog").text in "the old dog"


def test_a_pooler_of_older_taggers_is_left_out(tmp_path: Path) -> None:
    write_encoder(tmp_path / "theirs", "Bert", "TokenClassification")
    path = tmp_path / "theirs/model.safetensors"
    tensors = load_file(path)
    width = tensors["bert.embeddings.LayerNorm.bias"]
    square = tensors["bert.encoder.layer.0.attention.self.query.weight"]
    save_file(tensors | {"bert.pooler.dense.weight": square + 1, "bert.pooler.dense.bias": width + 1}, path)
    import_model(tmp_path / "theirs", tmp_path / "ours")


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_lacking_head_is_refused(folder: Path) -> None:
    change_tensors(folder, lambda name: "" if name == "classifier.weight" else name)
    assert refusal(folder) == like(f"{folder}/model.safetensors lacks `classifier.weight`, which ... copy ...")


def test_another_head_is_refused(folder: Path) -> None:
    change_tensors(folder, lambda name: name.replace("classifier", "other"))
    assert refusal(folder).startswith(f"{folder}/model.safetensors lacks `classifier.weight`")


def test_a_tensor_too_many_is_refused(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"adapter.weight": tensors["classifier.weight"] + 1}, folder / "model.safetensors")
    assert refusal(folder) == like(f"{folder}/model.safetensors has `adapter.weight`, which does not belong ...")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"id2label": {"0": "a", "1": "b"}}, "`classifier.weight` has shape (3, 16), but ... requires (2, 16)."),
        ({"id2label": {"0": "a", "2": "b"}}, "`id2label` must ..."),
        (
            {"id2label": {"0": "a", "1": "a", "2": "b"}},
            "`id2label` names ...",
        ),
        (
            {"problem_type": "regression"},
            "`problem_type` is regression of several numbers, but Heedful predicts one.",
        ),
        ({"classifier_dropout": 2}, "`classifier_dropout` is 2, but must be at least 0 and below 1."),
    ],
)
def test_wrong_values_are_refused(folder: Path, values: dict[str, Any], line: str) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    assert refusal(folder) == like(f"{folder}/...: {line}")


def test_a_roberta_that_answers_questions_is_refused(tmp_path: Path) -> None:
    write_encoder(tmp_path / "theirs", "Roberta", "QuestionAnswering")
    assert refusal(tmp_path / "theirs") == (
        f"{tmp_path}/theirs/config.json: `architectures` is RobertaForQuestionAnswering, but Heedful puts one marker "
        "between a question and its text, and RoBERTa two: import a BERT or DistilBERT that answers questions."
    )


def test_positions_that_end_before_the_first_are_refused(tmp_path: Path) -> None:
    write_encoder(tmp_path / "theirs", "Roberta", "MaskedLM")
    path = tmp_path / "theirs/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": 2}))
    assert refusal(tmp_path / "theirs") == (
        f"{path}: `max_position_embeddings` is 2, but must be more than 2, as positions begin after `pad_token_id`."
    )


def test_a_masked_roberta_of_another_activation_is_refused(tmp_path: Path) -> None:
    write_encoder(tmp_path / "theirs", "Roberta", "MaskedLM", hidden_act="relu")
    assert refusal(tmp_path / "theirs") == (
        f'{tmp_path}/theirs/config.json: `hidden_act` is "relu", but must be "gelu": the head of RoBERTa has this '
        "activation."
    )


@pytest.mark.parametrize(
    ("part", "value", "line"),
    [
        ("decoder", {"type": "Fuse"}, "`decoder` is Fuse, but must be Metaspace, as in XLM-RoBERTa."),
        (
            "model",
            {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"},
            "`model` is WordLevel, but must be Unigram, as in XLM-RoBERTa.",
        ),
    ],
)
def test_other_tokenizers_are_refused(part: str, value: dict[str, Any], line: str, tmp_path: Path) -> None:
    write_encoder(tmp_path / "theirs", "XLMRoberta", "MaskedLM")
    path = tmp_path / "theirs/tokenizer.json"
    added: dict[str, Any] = {"added_tokens": []} if part == "model" else {}
    path.write_text(json.dumps(json.loads(path.read_text()) | {part: value} | added))
    assert refusal(tmp_path / "theirs") == f"{path}: {line}"


def test_weights_of_fewer_layers_are_refused(tmp_path: Path) -> None:
    for name, block in (("Roberta", "roberta.encoder.layer.2"), ("DistilBert", "distilbert.transformer.layer.2")):
        folder = tmp_path / name / "theirs"
        write_encoder(folder, name, "MaskedLM")
        config = json.loads((folder / "config.json").read_text())
        key = "n_layers" if name == "DistilBert" else "num_hidden_layers"
        (folder / "config.json").write_text(json.dumps(config | {key: 3}))
        assert refusal(folder).startswith(f"{folder}/model.safetensors lacks `{block}.")
