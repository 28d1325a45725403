"""Defaults that follow the run, as a user meets them: counted, told, shown, saved, and kept by a resumed run."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console
from tests.shared.refusals import refuses

import heedful
from heedful.cli.main import run as command
from heedful.config.reading.load import load_recipe
from heedful.defaults.apply import describe_defaults, with_followed_defaults, with_values_of
from heedful.defaults.facts import count
from heedful.defaults.images import IMAGES
from heedful.defaults.texts import TEXTS
from heedful.tasks.classify.model import load_classifier

RECIPE = '[data]\ntrain = { tsv = "a.tsv", label = 1, text = 2 }\n[model]\nfamily = "classifier"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    rows = [
        f"{('bad', 'good')[number % 2]}\tthe film was {('dull', 'great')[number % 2]} {number}\n"
        for number in range(40)
    ]
    (tmp_path / "a.tsv").write_text("".join(rows))
    (tmp_path / "my.toml").write_text(RECIPE)
    return tmp_path


def test_texts_letters_and_classes_are_counted(folder: Path) -> None:
    facts = count(TEXTS.rows(load_recipe("my.toml")))
    assert facts is not None
    assert (facts.rows, facts.classes, facts.more) == (40, 2, False)
    assert facts.spaces == 40 * 4
    assert facts.size == sum(len(line.split("\t")[1]) for line in (folder / "a.tsv").read_text().splitlines())


def write_images(folder: Path, side: int) -> None:
    for name in "xyz":
        Image.new("RGB", (side, side)).save(folder / f"{name}.png")
    (folder / "prices.tsv").write_text("".join(f"{name}.png\t{price}\n" for price, name in enumerate("xyz")))
    (folder / "prices.toml").write_text(
        '[data]\ntrain = { tsv = "prices.tsv", image = 1, number = 2 }\n[model]\nfamily = "image_regressor"\n'
    )


def test_images_are_counted_and_the_first_one_is_measured_for_all(folder: Path) -> None:
    write_images(folder, 24)
    facts = count(IMAGES.rows(load_recipe("prices.toml")))
    assert facts is not None
    assert (facts.rows, facts.size, facts.classes) == (3, 3 * 24**2, 0)
    line = describe_defaults(with_followed_defaults(load_recipe("prices.toml")))
    assert line is not None
    assert line.startswith('defaults for 3 images: model.encoder = { family = "convolutional", width = 128, ')


def test_an_image_that_does_not_fit_into_a_batch_is_refused(folder: Path) -> None:
    write_images(folder, 64)
    with refuses("`data.batch_tokens` is 8, but an image ... has 64 patches: ..."):
        heedful.train("prices.toml", folder / "run", ["data.batch_tokens=8"], quiet=True)


def test_data_that_cannot_be_read_changes_nothing(folder: Path) -> None:
    (folder / "a.tsv").unlink()
    said = load_recipe("my.toml")
    assert with_followed_defaults(said) is said


def test_they_are_told_in_one_line(folder: Path) -> None:
    line = describe_defaults(with_followed_defaults(load_recipe("my.toml")))
    assert line is not None
    assert line.startswith(
        'defaults for 40 texts: data.max_length = 1024, model.encoder = { family = "bag", width = 8, ngrams = 2, '
    )
    assert "train.steps = 20, " in line
    assert describe_defaults(load_recipe("my.toml")) is None


def test_config_show_marks_them_and_the_result_is_the_same_recipe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["config", "show", "my.toml"]) == 0
    printed = capsys.readouterr().out
    assert 'family = "bag"  # default for 40 texts' in printed
    assert 'family = "classifier"\n' in printed
    (folder / "shown.toml").write_text(printed)
    resolved = with_followed_defaults(load_recipe("my.toml"))
    assert load_recipe("shown.toml").model_dump() == resolved.model_dump()
    assert with_followed_defaults(load_recipe("shown.toml")).followed is None


def test_a_run_tells_and_saves_them_and_a_resumed_run_keeps_them(folder: Path) -> None:
    small: dict[str, Any] = {"train.steps": 2, "train.checkpoint_every": 1, "train.device": "cpu"}
    screen = StringIO()
    run = heedful.train("my.toml", "run", small, console=Console(file=screen, width=1000))
    assert "defaults for 40 texts: data.max_length = 1024" in screen.getvalue()
    config = json.loads((run / "config.json").read_text())
    assert config["defaults"]["for"] == "40 texts"
    assert "model.encoder" in config["defaults"]["keys"]
    assert config["recipe"]["model"]["encoder"]["family"] == "bag"
    assert load_classifier(run).classify("the film was great 7").label == "good"
    more = {**small, "train.steps": 3}
    (folder / "a.tsv").write_text((folder / "a.tsv").read_text())
    again = heedful.train("my.toml", "run", more, resume=True, quiet=True)
    assert again.recipe.model == run.recipe.model
    assert again.recipe.train.schedule == run.recipe.train.schedule


def test_a_run_from_before_they_existed_resumes_with_what_it_had(folder: Path) -> None:
    said = load_recipe("my.toml", {"train.steps": 9})
    resumed = with_values_of(said, said)  # a run that began with the defaults of the tables
    assert resumed.model_dump() == said.model_dump()


def test_a_run_whose_preset_has_another_dropout_resumes_with_its_own(folder: Path) -> None:
    (folder / "a.en").write_text("a dog\n" * 30)
    (folder / "translate.toml").write_text(
        '[data]\ntrain = { source = "a.en", target = "a.en" }\n[model]\npreset = "small"\n[train]\nsteps = 9\n'
    )
    said = load_recipe("translate.toml")
    run = with_followed_defaults(said)
    assert said.model != run.model
    assert with_values_of(said, run).model == run.model
