"""Regressors, from rows to numbers: training, use, evaluation, explanation, refusals."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from tests.shared.refusals import refuses

import heedful
from heedful.base.errors import UserError
from heedful.cli.main import run as heedful_command
from heedful.config.reading.load import load_recipe
from heedful.data.tokenize.vocabularies import Scale
from heedful.lab.evaluate_run import report_items
from heedful.models.networks import Regressor
from heedful.tasks.regress.baseline import _PENALTIES, _ridge
from heedful.tasks.regress.objective import NumberError
from heedful.tasks.regress.task import scale_of

WORDS = ["good", "fine", "dull", "bad", "great", "film", "plot", "cast"]
VALUES = {"good": 3.0, "fine": 1.0, "dull": -1.0, "bad": -3.0, "great": 5.0}
TRAIN: dict[str, Any] = {"steps": 20, "precision": "float32", "report": False, "seed": 2}
ENCODER = {"family": "bag", "width": 8, "buckets": 1024, "weighting": "rarity", "ngrams": 2}


def rated(count: int, seed: int = 1) -> list[tuple[str, float]]:
    draw = Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=6)) for _ in range(count)]
    return [(text, 100 + sum(VALUES.get(word, 0.0) for word in text.split())) for text in texts]


def recipe(**model: Any) -> dict[str, Any]:
    table = {"family": "regressor", "encoder": ENCODER, **model}
    return {"model": table, "tokenizer": {"kind": "word"}, "train": {**TRAIN, "validation": {"metric": "spearman"}}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> heedful.Run:
    folder = tmp_path_factory.mktemp("regress")
    schedule = {"train.schedule": {"kind": "linear", "lr": 0.001, "warmup": 0}, "train.validation.every": 10}
    return heedful.train(recipe(), folder / "run", schedule, train=rated(300), valid=rated(60, 2), quiet=True)


def test_a_bag_begins_with_the_solution_of_ridge_regression_and_keeps_the_scale(trained: heedful.Run) -> None:
    model = trained.model
    assert isinstance(model, heedful.TextRegressor)
    scores = {score.name: score.value for score in model.evaluate(rated(80, 3)).scores()}
    assert scores["spearman"] > 0.9
    assert scores["mae"] < 2
    assert model.network.scale.mean == pytest.approx(np.mean([number for _, number in rated(300)]))
    assert "baseline_spearman" in trained.validations[0]
    assert "numbers of mean" in repr(model)


def test_numbers_are_those_of_the_network_and_blank_texts_have_none(trained: heedful.Run) -> None:
    model: Any = trained.model
    one = model.regress("a great film")
    assert model.regress(["a great film", " ", "bad"])[:2] == [one, None]
    assert model.regress("great great great") > model.regress("bad bad bad")
    with refuses("...This model reads single texts: leave out `seconds`..."):
        model.regress(["a"], ["b"])


def test_the_evaluation_has_outputs_items_and_json(trained: heedful.Run) -> None:
    model: Any = trained.model
    found = model.evaluate(rated(20, 4), metrics={"bias": lambda said, true: float(np.mean(said) - np.mean(true))})
    assert len(list(found.outputs())) == 20
    assert next(iter(found.outputs())).count("\t") == 2
    assert set(found.to_json()) >= {"spearman", "pearson", "mae", "rmse", "r2", "loss", "metrics", "texts", "seconds"}
    assert [score.name for score in found.item_scores().scores] == ["spearman", "pearson", "mae"]
    assert found.remarks()[0].startswith("20 texts in ")
    reported = report_items(found.item_scores(), 3)
    assert reported.score == "mae"  # a correlation says nothing of a single text
    errors = [abs(said - true) for said, true in zip(*found.outputs_and_references(), strict=True)]
    assert [item.score for item in reported.best] == pytest.approx(sorted(errors)[:3])


def test_an_explanation_has_the_number(trained: heedful.Run) -> None:
    model: Any = trained.model
    found = model.explain("a great film", gradients=True)
    assert found.output == f"{model.regress('a great film'):.4g}"
    assert found.attention("gradient").weights.shape[-1] == len(found.sequences["text"].pieces)


def test_the_verb_writes_a_number_per_line(
    trained: heedful.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("a great film\n\nbad\n")
    assert heedful_command(["regress", str(trained.folder), str(tmp_path / "texts.txt"), "--device", "cpu"]) == 0
    first, blank, last = capsys.readouterr().out.splitlines()
    assert (blank, float(first) > float(last)) == ("", True)
    assert heedful_command(["regress", str(trained.folder), "-t", "bad", "--json", "--device", "cpu"]) == 0
    assert '"number": ' in capsys.readouterr().out


def test_a_table_with_a_number_column_is_read_and_bad_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("3.5\tgood\n1\tbad\n")
    corpus = {"tsv": "train.tsv", "number": 1, "text": 2}
    made = {**recipe(), "data": {"folder": str(tmp_path), "train": corpus, "valid": corpus}}
    assert load_recipe(made).rules.name == "regress"
    (tmp_path / "train.tsv").write_text("3.5\tgood\nmany\tbad\n")
    with pytest.raises(UserError, match=r"train.tsv, line 2.*many.*must be a (finite )?number"):
        heedful.train(made, tmp_path / "run", console=Console(quiet=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train.label_smoothing": 0.1},
            "`train.label_smoothing` smooths classes, which numbers are not: leave it out",
        ),
        ({"train.r_drop": 1.0}, "`train.r_drop` compares probabilities, which a regressor does not have: leave it out"),
        ({"train.validation.metric": "accuracy"}, "accuracy"),
        ({"model.loss": "cubic"}, '"squared" or "absolute"'),
    ],
)
def test_what_does_not_fit_numbers_is_refused(changes: dict[str, Any], message: str) -> None:
    corpus = {"tsv": "train.tsv", "number": 1, "text": 2}
    with pytest.raises(UserError, match=message):
        load_recipe({**recipe(), "data": {"train": corpus, "valid": corpus}}, changes)


def test_numbers_that_are_all_the_same_are_refused() -> None:
    with refuses("...`data.train` has the number 2 alone, but a regressor needs numbers that differ..."):
        scale_of([2.0, 2.0], "`data.train`")


@pytest.mark.parametrize("squared", [True, False])
def test_the_objective_is_the_error_in_units_of_the_deviation(squared: bool) -> None:
    class Batch:
        inputs, labels = torch.zeros(3), torch.tensor([1.0, 5.0, float("nan")])

    sums = NumberError(2.0, squared)(lambda inputs: torch.tensor([[2.0], [1.0], [7.0]]), Batch())
    errors = [1 / 2, 4 / 2]
    assert float(sums.loss) == pytest.approx(sum(error**2 if squared else error for error in errors))


def test_ridge_on_pixels_is_the_solution_of_its_equation() -> None:
    chance = torch.Generator().manual_seed(1)
    x = torch.randn(40, 5, generator=chance, dtype=torch.float64)
    x, aims = x - x.mean(0), torch.randn(40, 1, generator=chance, dtype=torch.float64)
    unit, eye = float((x @ x.T).diagonal().mean()), torch.eye(5, dtype=torch.float64)
    primal = [x @ torch.linalg.solve(x.T @ x + share * unit * eye, x.T @ aims) for share in _PENALTIES]
    assert sum(torch.allclose(_ridge(x, aims, x).double(), one, atol=1e-5) for one in primal) == 1


def test_a_damaged_scale_is_refused(trained: heedful.Run, tmp_path: Path) -> None:
    config = (trained.folder / "config.json").read_text()
    copied = tmp_path / "model"
    copied.mkdir()
    for path in trained.folder.glob("*.*"):
        (copied / path.name).write_bytes(path.read_bytes())
    (copied / "config.json").write_text(config.replace('"deviation"', '"spread"'))
    with refuses("...`scale` must have the `mean` and the `deviation` of a regressor's numbers..."):
        heedful.load(copied)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("images"), np.random.default_rng(1)
    for split, count in (("train", 40), ("valid", 12)):
        rows = []
        for number in range(count):
            light = int(draw.integers(20, 220))
            Image.fromarray(np.full((8, 8), light, np.uint8)).save(folder / f"{split}{number}.png")
            rows.append(f"{split}{number}.png\t{light / 10}")
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def test_images_have_numbers_too(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = {"family": "convolutional", "width": 8, "stages": 2, "channels": 1}
    made = {
        "data": {
            "folder": str(images),
            **{split: {"tsv": f"{split}.tsv", "image": 1, "number": 2} for split in ("train", "valid")},
        },
        "model": {"family": "image_regressor", "encoder": encoder, "loss": "absolute"},
        "train": {**TRAIN, "validation": {"metric": "mae", "every": 10}, "schedule": {"kind": "linear", "lr": 0.01}},
    }
    run = heedful.train(made, tmp_path / "run", quiet=True)
    model: Any = run.model
    assert isinstance(model, heedful.ImageRegressor)
    found = heedful.evaluate(run.folder, split="valid")["1"]
    assert {"mae", "spearman"} <= {score.name for score in found.scores()}
    assert model.explain(images / "valid0.png").output == f"{model.regress(images / 'valid0.png'):.4g}"
    assert heedful_command(["regress", str(run.folder), str(images / "valid0.png"), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith(str(images / "valid0.png") + "\t")
    assert "of ridge regression on pixels, learned from the 40 training images" in _line(made, tmp_path)


def _line(made: dict[str, Any], folder: Path) -> str:
    from io import StringIO

    shown = StringIO()
    heedful.train(made, folder / "again", {"train.steps": 10}, console=Console(file=shown, width=300))
    return shown.getvalue()


def test_a_regressor_is_no_classifier(trained: heedful.Run) -> None:
    assert isinstance(trained.model.network, Regressor)
    with refuses("...is a model that predicts a number for a text..."):
        heedful.TextClassifier.load(trained.folder)
    assert Scale(1.0, 2.0).deviation == 2.0


def test_documents_have_numbers_too(tmp_path: Path) -> None:
    words, sentences = ({"family": "recurrent", "width": width} for width in (6, 5))
    encoder = {"family": "hierarchical", "words": words, "sentences": sentences, "max_sentence": 6}
    made = recipe(encoder=encoder)
    run = heedful.train(made, tmp_path / "run", {"train.steps": 2}, train=rated(20), valid=rated(5, 2), quiet=True)
    model: Any = run.model
    number, blank = model.regress(["a great film . a good plot .", " "])
    assert (isinstance(number, float), blank) == (True, None)
    assert [*model.stream(["a great film . a good plot ."])] == [number]
