"""`tokenizer.extend`: a run whose start gets new pieces, for every kind of model."""

import shutil
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.shared.refusals import refuses

import heedful
from heedful.data.tokenize.extending import extend_tokenizer
from heedful.models.bundle import read_bundle
from heedful.models.networks import reader_of

GOLDEN = Path(__file__).parents[3] / "golden/bundles"
NEW = ["el perro corre por la calle grande", "la gata duerme en la casa", "el perro grande duerme"] * 4
Train = Callable[..., Path]


@pytest.fixture
def adapt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Train further a model of an older version, on texts of another language."""
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a").write_text("".join(f"{text}\n" for text in NEW))
    (tmp_path / "b").write_text("".join(f"{text}\n" for text in ["um cão corre pela rua", "uma gata dorme na rua"] * 6))
    (tmp_path / "documents").write_text("".join(f"{text}\n{text}\n\n" for text in NEW))
    (tmp_path / "t.tsv").write_text("".join(f"{n % 2}\t{text}\n" for n, text in enumerate(NEW)))

    def adapt(
        base: str, out: str, corpus: Mapping[str, Any], lr: float = 1e-30, extend: int | None = 40, **other: Any
    ) -> Path:
        recipe = {
            "data": {"folder": str(tmp_path), "train": corpus, "valid": corpus, "batch_tokens": 200, "max_length": 30},
            "tokenizer": {"extend": extend} if extend else {},
            "train": {
                "steps": 2, "schedule": {"kind": "constant", "lr": lr}, "device": "cpu", "precision": "float32",
                "start_from": str(base if Path(base).exists() else GOLDEN / base), "report": False, "threads": 1,
                "checkpoint_every": 1, **other.pop("train", {}),
            },
            **other.pop("tables", {}),
        }  # fmt: skip
        if not extend:
            del recipe["tokenizer"]
        return heedful.train(recipe, tmp_path / out, console=Console(file=StringIO()), **other).folder

    return adapt


PAIRS = {"source": "a", "target": "a"}
TEXT = {"text": "a", "documents": "file"}


@pytest.mark.parametrize(
    ("base", "corpus"),
    [
        ("transformer", PAIRS),
        ("transformer-pre-norm-rope-separate", PAIRS),
        ("recurrent-bahdanau", PAIRS),
        ("mixed", PAIRS),
        ("language-transformer", TEXT),
    ],
)
def test_rows_of_new_pieces_are_means_of_those_that_they_replace(
    adapt: Train, base: str, corpus: Mapping[str, str]
) -> None:
    was, now = read_bundle(GOLDEN / base, torch.nn.Module), read_bundle(adapt(base, "run", corpus), torch.nn.Module)
    before, after = dict(was.model.named_parameters()), dict(now.model.named_parameters())
    sizes = {name: (was.vocabularies[name].size, now.vocabularies[name].size) for name in was.vocabularies.tokenizers}
    assert all(0 < new - old <= 40 for old, new in sizes.values())
    grown = set()
    for name, weight in after.items():
        old = before[name]
        torch.testing.assert_close(weight[: len(old)] if weight.dim() else weight, old, rtol=0, atol=1e-20)
        if weight.shape != old.shape:
            side = "source" if name.startswith("encoder.") else "target"
            tokenizer = was.vocabularies[side if side in sizes else "text"]
            texts = NEW * (2 if was.vocabularies.joint and corpus is PAIRS else 1)
            made = extend_tokenizer(tokenizer, texts, 40, was.recipe.tokenizer.kind == "char")
            expected = torch.stack([old[list(ids)].mean(0) for ids in made.parts])
            torch.testing.assert_close(weight[len(old) :], expected, rtol=0, atol=1e-6)
            grown.add(name)
    assert grown
    assert now.recipe.tokenizer.extend == 40
    assert now.recipe.tokenizer.kind == was.recipe.tokenizer.kind


def test_a_masked_model_and_its_classifier_grow(adapt: Train) -> None:
    bert = adapt("bert", "bert", {"text": "documents"})
    model = heedful.load(bert, heedful.MaskFiller)
    assert model.vocabularies["text"].size > read_bundle(GOLDEN / "bert", torch.nn.Module).vocabularies["text"].size
    tsv = {"tsv": "t.tsv", "label": 1, "text": 2}
    run = adapt("bert", "classifier", tsv, tables={"model": {"family": "classifier"}})
    found = read_bundle(run, torch.nn.Module)
    reader = reader_of(found.model)
    assert len(reader.embedding.weight) == found.vocabularies["text"].size  # type: ignore[union-attr, arg-type]
    assert heedful.load(run, heedful.TextClassifier).classify(NEW[:1])


def test_a_grown_model_learns_resumes_and_is_a_start_itself(adapt: Train) -> None:
    whole = adapt("transformer", "whole", PAIRS, lr=0.01)
    adapt("transformer", "halves", PAIRS, lr=0.01, train={"steps": 1})
    halves = adapt("transformer", "halves", PAIRS, lr=0.01, resume=True)
    assert (halves / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    further = adapt(str(whole), "further", PAIRS, extend=None)
    grown, again = read_bundle(whole), read_bundle(further)
    assert again.vocabularies.first_difference(grown.vocabularies) is None
    assert again.recipe.tokenizer.extend is None
    twice = read_bundle(adapt(str(whole), "twice", {"source": "b", "target": "b"}, extend=5))
    assert twice.vocabularies["source"].size == grown.vocabularies["source"].size + 5


def test_what_grows_is_told(adapt: Train, tmp_path: Path) -> None:
    console = Console(file=StringIO(), width=300)
    shutil.copytree(GOLDEN / "transformer", tmp_path / "base")
    recipe = {
        "data": {"folder": str(tmp_path), "train": PAIRS, "batch_tokens": 200, "max_length": 30},
        "tokenizer": {"extend": 100_000},
        "train": {"steps": 1, "start_from": str(tmp_path / "base"), "device": "cpu", "report": False},
    }
    heedful.train(recipe, tmp_path / "told", console=console, valid=[])
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    grows = next(line for line in said if line.startswith("the vocabulary grows by "))
    assert grows.endswith(" become " + f"{read_bundle(tmp_path / 'told').vocabularies['source'].size:,}")
    assert ", of 100,000 that were asked for: 300 become " in grows
    assert not [line for line in said if "`tokenizer." in line]


def test_a_model_without_one_row_per_piece_cannot_grow(adapt: Train) -> None:
    tsv = {"tsv": "t.tsv", "label": 1, "text": 2}
    base = adapt_bag(adapt, tsv)
    with refuses(
        "`tokenizer.extend` adds rows to embeddings, but `pooled.encoder.weights` of this model does not have one row "
        "per piece: leave it out."
    ):
        adapt(str(base), "grown", tsv)


def adapt_bag(adapt: Train, tsv: Mapping[str, Any]) -> Path:
    """Train a bag of n-grams with weights."""
    folder = adapt("bert", "unused", tsv, tables={"model": {"family": "classifier"}}, extend=None).parent
    (folder / "old.tsv").write_text("0\tthe cat sat on the mat\n1\ta dog ran to the house\n" * 6)
    encoder = {"family": "bag", "width": 8, "buckets": 50, "weighting": "rarity"}
    recipe = {
        "data": {"folder": str(folder), "train": {**tsv, "tsv": "old.tsv"}, "batch_tokens": 200},
        "tokenizer": {"kind": "word"},
        "model": {"family": "classifier", "encoder": encoder},
        "train": {"steps": 1, "device": "cpu", "report": False, "schedule": {"kind": "constant", "lr": 0.01}},
    }
    return heedful.train(recipe, folder / "bag", quiet=True, valid=[]).folder
