"""Graphs for ONNX Runtime and `torch.export`: equal answers of every kind of model, refusals, programs of cards."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from _pytest.mark import ParameterSet
from benchmarks.interop.random_models import random_recipe, write_random_model
from tests.shared.refusals import refuses
from tests.unit.interop.exports.programs import run_program
from torch import nn

from heedful.base.packed import Packed
from heedful.interop.exports.comparison import Comparison
from heedful.interop.exports.exporting import export_model
from heedful.interop.exports.formats import FORMATS, Refusal
from heedful.interop.graphs.modules import pool_rows
from heedful.models.bundle import read_bundle
from heedful.nn.layers.pooling import POOLS
from heedful.tasks.loading import load

TINY = {"family": "transformer", "width": 16, "heads": 2, "layers": 1, "inner": 24}
BERT = {**TINY, "family": "bert", "max_positions": 300}
VIT = {**TINY, "family": "vit", "patch": 4, "grid": 4}
Kind = tuple[str, dict[str, Any]]  # a task and a [model] table
TRANSLATOR: Kind = ("translate", TINY)
CLASSIFIER: Kind = ("classify", {"family": "classifier", "encoder": BERT, "pool": "mean", "pooler": True})
TAGGER: Kind = ("tag", {"family": "tagger", "encoder": TINY, "head_hidden": 5})
LANGUAGE: Kind = ("generate", {"family": "language", "decoder": TINY})
VISION: Kind = ("classify_images", {"family": "image_classifier", "encoder": VIT})
KINDS: Mapping[str, Kind] = {
    "translator": TRANSLATOR,
    "language": LANGUAGE,
    "classifier": CLASSIFIER,
    "tagger": TAGGER,
    "vit": VISION,
    "several-labels": ("classify", {"family": "classifier", "encoder": TINY, "pool": "max", "labels": "several"}),
    "regressor": ("regress", {"family": "regressor", "encoder": {**TINY, "positions": "rope"}, "pool": "attention"}),
    "reader": ("answer", {"family": "reader", "encoder": {**TINY, "segments": 2}}),
    "bert": ("fill", BERT),
    "image-regressor": (
        "regress_images",
        {"family": "image_regressor", "encoder": {**VIT, "class_token": False, "positions": "sinusoidal"}},
    ),
    "translator-radius-uneven": (
        "translate",
        {**TINY, "attention_radius": 2, "positions": "rope", "key_width": 8, "value_width": 4, "norm": "rezero"},
    ),
    "language-alibi-shared": (
        "generate",
        {"family": "language", "decoder": {**TINY, "heads": 4, "key_value_heads": 2, "positions": "alibi"}},
    ),
}
# In every run; the others, which take seconds each, are wide, and in benchmarks.interop.export.
QUICK = {"torch": ("language-alibi-shared", "classifier", "vit"), "onnx": ("tagger",), "card": ()}


def some(to: str, kinds: Iterable[str] = KINDS) -> list[ParameterSet]:
    return [pytest.param(kind, marks=() if kind in QUICK[to] else pytest.mark.wide) for kind in kinds]


def exported(kind: Kind, to: str, tmp_path: Path, **tables: Any) -> Comparison:
    found = export_model(write_random_model(tmp_path / "model", kind[0], model=kind[1], **tables), to, tmp_path / "out")
    assert found.comparison is not None
    return found.comparison


@pytest.mark.parametrize("kind", some("torch"))
def test_programs_of_torch_answer_as_the_model_did(kind: str, tmp_path: Path) -> None:
    found = exported(KINDS[kind], "torch", tmp_path)
    assert (found.count, found.unequal, found.difference < 1e-4) == (32, 0, True)


def test_a_program_of_torch_holds_no_pickle(tmp_path: Path) -> None:
    exported(KINDS["classifier"], "torch", tmp_path)
    (file,) = (tmp_path / "out").glob("*.pt2")
    with ZipFile(file) as archive:
        inside = {one.filename.partition("/")[2]: archive.read(one) for one in archive.infolist()}
    assert inside["data/sample_inputs/model.pt"] == b""
    assert not any(content[:2] in (b"PK", b"\x80\x02") or name.endswith(".pkl") for name, content in inside.items())


@pytest.mark.parametrize("kind", some("onnx"))
def test_onnx_runtime_answers_as_the_model_did(kind: str, tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    found = exported(KINDS[kind], "onnx", tmp_path)
    assert (found.count, found.unequal, found.difference < 1e-4) == (32, 0, True)
    assert run_program(tmp_path / "out").count("\n") >= 1


@pytest.mark.parametrize("kind", some("card", ("translator", "language", "bert", "vit")))
def test_the_card_of_torch_has_a_program_that_runs(kind: str, tmp_path: Path) -> None:
    task, model = KINDS[kind]
    languages = ["de", "fr"] if kind == "translator" else []
    folder = write_random_model(tmp_path / "model", task, model=model, languages=languages)
    export_model(folder, "torch", tmp_path / "out")
    assert run_program(tmp_path / "out").count("\n") >= 1


@pytest.mark.wide
@pytest.mark.parametrize("to", ["torch", "ctranslate2"])
def test_targets_that_begin_with_a_tag_do_so_in_other_libraries(to: str, tmp_path: Path) -> None:
    if to == "ctranslate2":
        pytest.importorskip(to)
    train = [{"source": "no.en", "target": f"no.{to}", "to": to} for to in ("de", "fr")]
    data = {"train": train, "target_tags": True}
    model = write_random_model(tmp_path / "model", "translate", model=TINY, data=data, languages=["de", "fr"])
    assert export_model(model, to, tmp_path / "out").comparison is not None
    assert run_program(tmp_path / "out").count("\n") == 1


@pytest.mark.wide
def test_the_program_of_a_classifier_scores_as_heedful_does(tmp_path: Path) -> None:
    model = {"family": "classifier", "encoder": BERT}
    folder = write_random_model(tmp_path / "model", "classify", model=model, data={"lowercase": True})
    export_model(folder, "torch", tmp_path / "out")
    assert "Texts must be brought into their form first: lower case." in (tmp_path / "out/README.md").read_text()
    labels, _, scores = run_program(tmp_path / "out").partition("]")
    loaded: Any = load(folder, "cpu")
    said = loaded.classify("a text")
    found = torch.tensor([float(each) for each in scores.strip(" []\n").split()]).softmax(0)
    expected = [said.probabilities[label] for label in json.loads((tmp_path / "out/labels.json").read_text())]
    assert labels == "['bad', 'fair', 'good'"
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", POOLS)
def test_pools_of_rows_are_those_of_packed_texts(name: str) -> None:
    pool, rows = POOLS[name](6), [torch.randn(length, 6) for length in (3, 1, 5)]
    packed = Packed.join(rows)
    padded, keep = (
        nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=9.0),
        torch.zeros(3, 5, dtype=torch.bool),
    )
    for number, row in enumerate(rows):
        keep[number, : len(row)] = True
    torch.testing.assert_close(pool_rows(pool, padded, keep), pool(packed.values, packed.layout))


@pytest.mark.wide
def test_images_of_one_size_that_is_set_are_read_by_convolutions(tmp_path: Path) -> None:
    kind: Kind = (
        "classify_images",
        {"family": "image_classifier", "encoder": {"family": "convolutional", "width": 16}},
    )
    found = exported(kind, "torch", tmp_path, data={"images": {"height": 16, "width": 12}})
    assert (found.count, found.unequal, found.difference < 1e-4) == (32, 0, True)
    assert "Images have 16 x 12 pixels." in (tmp_path / "out/README.md").read_text()


@pytest.mark.wide
def test_a_program_reads_any_number_of_rows_of_any_length(tmp_path: Path) -> None:
    exported(TAGGER, "torch", tmp_path)
    graph = torch.export.load(tmp_path / "out/model.pt2").module()
    network: Any = read_bundle(tmp_path / "model", nn.Module).model
    for rows, length in ((1, 1), (3, 1), (1, 200), (2, 2)):
        ids = torch.randint(4, 20, (rows, length))
        expected = network.output(network.hidden(network.encoder(Packed.of(ids.tolist())).values))
        found = graph(ids=ids, mask=torch.ones_like(ids, dtype=torch.bool))
        torch.testing.assert_close(found.flatten(0, 1), expected, rtol=1e-4, atol=1e-5)


def test_without_the_package_that_writes_onnx_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.interop.onnx.writing.find_spec", lambda package: None)
    with refuses("Writing ONNX needs onnx and onnxscript: `pip install onnx onnxscript onnxruntime`."):
        exported(CLASSIFIER, "onnx", tmp_path)


OTHER = "only Transformers and networks of images are exported as graphs, and this is"
PLAIN = "only a softmax of scaled dot products is exported"
REFUSED: Mapping[str, tuple[str, dict[str, Any], str, str]] = {
    "recurrent": ("translate", {"family": "recurrent"}, "model.family", f"{OTHER} recurrent"),
    "convolutions": (
        "translate",
        {**TINY, "encoder_layer": "separable", "norm": "pre"},
        "model.encoder_layer",
        "convolutions over packed tokens are not exported",
    ),
    "words": ("translate", {**TINY, "word_positions": True}, "model.word_positions", "a graph does not count words"),
    "cross": (
        "translate",
        {**TINY, "cross_attention": {"distribution": "entmax15"}},
        "model.cross_attention.distribution",
        PLAIN,
    ),
    "bert": ("fill", {**BERT, "alignment": "additive"}, "model.alignment", PLAIN),
    "language": (
        "generate",
        {"family": "language", "decoder": {"family": "recurrent"}},
        "model.decoder.family",
        f"{OTHER} recurrent",
    ),
    "decoder": (
        "generate",
        {"family": "language", "decoder": {**TINY, "choice": "hard"}},
        "model.decoder.choice",
        PLAIN,
    ),
    "encoder": (
        "classify",
        {"family": "classifier", "encoder": {"family": "bag"}},
        "model.encoder.family",
        f"{OTHER} bag",
    ),
    "join": (
        "classify",
        {"family": "classifier", "encoder": TINY, "join": "parallel"},
        "model.join",
        "texts that are read one by one are no graph of one sequence",
    ),
    "pool": (
        "classify",
        {"family": "classifier", "encoder": TINY, "pool": {"alignment": "additive"}},
        "model.pool",
        "a pool that attends by an alignment is not exported",
    ),
    "crf": (
        "tag",
        {"family": "tagger", "encoder": TINY, "crf": True},
        "model.crf",
        "a graph scores labels, but a CRF chooses them together",
    ),
    "letters": (
        "tag",
        {"family": "tagger", "encoder": TINY, "letters": {"family": "convolutional"}},
        "model.letters",
        "a graph reads pieces, and no letters",
    ),
    "feedback": (
        "tag",
        {"family": "tagger", "encoder": TINY, "feedback": "output"},
        "model.feedback",
        "a graph scores all words at once, but these one after the other",
    ),
    "matches": (
        "answer",
        {"family": "reader", "encoder": {**TINY, "segments": 3}, "mark_matches": True},
        "model.mark_matches",
        "a graph does not look up the words of a question",
    ),
    "images": (
        "classify_images",
        {"family": "image_classifier", "encoder": {"family": "convolutional"}},
        "data.images",
        "a graph reads images of one size, but these have any",
    ),
    "patches": (
        "classify_images",
        {"family": "image_classifier", "encoder": {**VIT, "alignment": "dot"}},
        "model.encoder.alignment",
        PLAIN,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_graphs_cannot_hold_is_named(case: str) -> None:
    task, model, key, why = REFUSED[case]
    paired = {"data": {"train": {"tsv": "no.tsv", "text": 1, "second": 2, "label": 3}}} if case == "join" else {}
    recipe = random_recipe(task, {"model": model, **paired})
    assert FORMATS["onnx"].refusals(recipe) == FORMATS["torch"].refusals(recipe) == [Refusal(key, why)]
