"""`heedful explain` as a user sees it."""

import base64
import json
import re
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from heedful.cli.main import run
from heedful.tasks.translate.model import Translator

Capture = pytest.CaptureFixture[str]
BUNDLES = Path(__file__).parents[2] / "golden/bundles"


def explain(model: Path, *arguments: str | Path) -> int:
    return run(["explain", str(model), "--device", "cpu", *map(str, arguments)])


def test_a_page_is_written_and_named(
    reversing_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert explain(reversing_folder, "ant bee", "--text", "cat") == 0
    page = (tmp_path / "explain.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "bee ant" in page
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("heedful: explain.html (")
    assert shown.err.endswith(" kB): open it in a browser.\n")


def test_json_has_every_weight_of_each_text(reversing_folder: Path, reversing: Translator, capsys: Capture) -> None:
    assert explain(reversing_folder, "--json", "--top", "2", "--text", "ant bee", "--text", "cat dog") == 0
    lines = capsys.readouterr().out.splitlines()
    expected = [
        reversing.explain(text, top=2, gradients=True, search=True).to_json() for text in ("ant bee", "cat dog")
    ]
    assert [json.loads(line) for line in lines] == json.loads(json.dumps(expected))


def test_states_are_in_json_on_request(capsys: Capture) -> None:
    assert explain(BUNDLES / "bert", "--json", "--states", "--text", "a film") == 0
    found = json.loads(capsys.readouterr().out)
    (states,) = found["states"]
    assert np.array(states["values"]).shape[1] == len(found["sequences"]["text"]["pieces"])
    for others in ([], ["--svg"], ["--json", "--map"]):
        assert explain(BUNDLES / "bert", "--states", "--text", "a film", *others) == 2
        assert "--states adds to the objects of --json: add --json, and leave out --map." in capsys.readouterr().err


def test_a_given_translation_is_explained(reversing_folder: Path, capsys: Capture) -> None:
    assert explain(reversing_folder, "--json", "--text", "ant bee", "--target-text", "ant bee") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["output"] == "ant bee"
    assert [one["piece"] for one in found["predictions"]] == ["ant", "bee", "</s>"]


def test_a_text_is_also_explained_without_a_head(reversing_folder: Path, capsys: Capture) -> None:
    heads = ("--silence", "cross:1:1", "--silence", "cross:1:2")
    assert explain(reversing_folder, "--json", "--text", "ant bee cat", *heads) == 0
    before, after = map(json.loads, capsys.readouterr().out.splitlines())
    assert (before["change"], after["change"]) == ("", "without cross layer 1 head 1, cross layer 1 head 2")
    assert before["output"] == "cat bee ant"
    assert after["output"] != before["output"]  # it does not see the source
    for wrong, message in (
        (
            "cross:1",
            "--silence cross:1: give a kind (encoder, question, decoder, cross), a layer and a head, counted from 1",
        ),
        ("cross:1:9", "There is no head 9 in layer 1 of `cross`: the model has 1 layer of 2 heads."),
    ):
        assert explain(reversing_folder, "--json", "--text", "ant", "--silence", wrong) == 2
        assert message in capsys.readouterr().err
    assert explain(reversing_folder, "--svg", "--text", "ant", "--silence", "cross:1:1") == 2
    assert "--svg draws one explanation, and --silence adds another: leave out one of them." in capsys.readouterr().err


def test_a_text_is_also_explained_with_another_word(reversing_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    asked = ("--text", "ant bee cat", "--swap", "bee=dog")
    assert explain(reversing_folder, "--json", *asked) == 0
    before, after = map(json.loads, capsys.readouterr().out.splitlines())
    assert (before["text"], after["text"]) == ("ant bee cat", "ant dog cat")
    assert (before["output"], after["output"]) == ("cat bee ant", "cat dog ant")
    assert (after["change"], after["before"]["output"]) == ("bee \N{RIGHTWARDS ARROW} dog", "cat bee ant")
    assert explain(reversing_folder, *asked, "--silence", "cross:1:1", "-o", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"change":"bee \N{RIGHTWARDS ARROW} dog, without cross layer 1 head 1"' in page
    capsys.readouterr()
    refused: list[tuple[tuple[str, ...], str]] = [
        (("--swap", "bee"), "--swap bee: give a word of the text and another, such as dog=cat."),
        (("--swap", "eel=dog"), "The text has no word `eel` to swap:"),
        (
            ("--swap", "bee=dog", "--svg"),
            "--svg draws one explanation, and --swap adds another: leave out one of them.",
        ),
        (
            ("--swap", "bee=dog", "--target-text", "ant"),
            "--swap shows what else the model would write, and --target-text fixes",
        ),
    ]
    for arguments, message in refused:
        assert explain(reversing_folder, "--text", "ant bee cat", *arguments) == 2
        assert message in capsys.readouterr().err
    assert explain(BUNDLES / "images-vit", "some.png", "--swap", "a=b") == 2
    assert "some.png: no such file" in capsys.readouterr().err


def test_texts_are_mapped(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "texts.txt").write_text("The film was dull.\nI liked it.\nA fine film.\n", encoding="utf-8")
    assert explain(BUNDLES / "bert", tmp_path / "texts.txt", "--map", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == ["The film was dull.", "I liked it.", "A fine film."]
    assert sum(row["x"] for row in rows) == pytest.approx(0, abs=1e-4)
    assert explain(BUNDLES / "bert", tmp_path / "texts.txt", "--map", "-o", tmp_path / "map.html") == 0
    assert "How a model sees texts" in (tmp_path / "map.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert explain(BUNDLES / "bert", "-t", "a", "-t", "b", "--map") == 2
    assert "A map needs at least 3" in capsys.readouterr().err
    for name, more in (("parser", ()), ("recurrent-sutskever", ()), ("transformer-languages", ("--to", "de"))):
        assert explain(BUNDLES / name, tmp_path / "texts.txt", "--map", "--json", *more) == 0
        assert len(capsys.readouterr().out.splitlines()) == 3


def test_svg_is_an_image(reversing_folder: Path, capsys: Capture) -> None:
    assert explain(reversing_folder, "--svg", "--text", "ant bee") == 0
    assert ElementTree.fromstring(capsys.readouterr().out).tag.endswith("svg")


@pytest.mark.parametrize(("name", "text"), [
    ("classifier-transformer", "The film was dull."),
    ("classifier-hierarchical", "The film was dull. I liked it."),
    ("classifier-parallel-pairs", "The film was dull.\tI liked it."),
    ("bert", "The [MASK] was dull."),
    ("language-transformer", "the dog sees the tree"),
    ("recurrent-bahdanau", "the dog sees the tree today."),
    ("tagger-transformer", "the dog sees a small fish ."),
    ("parser", "the dog sees a small fish"),
])  # fmt: skip
def test_models_of_every_task_have_a_page(name: str, text: str, tmp_path: Path) -> None:
    assert explain(BUNDLES / name, "--text", text, "-o", tmp_path / "page.html") == 0
    assert '"kind":' in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("arguments", "message"), [
    (["--json", "--svg", "-t", "ant"], "--json and --svg are two forms of the same: leave out one of them."),
    (["--svg", "-t", "ant", "-t", "bee"], "--svg draws one text, but there are 2: give one, or leave out --svg."),
    (
        ["--target-text", "x", "-t", "ant", "-t", "b"],
        "--target-text is the translation of one text, but there are 2: give one.",
    ),
    (["-t", " "], "There is no text: give one, as in `heedful explain MODEL \"some text\"`."),
    (["-t", "ant"] * 101, "There are 101 texts, but a page holds at most 100: give fewer."),
    (["-t", "ant", "-o", "nowhere/page.html"], "there is no folder nowhere"),
])  # fmt: skip
def test_options_that_do_not_fit_together_are_refused(
    reversing_folder: Path, arguments: list[str], message: str, capsys: Capture
) -> None:
    assert explain(reversing_folder, *arguments) == 2
    assert message in capsys.readouterr().err


def test_what_is_for_translators_alone_is_refused_elsewhere(capsys: Capture) -> None:
    for option, value in (("--target-text", "x"), ("--to", "de")):
        assert explain(BUNDLES / "bert", "-t", "a [MASK]", option, value) == 2
        expected = f"{option} is for translators, but the task of this model is `fill`: leave it out."
        assert expected in capsys.readouterr().err


def test_images_and_questions_are_explained(tmp_path: Path, capsys: Capture) -> None:
    pixels = np.fromfunction(lambda y, x, c: (7 * y + 5 * x + 60 * c) % 256, (40, 72, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "some.png")
    assert explain(BUNDLES / "images-vit", tmp_path / "some.png", "-o", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    (held,) = re.findall(r'"png":"data:image/png;base64,([^"]+)"', page)
    assert np.array_equal(np.asarray(Image.open(BytesIO(base64.b64decode(held)))), pixels)
    question = ("--question", "is there a red circle ?")
    assert explain(BUNDLES / "answers-about-images", tmp_path / "some.png", "--json", *question) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["question"], found["image"]["rows"], found["image"]["columns"]) == (question[1], 3, 5)
    assert explain(BUNDLES / "reader", "-t", "Clara Dale found 17 keys.", "--json", "-Q", "Who found keys?") == 0
    assert json.loads(capsys.readouterr().out)["sequences"]["ends"]["texts"] == ["start", "end"]
    refused: list[tuple[tuple[str | Path, ...], str]] = [
        (("images-vit", "-t", "a dog"), "--text gives texts, but"),
        (("images-vit",), "This model reads images:"),
        (
            ("images-vit", tmp_path / "some.png", "--swap", "a=b"),
            "--swap changes words of a text, but this model reads im",
        ),
        (
            ("images-vit", tmp_path / "some.png", "--map"),
            "--map is of texts, but this model reads images: leave it out.",
        ),
        (("images-vit", *[tmp_path / "some.png"] * 101), "There are 101 images, but a page holds at most 100"),
        (
            ("answers-about-images", tmp_path / "some.png"),
            'This model answers questions: add one, as in --question "',
        ),
        (("bert", "-t", "a [MASK]", *question), "--question is for models that answer, but the task of this model is"),
    ]
    for arguments, message in refused:
        assert explain(BUNDLES / str(arguments[0]), *arguments[1:]) == 2
        assert message in capsys.readouterr().err
