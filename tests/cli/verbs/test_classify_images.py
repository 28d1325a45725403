"""`heedful classify` with a model of images: files and folders in, one line for each image out."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.shared.refusals import like, refuses

import heedful
from heedful.cli.main import run
from heedful.config.reading.load import recipe_from_json
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import write_description, write_weights
from heedful.models.from_recipe.network import build_network

LABELS = ("dark", "light")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that was never trained."""
    folder = tmp_path_factory.mktemp("model")
    encoder = {"family": "vit", "width": 8, "heads": 2, "layers": 1, "inner": 8, "patch": 4, "grid": 2, "channels": 1}
    recipe = recipe_from_json(
        {
            "data": {"train": [{"images": "train"}], "test": [{"images": str(folder / "test"), "name": "test"}]},
            "model": {"family": "image_classifier", "encoder": encoder},
        },
        "recipe",
    )
    torch.manual_seed(1)
    write_description(folder, recipe, Vocabularies({}, LABELS))
    write_weights(folder, build_network(recipe.model, Vocabularies({}, LABELS)))
    for number, label in enumerate(LABELS):
        (folder / "test" / label).mkdir(parents=True)
        Image.fromarray(np.full((8, 6 + number), 250 * number, np.uint8)).save(folder / "test" / label / "a.png")
    return folder


def test_files_and_folders_give_one_line_per_image(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dark, light = model / "test" / "dark" / "a.png", model / "test" / "light" / "a.png"
    assert run(["classify", str(model), str(light), str(model / "test"), "--device", "cpu"]) == 0
    rows = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == [str(light), str(dark), str(light)]
    assert rows[0][1:] == rows[2][1:]
    assert rows[0][1] in LABELS
    assert 0.5 <= float(rows[0][2]) <= 1
    assert run(["classify", str(model), str(dark), "--json", "--device", "cpu"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["image"] == str(dark)
    assert set(found["probabilities"]) == {*LABELS}
    assert run(["classify", str(model), str(dark), "--all", "--device", "cpu"]) == 0
    assert len(capfd.readouterr().out.split("\t")) == 5


def test_a_damaged_image_does_not_stop_the_others(
    model: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole = (model / "test" / "dark" / "a.png").read_bytes()
    for name, data in {"a": whole, "b": whole[:40], "c": whole, "d": b""}.items():
        (tmp_path / f"{name}.png").write_bytes(data)
    common = ["classify", str(model), str(tmp_path), "--device", "cpu"]
    errors = [
        rf"  {tmp_path}/b\.png cannot be decoded \(.*\): copy or download it again\.",
        rf"  {tmp_path}/d\.png is empty, but .*",
    ]
    assert run([*common, "-o", str(tmp_path / "out.txt")]) == 2
    assert re.fullmatch("\n".join(["heedful: 2 errors:", *errors, ""]), capfd.readouterr().err)
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == [str(tmp_path / "a.png"), "", str(tmp_path / "c.png"), ""]
    (tmp_path / "d.png").unlink()
    assert run([*common, "--json"]) == 2
    shown = capfd.readouterr()
    rows = [json.loads(line) for line in shown.out.splitlines()]
    assert [row["image"] for row in rows] == [str(tmp_path / f"{name}.png") for name in "abc"]
    assert rows[0]["label"] == rows[2]["label"]
    assert shown.err == f"heedful: error: {rows[1]['error']}\n"


def test_a_model_of_images_is_evaluated_on_its_test_images(
    model: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["evaluate", str(model), "--device", "cpu"]) == 0
    shown = capfd.readouterr().out
    assert "2 images in " in shown
    assert "accuracy" in shown


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "This model reads images: give their files, or folders of them."),
        (["--text", "a cat"], "--text gives texts, but this model reads images: leave it out."),
        (["none.png"], "none.png: no such file."),
        ([""], "An argument is empty. This model reads images: ..."),
        (["a cat"], "a cat: no such file. This model reads images: ..."),
        (["."], ". has no images in it (.png, .jpg or .webp)."),
        (["words.txt"], "words.txt is not an image but text: it must be PNG, JPEG or WebP."),
    ],
)
def test_what_is_not_an_image_is_refused_in_one_line(
    model: Path,
    arguments: list[str],
    why: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("a line\n")
    assert run(["classify", str(model), *arguments, "--device", "cpu"]) == 2
    assert capfd.readouterr().err.splitlines()[-1] == like(f"...{why}")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["tokens", "MODEL", "--text", "a"], "reads images, which have no tokens: `heedful tokens` is for texts."),
        (["tokens", "RECIPE", "--batch"], "reads images, which have ..."),
        (["embed", "MODEL", "--text", "a"], "--text gives texts, but this ..."),
    ],
)
def test_commands_for_texts_refuse_a_model_of_images(
    model: Path, command: list[str], why: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recipe = tmp_path / "it.toml"
    recipe.write_text('[data]\ntrain = { builtin = "scenes" }\n[model]\nfamily = "image_classifier"\n')
    named = {"MODEL": str(model), "RECIPE": str(recipe)}
    assert run([named.get(word, word) for word in command]) == 2
    assert capfd.readouterr().err.splitlines()[-1] == like(f"...{why}")


def test_rows_in_memory_are_refused_for_images(tmp_path: Path) -> None:
    with refuses(
        "`train` is given in memory, but a classifier of images learns from files: name them in the recipe,..."
    ):
        heedful.train({"model": {"family": "image_classifier"}}, tmp_path / "run", train=[("a", "b")])
