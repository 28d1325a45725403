"""Classifiers of pictures with several labels: what they read, their loss, and a run from pictures to scores."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from tests.contract.pictures.test_classifiers import recipe_of

from heedful.cli.main import run
from heedful.config.corpora.pictures import BuiltinPictures, CsvPictures, JsonlPictures, NpzPictures
from heedful.config.reading.load import recipe_from_json, recipe_to_json
from heedful.config.recipe import Recipe
from heedful.data.batch_layout import StaticShape
from heedful.data.pictures.batches import PictureCollator, picture_streams
from heedful.data.pictures.reading import read_pictures
from heedful.data.token_store import TokenStore
from heedful.errors import UserError
from heedful.nn.layers.pictures.augmentation import Augmentation
from heedful.packed import IGNORED
from heedful.runs.train import train
from heedful.tasks.pictures.classify.model import PictureClassifier
from heedful.tasks.pictures.classify.task import ClassifyPicturesTask
from heedful.training.objectives import PictureClasses


def several(steps: int) -> Recipe:
    """Which colours are in a scene."""
    values: Any = recipe_to_json(recipe_of("convolutional", steps))
    values["model"]["labels"] = "several"
    for split in ("train", "test"):
        values["data"][split][0]["label"] = "colour"
    values["data"]["valid"] = [{"builtin": "scenes", "label": "colour", "part": "valid", "count": 8}]
    return recipe_from_json(values, "recipe")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _quietly(several(5), tmp_path_factory.mktemp("several") / "run")


def _quietly(recipe: Recipe, out: Path, resume: bool = False) -> Path:
    train(recipe, out, resume=resume, console=Console(file=StringIO()))
    return out


# --- labels -----------------------------------------------------------------------------------------------------------


def test_tables_json_lines_arrays_and_scenes_give_any_number_of_labels(tmp_path: Path) -> None:
    for name in "ab":
        Image.new("L", (4, 4)).save(tmp_path / f"{name}.png")
    (tmp_path / "rows.csv").write_text('path,tags\na.png,"red, round,red"\nb.png,\n')
    (tmp_path / "rows.jsonl").write_text(
        '{"path": "a.png", "tags": ["red", 7]}\n{"path": "b.png", "tags": []}\n{"path": "b.png", "tags": "red"}\n'
    )
    np.savez(tmp_path / "rows.npz", x=np.zeros((2, 4, 4), np.uint8), y=np.array(["red,blue", ""]))
    corpora = (
        (CsvPictures(csv="rows.csv", picture="path", label="tags"), [("red", "round"), ()]),
        (JsonlPictures(jsonl="rows.jsonl", picture="path", label="tags"), [("red", "7"), (), ("red",)]),
        (NpzPictures(npz="rows.npz"), [("red", "blue"), ()]),
    )
    for corpus, expected in corpora:
        assert [picture.labels for picture in read_pictures(corpus, str(tmp_path), several=True)] == expected
    for picture in read_pictures(BuiltinPictures(builtin="scenes", label="shape", count=5), several=True):
        assert sorted(picture.labels) == sorted({thing.shape for thing in picture.source.things})  # type: ignore[union-attr]


def test_a_list_of_labels_where_a_picture_has_one_is_refused_with_the_key_that_allows_it(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"path": "a.png", "tags": ["red"]}\n')
    corpus = JsonlPictures(jsonl="rows.jsonl", picture="path", label="tags")
    said = "line 1: field `tags` is a list, but a label is text or a whole number"
    with pytest.raises(UserError, match=r"rows\.jsonl, ") as refusal:
        list(read_pictures(corpus, str(tmp_path)))
    assert str(refusal.value).endswith(f'{said}: for lists set `model.labels = "several"`.')


# --- the loss ---------------------------------------------------------------------------------------------------------


def test_the_loss_is_that_of_every_class_by_itself_and_pictures_that_fill_up_do_not_count() -> None:
    pictures = [np.full((4, 4, 1), 9, np.uint8)] * 3
    store, rows = TokenStore(picture_streams(pictures, [[0, 2], [], [1]])), np.arange(3)
    batch = PictureCollator(4, False, classes=3).batch([store], rows, StaticShape.rows(5, 1))
    assert batch.labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [IGNORED] * 3, [IGNORED] * 3]
    assert batch.labels_of_rows() == [[0, 2], [], [1]]
    scores, smoothing, weight = torch.randn(5, 3), 0.2, torch.tensor([1.0, 2.0, 3.0])
    objective = PictureClasses(smoothing, weight, Augmentation(), 3, several=True)
    predicted = objective.predict(lambda pictures: scores, batch)  # type: ignore[arg-type]
    expected, likelihood = 0.0, 0.0
    for row, truth in zip(scores[:3].double().sigmoid().tolist(), batch.labels.tolist(), strict=False):
        for p, aim, factor in zip(row, truth, weight.tolist(), strict=True):
            soft = aim * (1 - smoothing) + smoothing / 2
            expected -= factor * soft * np.log(p) + (1 - soft) * np.log(1 - p)
            likelihood -= np.log(p if aim else 1 - p)
    sums = objective.score(predicted, batch)
    assert float(sums.loss) == pytest.approx(expected, rel=1e-5)
    assert float(sums.likelihood) == pytest.approx(likelihood, rel=1e-5)


def test_mixed_pictures_have_mixed_labels_and_those_that_fill_up_are_not_mixed_in() -> None:
    pictures = [np.full((4, 4, 1), 9, np.uint8)] * 2
    batch = PictureCollator(4, False, classes=2).batch(
        [TokenStore(picture_streams(pictures, [[0, 1], [1]]))], np.arange(2), StaticShape.rows(3, 1)
    )
    torch.manual_seed(0)
    labels = PictureClasses(0.0, None, Augmentation(mixup=1.0), 2, several=True).draw(batch).labels
    assert labels[0].tolist() == [1, 1]  # the one before it, the last, fills up
    assert labels[1, 1] == 1
    assert 0 < labels[1, 0] <= 0.5
    assert (labels[2] < 0).all()


# --- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_with_several_labels_resumes_bit_identically(trained: Path, tmp_path: Path) -> None:
    _quietly(several(2), tmp_path / "run")
    _quietly(several(5), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


def test_answers_and_scores_are_those_of_a_classifier_of_texts(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = PictureClassifier.load(trained, device="cpu")
    assert model.several
    assert any(fact.startswith("several labels of ") for fact in model._own_facts())
    scenes = BuiltinPictures(builtin="scenes", label="colour", part="test", count=4)
    pictures = list(read_pictures(scenes, several=True))
    found = list(model.stream_pictures(pictures))
    for one in found:
        assert set(one.labels) == {label for label, share in one.probabilities.items() if share > 0.5}
    result = model.evaluate([(picture.pixels(3), list(picture.labels)) for picture in pictures])
    exact = [set(one.labels) == set(picture.labels) for one, picture in zip(found, pictures, strict=True)]
    assert [score.value for score in result.scores() if score.name == "accuracy"] == [sum(exact) / 4]
    assert "micro_f1" in {score.name for score in result.scores()}
    corpus = ClassifyPicturesTask().evaluate(model, scenes)
    assert corpus.to_json()["micro_f1"] == result.to_json()["micro_f1"]
    Image.fromarray(pictures[0].pixels(3)).save(tmp_path / "one.png")
    assert run(["classify", str(trained), str(tmp_path / "one.png"), "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == list(found[0].labels)
