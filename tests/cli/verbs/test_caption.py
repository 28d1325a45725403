"""`heedful caption`: files and folders in, a sentence for each image out."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from tests.shared.refusals import like

import heedful
from heedful.cli.main import run
from heedful.config.reading.load import recipe_from_json
from heedful.data.builtin.scenes import scenes
from heedful.data.builtin.scenes_drawing import draw_scene
from heedful.data.tokenize.training import train_tokenizer
from heedful.data.tokenize.vocabularies import Vocabularies
from heedful.models.bundle import read_description, write_description, write_weights
from heedful.models.from_recipe.network import build_network


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that was never trained, and two images."""
    folder = tmp_path_factory.mktemp("model")
    recipe = recipe_from_json(
        {
            "data": {
                "train": [{"builtin": "scenes"}],
                "test": [{"builtin": "scenes", "part": "test", "count": 3, "name": "unseen"}],
            },
            "tokenizer": {"kind": "word"},
            "model": {
                "family": "captioner",
                "encoder": {"family": "convolutional", "width": 8, "stages": 4, "depth": 1, "positions": "sinusoidal"},
                "decoder": {"family": "recurrent", "width": 8},
            },
            "decode": {"max_extra": 8, "beam": 2},
        },
        "recipe",
    )
    vocabularies = Vocabularies(
        {"text": train_tokenizer(recipe.tokenizer, [one.sentence for one in scenes("train", 50)])}
    )
    torch.manual_seed(1)
    write_description(folder, recipe, vocabularies)
    write_weights(folder, build_network(recipe.model, vocabularies))
    (folder / "photos").mkdir()
    for number, scene in enumerate(scenes("test", 2)):
        Image.fromarray(draw_scene(scene)).save(folder / "photos" / f"{number}.png")
    return folder


