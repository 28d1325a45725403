"""`heedful demo` from end to end, with a model too small to be good."""

import json
from pathlib import Path

import pytest

from heedful.cli.main import run

TINY = """
[data]
train = { builtin = "english-spanish", count = 300 }
valid = { builtin = "english-spanish", part = "valid", count = 10 }
test = { builtin = "english-spanish", part = "test", count = 8 }
batch_tokens = 1000
[tokenizer]
size = 400
[model]
width = 16
heads = 2
layers = 1
inner = 16
[train]
steps = 3
device = "cpu"
precision = "float32"
[decode]
beam = 2
max_extra = 5
"""


def test_the_demo_trains_judges_shows_examples_and_says_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.setattr("heedful.cli.verbs.demo.RECIPE", str(tmp_path / "tiny.toml"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    typed = iter(["The cat sleeps.", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    assert run(["demo", "--out", str(tmp_path / "run")]) == 0
    shown, told = capsys.readouterr()
    assert "no checkpoint" not in told, "a first run has nothing to resume, and does not speak of it"
    assert "of 8 exactly right" in shown
    assert "The two small cats did not see the red house." in shown
    assert "Your turn" in shown
    page = tmp_path / "run" / "explain.html"
    assert f"What the model attends to, on a page: open {page.as_uri()} in a browser." in shown
    written = page.read_text(encoding="utf-8")
    assert written.count('"task":"translate"') == 5
    assert written.count('"name":"beam"') == 5
    assert "heedful translate runs/mine < text.en" in shown
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    capsys.readouterr()
    assert run(["demo", "--out", str(tmp_path / "run"), "--json"]) == 0, "a second demo uses the model that is there"
    found = json.loads(capsys.readouterr().out)
    assert (found["folder"], found["page"]) == (str(tmp_path / "run"), str(page))
    assert "The two small cats did not see the red house." in found["examples"]
    assert found["sentences"] == 8


def test_the_demo_keeps_its_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--set", 'data.test={source="a",target="b"}']) == 2
    assert capsys.readouterr().err == (
        "heedful: error: --set: the demo has data and a task of its own: use `heedful train` for others.\n"
    )


IMAGES = """
[data]
train = { builtin = "scenes", label = "number", count = 40 }
test = { builtin = "scenes", label = "number", part = "test", count = 8 }
images = { height = 64 }
batch_tokens = 640
[model]
family = "image_classifier"
encoder = { family = "convolutional", width = 8, stages = 3, depth = 1 }
[train]
steps = 2
device = "cpu"
precision = "float32"
"""


@pytest.mark.parametrize("coloured", [True, False])
def test_the_demo_of_images_shows_images_and_what_the_model_says_of_them(
    coloured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEEDFUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tiny.toml").write_text(IMAGES)
    monkeypatch.setattr("heedful.cli.verbs.demo.IMAGE_RECIPE", str(tmp_path / "tiny.toml"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: coloured, raising=False)
    assert run(["demo", "--images", "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert " of 8 right (" in shown
    assert shown.count(" is right") == 6
    assert ("▀" in shown) == coloured
    assert (" left of a " in shown or " above a " in shown) != coloured
    image = tmp_path / "run" / "scene.png"
    assert f"heedful classify {tmp_path / 'run'} {image}" in shown
    assert image.is_file()
    assert run(["demo", "--images", "--out", str(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["image"], len(found["examples"])) == (str(image), 6)
    assert 0 <= found["accuracy"] <= 1
