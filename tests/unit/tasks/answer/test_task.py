"""Readers in training: they start from masked language models, validate by exact match, and say how they are used."""

from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from tests.models.reading import BERT, RECURRENT, fresh_reader, reader_recipe, report_rows, write_reports, write_rows
from tests.models.text import fresh_masked_model, masked_recipe, written
from tests.shared.refusals import refuses

import heedful
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.models.bundle import read_bundle
from heedful.models.networks import MaskedModel, SpanReader
from heedful.runs.training_run import train
from heedful.tasks.answer.task import AnswerTask


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    write_reports(tmp_path)


def started(folder: Path, start: Path, **settings: object) -> Recipe:
    table = recipe_to_json(reader_recipe(folder))
    table["model"] = {"family": "reader"}
    del table["tokenizer"]
    table["train"] |= {"start_from": str(start), "steps": 1, "validation": {"metric": "loss"}, **settings}
    return recipe_from_json(table, "test recipe")


def test_a_reader_starts_from_a_masked_language_model_and_can_freeze_its_encoder(tmp_path: Path) -> None:
    torch.manual_seed(1)
    start = written(fresh_masked_model(masked_recipe(tmp_path)), tmp_path / "bert")
    folder = train(started(tmp_path, start, freeze="encoder"), tmp_path / "run", console=Console(file=StringIO()))
    bundle, before = read_bundle(folder, SpanReader), read_bundle(start, MaskedModel)
    assert bundle.vocabularies["text"].fingerprint == before.vocabularies["text"].fingerprint
    ours, theirs = dict(bundle.model.encoder.named_parameters()), dict(before.model.encoder.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_reader_cannot_start_from_a_recurrent_reader_with_another_encoder(tmp_path: Path) -> None:
    start = written(fresh_reader(reader_recipe(tmp_path, {"encoder": RECURRENT})), tmp_path / "recurrent")
    recipe = started(tmp_path, start)
    table = recipe_to_json(recipe)
    table["model"] = {"family": "reader", "encoder": BERT}
    with refuses('...`model.encoder.family` is "bert", but ... was trained with "recurrent"...'):
        train(recipe_from_json(table, "test recipe"), tmp_path / "run", console=Console(file=StringIO()))


def test_rows_in_memory_train_a_reader(tmp_path: Path) -> None:
    rows = [(row["question"], row["text"], row["answer"]) for row in report_rows(20)]
    recipe = {
        key: value
        for key, value in recipe_to_json(reader_recipe(tmp_path, train={"steps": 2})).items()
        if key in ("tokenizer", "model", "train")
    }
    recipe["data"] = {"batch_tokens": 256, "max_length": 24}
    recipe["train"]["validation"] = {"metric": "exact_match"}
    run = heedful.train(recipe, tmp_path / "run", train=rows, valid=rows[:5], quiet=True)
    assert isinstance(run.model, heedful.Reader)
    assert 0 <= run.model.evaluate(rows[:3]).result.f1 <= 1


def test_a_corpus_that_cannot_be_learned_stops_with_its_line(tmp_path: Path) -> None:
    write_rows(tmp_path / "train.jsonl", [*report_rows(2), {"question": "Who ?", "text": "Ann .", "answer": "Bob"}])
    with refuses(f"{tmp_path}/train.jsonl, line 3: the answer `Bob` does not..."):
        train(reader_recipe(tmp_path), tmp_path / "run", console=Console(file=StringIO()))


def test_the_usage_names_the_verb_and_the_call(tmp_path: Path) -> None:
    command, call = AnswerTask().usage(reader_recipe(tmp_path), Path("runs/x"))
    assert command == 'heedful answer runs/x --question "..." --context report.txt'
    assert call == 'answer("...", "...")'