def test_files_and_folders_give_one_line_per_image(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    photos = model / "photos"
    cut = ["--beam", "1", "--min-length", "7"]  # this model would write "star" without an end
    assert run(["caption", str(model), str(photos / "1.png"), str(photos), "--device", "cpu", *cut]) == 0
    shown = capfd.readouterr()
    rows = [line.split("\t") for line in shown.out.splitlines()]
    assert [row[0] for row in rows] == [str(photos / f"{number}.png") for number in (1, 0, 1)]
    assert rows[0] == rows[2]
    assert "3 of 3 captions were cut at the maximum length: raise --max-extra to see more of them." in shown.err


def test_several_captions_objects_and_a_file(model: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    image, out = str(model / "photos" / "0.png"), tmp_path / "out.txt"
    common = ["caption", str(model), image, "--device", "cpu"]
    assert run([*common, "-n", "2", "-o", str(out)]) == 0
    lines = [line.split("\t") for line in out.read_text().splitlines()]
    assert [len(line) for line in lines] == [3, 3]
    assert float(lines[0][1]) >= float(lines[1][1])
    assert run([*common, "--json", "--patches", "-n", "2"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["image"] == image
    assert len(found["patches"]) == len(found["tokens"]) == len(found["pieces"])
    assert found["nbest"][0]["text"] == found["text"] == lines[0][2]
    assert run([*common, "--sample", "-n", "3", "--seed", "4", "--beam", "1"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 3


def test_a_damaged_image_does_not_stop_the_others(
    model: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole, out = (model / "photos" / "0.png").read_bytes(), tmp_path / "out.txt"
    for name, data in {"a": whole, "b": whole[:40], "c": whole}.items():
        (tmp_path / f"{name}.png").write_bytes(data)
    common = ["caption", str(model), str(tmp_path), "--device", "cpu"]
    for options in ([], ["-n", "2"]):
        assert run([*common, *options, "-o", str(out)]) == 2
        (error,) = [line for line in capfd.readouterr().err.splitlines() if "cut at the maximum" not in line]
        assert re.match(
            rf"heedful: error: {tmp_path}/b\.png cannot be decoded \(.*\): copy or download it again\.$", error
        )
        paths = [line.split("\t")[0] for line in out.read_text().splitlines()]
        each = 2 if options else 1
        assert paths == [str(tmp_path / "a.png")] * each + [""] + [str(tmp_path / "c.png")] * each
    assert run([*common, "--json", "--max-source", "3"]) == 2
    shown = capfd.readouterr()
    assert [[*json.loads(line)] for line in shown.out.splitlines()] == [["image", "error"]] * 3
    first, *errors = shown.err.splitlines()
    assert first == "heedful: 3 errors:"
    assert errors[0].startswith(f"  {tmp_path}/a.png: Image 1 has ")
    assert errors[2].startswith(f"  {tmp_path}/c.png: Image 3 has ")


def test_a_captioner_is_evaluated_on_its_test_images(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", str(model), "--device", "cpu", "--beam", "1"]) == 0
    shown = capfd.readouterr().out
    assert all(word in shown for word in ("exact", "BLEU", "chrF", "perplexity", "3 images in "))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "This model reads images: ..."),
        (["none.png"], "none.png: no such file."),
        (["PHOTO", "--patches"], "--patches adds to the objects of --json: add --json."),
        (["PHOTO", "-n", "3"], "--n-best is 3, but a beam of 2 finds no more than 2: set --beam to 3 or more."),
        (["PHOTO", "--top-k", "3"], "--top-k applies to sampling: add --sample."),
    ],
)
def test_what_cannot_be_described_is_refused_in_one_line(
    model: Path, arguments: list[str], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    named = [str(model / "photos" / "0.png") if word == "PHOTO" else word for word in arguments]
    assert run(["caption", str(model), *named, "--device", "cpu"]) == 2
    assert capfd.readouterr().err.splitlines()[-1] == like(f"...{why}")


def test_the_doctor_looks_at_captions_and_patches(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = tmp_path / "it.toml"
    model = (
        'encoder = { family = "convolutional", width = 8, stages = 4, depth = 1 }\n'
        'decoder = { family = "recurrent", width = 8 }\n'
    )
    recipe.write_text(
        '[data]\ntrain = { builtin = "scenes", count = 20 }\n[tokenizer]\nkind = "word"\n'
        f'[model]\nfamily = "captioner"\n{model}[train]\nsteps = 3\ndevice = "cpu"\nprecision = "float32"\n'
    )
    assert run(["doctor", str(recipe), "--quick"]) == 0
    shown = capfd.readouterr().out
    assert "20 captions" in shown
    assert "patches" in shown


def test_a_model_without_answers_is_refused_before_standard_input_is_read(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run(["answer", str(model), "-Q", "what is it ?", "-p", str(model / "photos" / "0.png")]) == 2
    assert "is a model that describes images: use `heedful caption`." in capsys.readouterr().err


def test_the_doctor_counts_patches_and_tokens_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "captions.toml"
    recipe.write_text(
        """
        data.train = { builtin = "scenes", count = 4 }
        data.valid = { builtin = "scenes", part = "valid", count = 2 }
        tokenizer.kind = "word"
        model.family = "captioner"
        model.encoder = { family = "convolutional", width = 8, stages = 4, depth = 1, positions = "sinusoidal" }
        model.decoder = { family = "recurrent", width = 8 }
        """
    )
    run(["doctor", str(recipe), "--quick"])
    shown = capsys.readouterr().out
    assert re.search(r"batch       4 inputs, \d+ text tokens and 64 patches\n", shown)
    assert re.search(r"its largest input has \d+ patches or tokens\n", shown)
    assert re.search(r"vocabulary  \d+ pieces\n", shown)


def test_captioners_are_compared_image_by_image(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = shutil.copytree(model, tmp_path / "other")
    recipe, vocabularies = read_description(other)
    torch.manual_seed(2)
    write_weights(other, build_network(recipe.model, vocabularies))
    metrics = ["--metric", "chrf", "--metric", "wer"]
    assert run(["compare", str(model), str(other), "--samples", "100", "--device", "cpu", "--json", *metrics]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["sentences"], found["unit"], found["lengths_of"]) == (3, "image", "reference")
    for result, name in zip(found["metrics"], ("chrf", "wer"), strict=True):
        for side, folder in (("a", model), ("b", other)):
            (evaluation,) = heedful.evaluate(folder, device="cpu", metrics=["chrf", "wer"]).values()
            scores = {score.name: score.value for score in evaluation.scores()}
            assert result[side]["mean"] == pytest.approx(scores[name])
    assert found["metrics"][1]["lower_is_better"]
    for example in (*found["better_a"], *found["better_b"]):
        assert example["score"]["metric"] == "chrF"
        assert example["a"] != example["b"]
